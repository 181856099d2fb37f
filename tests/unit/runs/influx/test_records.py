"""What comes back from a real InfluxDB is what the run folder holds, bit for bit."""

from __future__ import annotations

import math
import re
import struct
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import influx_runs
from influx_servers import Influxd, Shim, free_port, running
from roambench.contract.draws import generator
from roambench.contract.errors import LinkError, RunError
from roambench.contract.phases import Phase, PhaseSpan
from roambench.contract.records import (
    AgentEvent,
    HostSample,
    Reading,
    ReadingFlag,
    RecordKind,
    phase_to_bytes,
)
from roambench.runs.influx.influxql import InfluxQL, InfluxServer
from roambench.runs.influx.records import read_back
from roambench.runs.record_store import RecordStore
from roambench.spool.influx import InfluxWriter
from roambench.spool.influx_settings import InfluxSettings
from roambench.spool.line_protocol import LineEncoder
from roambench.spool.record_context import RecordContext
from roambench.spool.spool import Spool

pytestmark = pytest.mark.lengthy

S = 10**9
EVIL = 'it\'s "quoted", back\\slashed,\nand = on two lines µ'


@pytest.fixture
def bench(influxd: Influxd) -> Iterator[str]:
    """An empty database."""
    influxd.create_database("bench")
    yield "bench"
    influxd.query('DROP DATABASE "bench"')


@pytest.fixture
def database(influxd: Influxd, bench: str) -> Iterator[InfluxQL]:
    with InfluxQL(InfluxServer(influxd.url, bench)) as server:
        yield server


