"""InfluxQL over HTTP, against servers that answer badly on purpose."""

from __future__ import annotations

import contextlib
import gzip
import json
import threading
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import influx_runs
from influx_servers import Influxd
from roambench.contract.errors import ConfigError, LinkError, RunError
from roambench.contract.records import Reading, RecordKind
from roambench.runs.influx.influxql import InfluxQL, InfluxServer, named, quoted
from roambench.runs.influx.records import read_back

pytestmark = pytest.mark.lengthy

#: (status, headers, body) for a request's path and headers.
Answer = tuple[int, dict[str, str], bytes]
NOTHING = b'{"results":[{}]}'
Script = Callable[[str, dict[str, str]], Answer]


class Scripted(ThreadingHTTPServer):
    """Answers every GET by `script`; remembers what was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.script: Script = lambda path, headers: (200, {}, b"{}")
        self.asked: list[tuple[str, dict[str, str]]] = []

    def always(self, status: int, body: bytes, **headers: str) -> None:
        self.script = lambda path, asked: (status, headers, body)


class _Handler(BaseHTTPRequestHandler):
    server: Scripted

    def do_GET(self) -> None:
        asked = {name.lower(): value for name, value in self.headers.items()}
        self.server.asked.append((self.path, asked))
        status, headers, body = self.server.script(self.path, asked)
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture(scope="module")
def scripted() -> Iterator[Scripted]:
    server = Scripted()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def asking(scripted: Scripted) -> Iterator[InfluxQL]:
    with InfluxQL(InfluxServer(scripted.url, "bench"), timeout_s=5.0) as server:
        yield server


def results(*rows: object, **series: object) -> bytes:
    found = {"name": "power", "columns": ["time", "n"], "values": list(rows), **series}
    return json.dumps({"results": [{"statement_id": 0, "series": [found]}]}).encode()


def test_a_good_answer_becomes_series(scripted, asking):
    scripted.always(200, results([5, 2**62], tags={"device": "pi-01"}))
    (series,) = asking.select("SELECT 1")
    assert (series.tags, series.columns) == ({"device": "pi-01"}, ("time", "n"))
    assert series.rows == [[5, 2**62]]
    path, _ = scripted.asked[-1]
    assert urllib.parse.parse_qs(urllib.parse.urlsplit(path).query) == {
        "db": ["bench"],
        "q": ["SELECT 1"],
        "epoch": ["ns"],
    }


def test_a_server_tells_its_version_when_it_is_pinged(scripted, asking, influxd: Influxd):
    with InfluxQL(InfluxServer(influxd.url, "bench")) as real:
        assert real.ping().startswith("1.6.")
    scripted.always(404, b"a proxy that passes on queries alone")
    assert asking.ping() == ""


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (200, b"", "not JSON"),
        (200, b"<html>", "not JSON"),
        (200, b'{"results":[', "not JSON"),
        (200, b"\xff\xfe\x00", "not JSON"),
        (200, b"[" * 100_000, "not JSON"),
        (200, b'{"results":[{"series":[{"columns":["time"],"values":[[NaN]]}]}]}', "not JSON"),
        (
            200,
            b'{"results":[{"series":[{"columns":["time"],"values":[[' + b"9" * 900 + b"]]}]}]}",
            "not JSON",
        ),
        (200, b"[]", "no table"),
        (200, b"{}", "without one result"),
        (200, b'{"results":[{},{}]}', "without one result"),
        (200, b'{"results":[7]}', "without one result"),
        (200, b'{"results":[{"series":7}]}', "no list"),
        (200, b'{"results":[{"series":[7]}]}', "no table"),
        (200, b'{"results":[{"series":[{"values":[[1]]}]}]}', "without names of columns"),
        (200, b'{"results":[{"series":[{"columns":["time"],"values":[[1,2]]}]}]}', "do not fit"),
        (200, b'{"results":[{"series":[{"columns":["time"],"values":{"a":1}}]}]}', "do not fit"),
        (200, b'{"results":[{"series":[{"columns":["a"],"tags":{"a":1}}]}]}', "tags that are no text"),
        (200, b'{"error":"no such thing"}', "no such thing"),
        (200, b'{"results":[{"error":"database not found: bench"}]}', "DBRP mapping"),
        (401, b'{"error":"authorization failed"}', "401"),
        (403, b"", "may not read"),
        (404, b"404 page not found", "404 with something that is not JSON"),
        (404, b'{"code":"not found","message":"no dbrp mapping found"}', "no dbrp mapping found"),
        (500, b'{"error":"\\u001b[31mboom\\n"}', r"500 \x1b[31mboom"),
        (503, b"{}", "503"),
    ],
)
def test_a_strange_answer_is_one_sentence_that_names_the_server(scripted, asking, status, body, expected):
    scripted.always(status, body)
    with pytest.raises(LinkError) as caught:
        asking.select("SELECT 1")
    assert expected in str(caught.value)
    assert scripted.url in str(caught.value)
    assert str(caught.value).isprintable()


class Kept(list[tuple[int, int, bytes]]):
    """Keeps what a record store would."""

    def insert(self, device: str, spool: str, records: list[tuple[int, int, bytes]]) -> None:
        self += records


def readings_of(asking: InfluxQL, span_ns: tuple[int, int] | None = None) -> list[Reading]:
    read_back(asking, "r-1", ["pi-01"], kept := Kept(), span_ns)
    return [Reading.from_bytes(payload) for _, _, payload in kept]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_mutated_answer_raises_nothing_but_the_projects_errors(scripted, asking, data):
    """Bytes of a good answer are changed, cut and doubled, on the way through the records, too."""
    names = ["time", "volts", "amps", "watts", "wh", "flags", "meter_ms", "spool", "seq", "monotonic_ns"]
    good = results([1, 5.0, 0.4, 2.0, None, 0, -1, "s", 7, 9], columns=names)
    body = bytearray(good)
    scripted.script = lambda path, _: (200, {}, bytes(body) if "FROM+%22power" in path else NOTHING)
    assert [reading.monotonic_ns for reading in readings_of(asking)] == [9]
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    with contextlib.suppress(LinkError, RunError):
        readings_of(asking)


def test_an_answer_that_ends_too_early_is_not_taken_for_all(scripted, asking):
    scripted.always(200, results([1, 2])[:-10], **{"Content-Length": "100000"})
    with pytest.raises(LinkError, match="cannot be reached"):
        asking.select("SELECT 1")


def test_a_compressed_answer_is_read(scripted, asking):
    scripted.always(200, gzip.compress(results([1, 2])), **{"Content-Encoding": "gzip"})
    assert asking.select("SELECT 1")[0].rows == [[1, 2]]


@pytest.mark.parametrize(
    ("token", "header"),
    [("s3cret==", "Token s3cret=="), ("bob:s3cret", "Basic Ym9iOnMzY3JldA=="), ("", None)],
)
def test_a_token_is_sent_to_its_server_and_never_shown(scripted, token, header):
    server = InfluxServer(scripted.url, "bench", token=token)
    scripted.always(307, b"", Location="http://127.0.0.1:1/elsewhere")
    before = len(scripted.asked)
    with InfluxQL(server) as asking, pytest.raises(LinkError) as caught:
        asking.select("SELECT 1")
    assert scripted.asked[before][1].get("authorization") == header
    assert len(scripted.asked) == before + 1  # the redirect was not followed
    assert "s3cret" not in str(caught.value) + repr(server)


@pytest.mark.parametrize(
    "url", ["", "influx", "ftp://a", "http://", "http://u:p@a:1", "http://a:99999", "http://[::1", "a:8086"]
)
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(ConfigError, match="influxdb: "):
        InfluxServer(url, "bench")


@given(st.text(max_size=40))
def test_no_text_ends_its_own_quotes(text):
    """Within the quotes every quote is escaped, and every escape is whole."""
    for quoted_text, mark in ((quoted(text), "'"), (named(text), '"')):
        inner = quoted_text[1:-1].replace("\\\\", "").replace(f"\\{mark}", "")
        assert quoted_text[0] == quoted_text[-1] == mark
        assert mark not in inner
        assert "\n" not in quoted_text


def test_a_server_of_version_3_is_asked_in_windows_of_at_most_72_hours(scripted, asking, influxd: Influxd):
    """InfluxDB 3 Core refuses longer ones; this stand-in passes on to a 1.6 what Core would allow."""
    influxd.create_database("bench")
    hour = 3600 * 10**9
    hours = [(seq, Reading(seq * hour, 5.0, 0.4, float(seq)).to_bytes()) for seq in range(120)]
    rows = [("pi-01", "a", seq, RecordKind.READING, payload) for seq, payload in hours]
    influx_runs.send(influx_runs.lines(rows, "r-1"), influxd, "bench")
    longest = []

    def core(path: str, _: dict[str, str]) -> Answer:
        if path == "/ping":  # the only place where version 3 tells its version
            return 200, {"X-Influxdb-Version": "3.1.0"}, b"{}"
        words = urllib.parse.parse_qs(urllib.parse.urlsplit(path).query)["q"][0].split()
        start, end = (int(words[words.index(sign) + 1]) for sign in (">=", "<"))
        longest.append(end - start)
        if end - start > 72 * hour:
            return 400, {}, b'{"error":"would scan too many Parquet files"}'
        with urllib.request.urlopen(f"{influxd.url}{path}") as reply:
            return 200, {}, reply.read()

    scripted.script = core
    start = influx_runs.UNIX_MINUS_DEVICE_NS
    readings = readings_of(asking, (start - 24 * hour, start + 144 * hour))
    assert [reading.watts for reading in readings] == [float(seq) for seq in range(120)]
    assert max(longest) == 48 * hour
