"""The way to an InfluxDB: by the environment's proxy, and to IPv6 addresses."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from roambench.spool.drain import Busy, NotWelcome
from roambench.spool.influx_settings import InfluxSettings, url_mistake
from roambench.spool.proxies import proxy_to
from scripted_influx import LINE, Scripted, serving, writing

PLACES = [
    ("http://db.lab:8086", {"http_proxy": "proxy.lab:3128"}, "http://proxy.lab:3128"),
    ("http://db.lab:8086", {"HTTP_PROXY": "http://proxy.lab:3128"}, "http://proxy.lab:3128"),
    ("http://db.lab:8086", {"https_proxy": "http://proxy.lab:3128"}, None),
    ("https://db.lab", {"all_proxy": "http://[fd78::9]:3128"}, "http://[fd78::9]:3128"),
    *(
        (url, {"all_proxy": "http://p:1"}, None)
        for url in ("http://localhost:1", "http://127.0.0.1", "http://127.9.9.9:1", "https://[::1]:8086")
    ),
    *(
        (url, {"all_proxy": "http://p:1", "no_proxy": f"other.example, {entry}"}, found)
        for url, entry, found in (
            ("http://db.lab:8086", "lab", None),
            ("http://db.lab:8086", ".lab", None),
            ("http://db.lab:8086", "db.lab:8086", None),
            ("http://db.lab:8086", "db.lab:8087", "http://p:1"),
            ("http://xdb.lab:8086", "db.lab", "http://p:1"),
            ("http://db.lab:8086", "*.lab", "http://p:1"),
            ("http://10.36.0.1:8086", "10.0.0.0/8", None),
            ("http://11.36.0.1:8086", "10.0.0.0/8", "http://p:1"),
            ("http://[fd78::1]:8086", "fd78::1", None),
            ("http://[fd78::1]:8086", "[fd78::1]", None),
            ("http://[fd78::1]:8086", "fd78::/64", None),
            ("http://[fd79::1]:8086", "fd78::/64", "http://p:1"),
        )
    ),
    ("http://db.lab", {"all_proxy": "http://p:1", "no_proxy": "*"}, None),
]


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    with serving("127.0.0.1") as script:
        yield script


@pytest.fixture
def influxd_of_ipv6() -> Iterator[Scripted]:
    with serving("::1") as script:
        script.answer(204)
        yield script


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    return monkeypatch


@pytest.mark.parametrize(("url", "environment", "expected"), PLACES)
def test_the_environment_says_which_proxy_leads_to_a_server(no_proxies, url, environment, expected):
    for name, value in environment.items():
        no_proxies.setenv(name, value)
    found = proxy_to(url)
    assert (found and found.url) == expected


def test_records_go_by_a_proxy_which_is_no_influxdb_itself(no_proxies, scripted):
    """The stand-in is the proxy: it is asked for the whole address, or to connect, with its own password."""
    no_proxies.setenv("all_proxy", scripted.url.replace("//", "//me:p%40ss@"))
    scripted.answer(204)
    with writing(InfluxSettings("http://[fd78::1]:8086/x", "b", token_env="")) as write:
        write(LINE)
    (path, headers, _) = scripted.requests[0]
    assert path.startswith("http://[fd78::1]:8086/x/api/v2/write?")
    assert (headers["Host"], headers["proxy-authorization"]) == ("[fd78::1]:8086", "Basic bWU6cEBzcw==")
    with writing(InfluxSettings("https://[fd78::1]:8086", "b", token_env="")) as write:
        for _ in range(2):
            with pytest.raises(Busy, match="Tunnel connection failed: 501"):
                write(LINE)
    no_proxies.setenv("all_proxy", "socks5://me:secret@p:1")
    with (
        writing(InfluxSettings("http://db.lab", "b", token_env="")) as write,
        pytest.raises(NotWelcome, match="expected a proxy as http://HOST:PORT in the environment") as caught,
    ):
        write(LINE)
    assert "secret" not in str(caught.value)


def test_an_influxdb_at_an_ipv6_address_is_written_to(no_proxies, influxd_of_ipv6):
    no_proxies.setenv("http_proxy", "http://127.0.0.1:1")
    with writing(InfluxSettings(influxd_of_ipv6.url, "b", token_env="")) as write:
        write(LINE)
    assert influxd_of_ipv6.requests[0][1]["Host"] == influxd_of_ipv6.url.removeprefix("http://")


@pytest.mark.parametrize("url", ["http://fd78::1:8086", "http://2001:db8::1"])
def test_an_ipv6_address_without_brackets_is_told_where_they_stand(url):
    assert "brackets" in (url_mistake(url) or "")
