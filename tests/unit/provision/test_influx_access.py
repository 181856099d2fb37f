"""The boards' token may write and do nothing else; the administrator's never leaves this machine."""

import base64
import http.server
import json
import stat
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import pytest
from typer.testing import CliRunner

from influx_servers import Influxd, free_port
from roambench.cli.main import app
from roambench.contract.errors import ConfigError, LinkError
from roambench.provision.influx_access import make_write_only, write_only_statements
from roambench.spool.drain import NotWelcome
from roambench.spool.influx import InfluxWriter
from roambench.spool.influx_settings import InfluxSettings


class GuardedInfluxd(Influxd):
    """With authentication; its first user is an administrator."""

    def command(self) -> list[str]:
        words = super().command()
        config = self.folder / "influx.conf"
        text = config.read_text()
        if "auth-enabled" not in text:
            config.write_text(text.replace("[http]", "[http]\n  auth-enabled = true"))
        return words

    def as_user(self, token: str, statement: str) -> dict[str, Any]:
        database = {} if "CREATE" in statement else {"db": "bench"}
        values = urllib.parse.urlencode({"q": statement, **database})
        headers = {"Authorization": f"Basic {base64.b64encode(token.encode()).decode()}"} if token else {}
        request = urllib.request.Request(f"{self.url}/query", values.encode(), headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=300) as reply:
                (result,) = json.loads(reply.read())["results"]
                return dict(result)
        except urllib.error.HTTPError as error:
            return {"error": error.read().decode()}


@pytest.fixture
def influxd(tmp_path: Path) -> Iterator[GuardedInfluxd]:
    server = GuardedInfluxd(tmp_path / "influxd", free_port())
    server.start()
    try:
        for token, statement in (
            ("", "CREATE USER admin WITH PASSWORD 'secret' WITH ALL PRIVILEGES"),
            ("admin:secret", "CREATE DATABASE bench"),
            ("admin:secret", "CREATE DATABASE other"),
        ):
            assert "error" not in (told := server.as_user(token, statement)), told
        yield server
    finally:
        server.kill()


def test_what_the_command_makes_at_an_influxdb_1_writes_and_does_nothing_else(
    influxd: GuardedInfluxd, tmp_path: Path
) -> None:
    (tmp_path / "admin").write_text("admin:secret\n")
    bench = tmp_path / "bench.toml"
    bench.write_text(
        'name = "small"\n[defaults.meter]\ndriver = "none"\n[controller]\naddress = "10.0.0.1"\n'
        '[[hosts]]\nname = "pi-01"\naddress = "10.0.0.11"\n[influxdb]\n'
        f'url = "http://influx.example:{influxd.port}"\napi = "v1"\nbucket = "bench"\ntoken_file = "boards"\n'
    )
    words = ["fleet", "influx-token", str(bench), "--admin-token-file", str(tmp_path / "admin")]
    token = make_write_only(InfluxSettings(influxd.url, "bench", api="v1"), "admin:secret", "boards")
    (tmp_path / "boards").write_text(token)
    again = CliRunner().invoke(app, words)
    assert isinstance(again.exception, ConfigError)
    assert "is there already" in str(again.exception)

    settings = InfluxSettings(influxd.url, "bench", api="v1", token_file=str(tmp_path / "boards"))
    with closing(InfluxWriter(settings, print)) as writer:
        writer.write(b"power,device=pi-01 watts=2.5 1000")
    other = InfluxSettings(influxd.url, "other", api="v1", token_file=str(tmp_path / "boards"))
    with closing(InfluxWriter(other, print)) as writer, pytest.raises(NotWelcome, match="403"):
        writer.write(b"power watts=1 1")
    for forbidden in ("SELECT * FROM power", "DROP MEASUREMENT power", "CREATE DATABASE mine", "SHOW USERS"):
        assert "error" in influxd.as_user(token, forbidden) or not influxd.as_user(token, forbidden).get(
            "series"
        )
    (series,) = influxd.as_user("admin:secret", "SELECT watts FROM power")["series"]
    assert series["values"][0][1] == 2.5
    with pytest.raises(LinkError) as refused:
        make_write_only(InfluxSettings(influxd.url, "bench", api="v1"), "admin:wrong-secret", "more")
    assert "wrong-secret" not in str(refused.value)