@pytest.fixture(autouse=True)
def any_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the way is tried with every double there is, not with those that a board can measure."""
    monkeypatch.setattr("roambench.runs.record_store._doubt", lambda device, seq, kind, payload: None)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RecordStore]:
    made = RecordStore(tmp_path / "records.sqlite")
    yield made
    made.close()


@pytest.fixture
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., RecordStore]]:
    """Reads a run back."""
    made: list[RecordStore] = []

    def read(server: InfluxQL, run: str = "r-1", **how: Any) -> RecordStore:
        made.append(RecordStore(tmp_path_factory.mktemp("there") / "records.sqlite"))
        read_back(server, run, ("pi-01", "pi-02"), made[-1], **how)
        return made[-1]

    yield read
    for one in made:
        one.close()


def floats(seed: int, count: int) -> list[float]:
    """Doubles of every size and sign, drawn by their bits, and the ones that trip printers up."""
    drawn = generator(seed, "doubles").integers(0, 2**64, count, dtype=np.uint64).view(np.float64)
    hard = [-0.0, 0.0, 5e-324, -5e-324, 1.7976931348623157e308, 2.0**53 + 1, 0.1 + 0.2, 1e21, 1e22, 4.35]
    return [*hard, *(float(value) for value in drawn if math.isfinite(value))]


def copy(store: RecordStore, influxd: Influxd, bench: str, run: str = "r-1") -> None:
    rows = influx_runs.drained(store.path.parent)
    influx_runs.send(influx_runs.lines(rows, run), influxd, bench)


def assert_equal(here: RecordStore, there: RecordStore) -> None:
    assert there.devices() == here.devices()
    for device in here.devices():
        assert there.counts(device) == here.counts(device)
        for name in ("ns", "volts", "amps", "watts", "watt_hours", "flags", "meter_ms"):
            ours, theirs = getattr(here.readings(device), name), getattr(there.readings(device), name)
            assert ours.dtype == theirs.dtype
            assert ours.tobytes() == theirs.tobytes(), name
        assert there.spans(device) == here.spans(device)
        assert there.events(device) == here.events(device)
        assert repr(there.host_table(device).tolist()) == repr(here.host_table(device).tolist())


def fill(store: RecordStore) -> None:
    """Two boards, one with two spools; values and stamps that are easily lost on the way."""
    values = floats(1, 400)
    far = 2**60 + 1  # beyond what a double can count
    for device, spool, first in (("pi-01", "b" * 32, 0), ("pi-01", "a" * 32, far), ("pi-02", "c" * 32, 5)):
        records: list[tuple[int, bytes]] = []
        for index, value in enumerate(values):
            flags = ReadingFlag(index % 32)
            # Two readings in one gulp share a stamp (so do 999 and 1000); now and then a field is missing.
            ns = first + index // 2 * 100_000_007
            volts = math.nan if index % 7 == 3 else value
            meter_ms = 2**32 - 1 - index if index % 3 else -1
            records.append((1, Reading(ns, volts, -value, value, math.nan, flags, meter_ms).to_bytes()))
        records.append((1, Reading(first + 7, math.nan, math.nan, math.nan).to_bytes()))
        for step, phase in enumerate(Phase):
            span = PhaseSpan(
                device, "boot", phase, step, first + step * S, first + step * S, EVIL, "", 2**62 + step
            )
            if phase is Phase.DOWNLOAD:
                stalls = tuple((first + S + k, first + S + k + 1) for k in range(8))
                span = replace(span, first_byte_ns=first + S, last_byte_ns=first + 2 * S, stalls_ns=stalls)
            records.append((2, phase_to_bytes(span)))
        records += [
            (3, AgentEvent(f"kind {EVIL}", first + 3 * S, detail).to_bytes())
            for detail in ("", EVIL, "x" * 60_000)
        ]
        records.append((4, HostSample(first + S).to_bytes()))
        records.append((4, HostSample(first, 0.1, -0.0, 2**61 + 1, 55.1, 1400.0, 0, 3, 0x50005).to_bytes()))
        store.insert(device, spool, [(seq, *record) for seq, record in enumerate(records, start=995)])
    assert store.dead_letters() == []


def test_every_record_comes_back_as_the_run_folder_has_it(store, influxd, bench, database, there):
    fill(store)
    copy(store, influxd, bench)
    assert_equal(store, there(database))
    assert len(there(database).readings("pi-01")) > 800


@pytest.mark.parametrize("rows", [3, 4, 7])
def test_pages_of_any_size_lose_and_repeat_nothing(store, influxd, bench, database, rows, there):
    """Two boots write at the same nanoseconds: two series, so that a page can end between equal times."""
    records = [
        (seq, RecordKind.READING, Reading(seq // 4 * 1000, 5.0, 0.4, float(seq)).to_bytes())
        for seq in range(0, 48_000, 1000)
    ]
    store.insert("pi-01", "a", records)
    rows_a = influx_runs.drained(store.path.parent)
    rows_b = [(device, "b", *rest) for device, _, *rest in rows_a]
    store.insert("pi-01", "b", records)
    influx_runs.send(influx_runs.lines(rows_a, "r-1", "boot-a"), influxd, bench)
    influx_runs.send(influx_runs.lines(rows_b, "r-1", "boot-b"), influxd, bench)
    assert_equal(store, there(database, page_rows=dict.fromkeys(RecordKind, rows)))


def test_only_the_run_that_was_asked_for_is_read(store, influxd, bench, database, there):
    fill(store)
    copy(store, influxd, bench, run="r-1")
    copy(store, influxd, bench, run=EVIL.replace("\n", " ").replace("\\", "/"))
    assert_equal(store, there(database))
    assert_equal(store, there(database, EVIL.replace("\n", " ").replace("\\", "/")))
    for other in ("r-2", "", "r-1' OR run != '", "r-1\\' OR 1=1 --"):
        assert there(database, other).devices() == []


def test_a_record_that_lies_there_under_two_times_is_taken_once(store, influxd, bench, database, there):
    fill(store)
    copy(store, influxd, bench)
    again = [line.rsplit(" ", 1) for line in influx_runs.lines(influx_runs.drained(store.path.parent), "r-1")]
    influx_runs.send((f"{line} {int(ns) + 10**15}" for line, ns in again), influxd, bench)
    assert_equal(store, there(database))


def test_a_version_2_writer_and_a_version_1_reader_mean_the_same(
    store, influxd, influx_shim: Shim, bench, there
):
    fill(store)
    rows = influx_runs.drained(store.path.parent)
    influx_runs.send(influx_runs.lines(rows, "r-1"), influx_shim, bench, api="v2")
    with InfluxQL(InfluxServer(influx_shim.url, bench)) as through_the_shim:
        assert_equal(store, there(through_the_shim))


def test_what_a_board_stored_between_runs_is_none_of_theirs(influxd, bench, database, there, tmp_path):
    """As in the run folder: a board reads its meter all night, and no run was that long."""
    spool = Spool(tmp_path / "spool.sqlite")
    between = RecordContext("boot", "0/1.0", influx_runs.UNIX_MINUS_DEVICE_NS, "smartpower2", "")
    for second, run in enumerate(("", "r-1", "r-2", "", "r-3", "", "r-1")):
        spool.begin_context(replace(between, run=run, clock=f"{second}/1.0"), second * S)
        spool.append(RecordKind.READING, Reading(second * S + 5, 5.0, 0.4, float(second)).to_bytes())
    encoder = LineEncoder("pi-01", spool)
    points = [encoder.line(*record) for record in spool.batch(1000)]
    spool.close()
    influx_runs.send(points, influxd, bench)
    watts = {run: list(there(database, run).readings("pi-01").watts) for run in ("r-1", "r-2", "r-3")}
    assert watts == {"r-1": [1.0, 6.0], "r-2": [2.0], "r-3": [4.0]}


def test_runs_of_versions_that_had_the_phase_as_a_field_are_read_beside_newer_ones(
    store, influxd, bench, database, there
):
    fill(store)
    lines = list(influx_runs.lines(influx_runs.drained(store.path.parent), "r-1"))
    influx_runs.send((line.replace("r-1", "r-2") for line in lines), influxd, bench)
    older = (re.sub(r"^phase(.*),phase=(\w+)(\S*) ", r'phase\1\3 phase="\2",', line) for line in lines)
    influx_runs.send(older, influxd, bench)
    assert_equal(store, there(database))
    assert_equal(store, there(database, "r-2"))


#: A download, but for its stalls.
MOVED = (
    'phase="download",start_ns=1i,end_ns=9i,step=0i,transferred_bytes=1i,first_byte_ns=2i,last_byte_ns=8i,'
    'boot_id="b",order_id="",train_order_id=""'
)


@pytest.mark.parametrize(
    ("point", "reason"),
    [
        ("power,{tags} watts=1.0,flags=32i,{key} 9", "flags should be 0 to 31, got '32'"),
        ("power,{tags} watts=1.0,meter_ms=4294967296i,{key} 9", "meter_ms should be"),
        ('power,{tags} watts=1.0,seq=1i,spool="x" 9', "monotonic_ns should be an integer, got 'None'"),
        ("power,{tags} watts=1.0,seq=1i,monotonic_ns=5i 9", "spool should be text"),
        ('phase,{tags} phase="cooking",start_ns=1i,end_ns=2i,{key} 9', "no phase is 'cooking'"),
        ('phase,{tags} phase="train",start_ns=3i,end_ns=2i,{key} 9', "from 3 to 2 ns"),
        (f'phase,{{tags}} {MOVED},stalls_ns="[[1,2]]",{{key}} 9', "between its first and last byte"),
        (f'phase,{{tags}} {MOVED},stalls_ns="[[3]]",{{key}} 9', "stalls_ns should be a list of stretches"),
        (f"phase,{{tags}} {MOVED},{{key}} 9", "stalls_ns should be text"),
        ('event,{tags} kind="meter ok",{key} 9', "detail should be text"),
    ],
)
def test_a_point_that_no_agent_wrote_is_named(influxd, bench, database, point, reason, there):
    key = 'seq=1i,spool="x",monotonic_ns=5i'
    influx_runs.send([point.format(tags="device=pi-01,run=r-1", key=key)], influxd, bench)
    with pytest.raises(RunError, match=reason.replace("(", r"\(")) as caught:
        there(database)
    assert "'pi-01'" in str(caught.value)
    assert influxd.url in str(caught.value)


def test_an_unknown_database_is_called_so(influxd, there):
    with InfluxQL(InfluxServer(influxd.url, "nobody's")) as server, pytest.raises(LinkError) as caught:
        there(server)
    assert "database not found: nobody's" in str(caught.value)
    assert "DBRP" in str(caught.value)


def test_a_server_that_is_away_is_called_so():
    with (
        InfluxQL(InfluxServer("http://127.0.0.1:1", "b")) as server,
        pytest.raises(LinkError, match=r"http://127\.0\.0\.1:1 .*cannot be reached"),
    ):
        server.select("SHOW DATABASES")


def test_bits_of_doubles_survive(store, influxd, bench, database, there):
    values = floats(2, 3000)
    records = [(seq, 1, Reading(seq, value, 1.0, 1.0).to_bytes()) for seq, value in enumerate(values)]
    store.insert("pi-01", "a", records)
    copy(store, influxd, bench)
    got = there(database).readings("pi-01").volts
    assert [struct.pack("<d", value) for value in values] == [struct.pack("<d", value) for value in got]


def test_a_database_with_accounts_is_read_with_user_and_password(store, tmp_path, monkeypatch, there):
    """InfluxDB 1.x as one protects it: boards may write, readers may read, nobody both."""
    monkeypatch.setenv("INFLUXDB_HTTP_AUTH_ENABLED", "true")
    server = Influxd(tmp_path / "guarded", free_port())
    with running(server):
        for user, text in (
            ("", "CREATE USER admin WITH PASSWORD 'root' WITH ALL PRIVILEGES"),
            ("admin", "CREATE DATABASE bench"),
            ("admin", "CREATE USER boards WITH PASSWORD 'w'"),
            ("admin", "CREATE USER reader WITH PASSWORD 'r:1'"),
            ("admin", "GRANT WRITE ON bench TO boards"),
            ("admin", "GRANT READ ON bench TO reader"),
        ):
            account = {"u": user, "p": "root"} if user else {}
            fields = urllib.parse.urlencode({"q": text, **account})
            with urllib.request.urlopen(f"{server.url}/query?{fields}", b"") as reply:
                assert b"error" not in reply.read()
        fill(store)
        (tmp_path / "token").write_text("boards:w")
        writer = InfluxWriter(
            InfluxSettings(server.url, "bench", api="v1", token_file=str(tmp_path / "token")), print
        )
        rows = influx_runs.drained(store.path.parent)
        writer.write("\n".join(influx_runs.lines(rows, "r-1")).encode())
        writer.close()
        with InfluxQL(InfluxServer(server.url, "bench", token="reader:r:1")) as reader:
            assert_equal(store, there(reader))
        for token in ("", "reader:wrong", "boards:w"):
            with InfluxQL(InfluxServer(server.url, "bench", token=token)) as other, pytest.raises(LinkError):
                there(other)