class Influx2(http.server.BaseHTTPRequestHandler):
    """As much of InfluxDB 2 as makes an authorization."""

    asked: ClassVar[list[tuple[str, str, Any]]] = []

    def do_GET(self) -> None:
        kind = self.path.split("?")[0].rsplit("/", 1)[-1]
        self.answer({kind: [{"id": f"{kind}-id"}] if "missing" not in self.path else []})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append((self.path, self.headers["Authorization"], body))
        self.answer({"token": "write-only"})

    def answer(self, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *words: object) -> None:
        pass


def test_at_an_influxdb_2_one_permission_on_one_bucket_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Influx2, "asked", [])
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Influx2) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        token = make_write_only(InfluxSettings(url, "bench", org="lab"), "admin-token", "boards")
        with pytest.raises(LinkError, match="0 orgs for"):
            make_write_only(InfluxSettings(url, "bench", org="missing"), "admin-token", "boards")
        server.shutdown()
        thread.join()
    assert token == "write-only"
    ((path, authorization, body),) = Influx2.asked
    assert (path, authorization) == ("/api/v2/authorizations", "Token admin-token")
    assert body["permissions"] == [
        {"action": "write", "resource": {"type": "buckets", "id": "buckets-id", "orgID": "orgs-id"}}
    ]


def test_names_and_passwords_are_quoted() -> None:
    assert write_only_statements('a"b', "u", "p'; DROP DATABASE x --") == [
        "CREATE USER \"u\" WITH PASSWORD 'p\\'; DROP DATABASE x --'",
        'GRANT WRITE ON "a\\"b" TO "u"',
    ]


def test_the_token_file_is_private(tmp_path: Path) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Influx2) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        bench = tmp_path / "bench.toml"
        bench.write_text(
            'name = "small"\n[defaults.meter]\ndriver = "none"\n[controller]\naddress = "10.0.0.1"\n'
            '[[hosts]]\nname = "pi-01"\naddress = "10.0.0.11"\n[influxdb]\n'
            f'url = "http://0.0.0.0:{server.server_port}"\norg = "lab"\nbucket = "bench"\n'
            'token_file = "boards"\n'
        )
        (tmp_path / "admin").write_text("admin-token\n")
        words = ["fleet", "influx-token", str(bench), "--admin-token-file", str(tmp_path / "admin")]
        done = CliRunner().invoke(app, words)
        server.shutdown()
        thread.join()
    assert done.exit_code == 0, (done.output, done.exception)
    assert (tmp_path / "boards").read_text() == "write-only\n"
    assert stat.S_IMODE((tmp_path / "boards").stat().st_mode) == 0o600
    assert "write-only\n" not in done.output


class Anything(http.server.BaseHTTPRequestHandler):
    """A server that is no InfluxDB, or one that found nothing."""

    reply: ClassVar[bytes] = b""

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.reply)))
        self.end_headers()
        self.wfile.write(self.reply)

    do_POST = do_GET

    def log_message(self, *words: object) -> None:
        pass


@pytest.mark.parametrize(
    ("api", "reply"),
    [
        ("v1", b"<html>welcome</html>"),
        ("v1", b"[]"),
        ("v1", b'{"results": null}'),
        ("v2", b"<html>welcome</html>"),
        ("v2", b'{"orgs": null}'),
        ("v2", b'{"orgs": [{}]}'),
    ],
)
def test_another_server_is_told_from_an_influxdb(
    api: str, reply: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Anything, "reply", reply)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Anything) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        with pytest.raises(LinkError, match=rf"{url}: no answer of an InfluxDB \({api}\)"):
            make_write_only(InfluxSettings(url, "bench", org="lab", api=api), "admin-token", "boards")
        server.shutdown()
        thread.join()


def test_no_token_is_made_that_cannot_be_kept(tmp_path: Path) -> None:
    (tmp_path / "admin").write_text("admin:secret\n")
    bench = tmp_path / "bench.toml"
    bench.write_text(
        '[defaults.meter]\ndriver = "none"\n[controller]\naddress = "10.0.0.1"\n'
        '[[hosts]]\nname = "pi-01"\naddress = "10.0.0.11"\n[influxdb]\n'
        'url = "http://0.0.0.0:1"\nbucket = "bench"\ntoken_file = "secrets/boards"\n'
    )
    words = ["fleet", "influx-token", str(bench), "--admin-token-file", str(tmp_path / "admin")]
    refused = CliRunner().invoke(app, words)
    assert isinstance(refused.exception, ConfigError)
    assert f"there is no folder {tmp_path / 'secrets'}" in str(refused.exception)
