"""A run folder's records on their way to a real InfluxDB, through the controller's death and bad records."""

import asyncio
import contextlib
from dataclasses import replace
from pathlib import Path

import pytest

from influx_servers import Influxd, free_port
from roambench.contract.events import EventKind
from roambench.contract.records import AgentEvent, Reading, RecordKind
from roambench.runs.influx.forward import InfluxForwarder
from roambench.runs.record_store import RecordStore
from roambench.spool.influx_settings import InfluxSettings
from roambench.spool.record_context import RecordContext

pytestmark = pytest.mark.lengthy

CONTEXT = RecordContext("b" * 32, "0/1.0", 1_700_000_000 * 10**9, "smartpower2", "another name")


def reading(seq: int, since_s: int = 0) -> tuple[int, int, bytes]:
    return seq, int(RecordKind.READING), Reading((since_s + seq) * 10**9, 5.0, 0.5, seq / 7).to_bytes()


def context_event(seq: int, context: RecordContext = CONTEXT) -> tuple[int, int, bytes]:
    return seq, int(RecordKind.EVENT), context.to_event(seq * 10**9).to_bytes()


@pytest.fixture
def store(tmp_path: Path):
    """Two devices, one of them with two spools: 3 record contexts and 240 readings."""
    store = RecordStore(tmp_path / "records.sqlite")
    for device, spool, since_s in (("pi-01", "aa", 0), ("pi-02", "bb", 0), ("pi-02", "cc", 500)):
        store.insert(device, spool, [context_event(1), *(reading(seq, since_s) for seq in range(2, 82))])
    yield store
    store.close()


def forwarder(store: RecordStore, settings: InfluxSettings, said: list[str] | None = None) -> InfluxForwarder:
    run = RecordContext("", "", 0, "", "r1", "lab", "mohawk")
    return InfluxForwarder(store, run, settings, (said if said is not None else []).append, print, print)


def seqs(influxd: Influxd, database: str) -> list[tuple[str, str, int]]:
    rows = influxd.rows('SELECT "seq", "spool" FROM "power" GROUP BY "device"', database)
    return sorted((row["device"], row["spool"], row["seq"]) for row in rows)


ALL = sorted(
    (device, spool, seq)
    for device, spool in (("pi-01", "aa"), ("pi-02", "bb"), ("pi-02", "cc"))
    for seq in range(2, 82)
)


@pytest.mark.asyncio
async def test_every_spool_is_forwarded_under_the_runs_own_name(store: RecordStore, influxd: Influxd):
    influxd.create_database("all")
    forward = forwarder(store, InfluxSettings(influxd.url, "all", api="v1"))
    assert forward.depth == 243
    assert await forward.flush(20.0)
    assert (forward.depth, forward.dead) == (0, 0)
    await forward.aclose()
    assert seqs(influxd, "all") == ALL
    (tags,) = influxd.query('SHOW TAG VALUES FROM "power" WITH KEY IN ("bench", "run", "system")', "all")
    assert sorted(tags["values"]) == [["bench", "lab"], ["run", "r1"], ["system", "mohawk"]]


@pytest.mark.asyncio
async def test_a_controller_that_died_goes_on_where_it_was_and_knows_the_wall_clock_again(
    store: RecordStore, influxd: Influxd
):
    influxd.create_database("resumed")
    settings = InfluxSettings(influxd.url, "resumed", api="v1")
    first = forwarder(store, settings)
    assert await first.flush(20.0)
    await first.aclose()
    influxd.query('DROP MEASUREMENT "power"', "resumed")
    store.insert("pi-01", "aa", [reading(seq) for seq in range(82, 90)])
    second = forwarder(store, settings)
    assert second.depth == 8  # nothing is sent twice that need not be
    assert await second.flush(20.0)
    await second.aclose()
    rows = influxd.rows('SELECT "seq" FROM "power" GROUP BY "device"', "resumed")
    assert [row["seq"] for row in rows] == list(range(82, 90))
    assert rows[0]["time"] == CONTEXT.unix_ns(82 * 10**9) + 82


@pytest.mark.asyncio
async def test_it_runs_beside_a_run_takes_new_spools_and_outlives_a_server_that_is_away(
    store: RecordStore, tmp_path: Path
):
    influxd = Influxd(tmp_path / "influxd", free_port())
    said: list[str] = []
    settings = InfluxSettings(influxd.url, "later", api="v1", retry_most_s=0.1)
    forward = forwarder(store, settings, said)
    running = asyncio.create_task(forward.run())
    try:
        await asyncio.sleep(0.3)
        await asyncio.to_thread(influxd.start)
        while not said:
            await asyncio.sleep(0.02)
        assert "database not found" in said[0]
        influxd.create_database("later")
        store.insert("pi-03", "dd", [context_event(1), reading(2)])
        async with asyncio.timeout(30):
            while forward.depth:
                await asyncio.sleep(0.05)
        assert said[1:] == [""]  # three spools met the same trouble; it was told once
        assert seqs(influxd, "later") == sorted([*ALL, ("pi-03", "dd", 2)])
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        await forward.aclose()
        influxd.stop()


@pytest.mark.asyncio
async def test_records_that_are_no_points_are_set_aside_and_hold_nothing_up(
    store: RecordStore, influxd: Influxd
):
    influxd.create_database("odd")
    bogus = (83, int(RecordKind.EVENT), AgentEvent(EventKind.RECORD_CONTEXT_BEGINS, 1, "{}").to_bytes())
    store.insert("pi-01", "aa", [bogus, reading(84)])
    store.insert("pi-09", "ee", [reading(1), context_event(2, replace(CONTEXT, run="")), reading(3)])
    forward = forwarder(store, InfluxSettings(influxd.url, "odd", api="v1"))
    assert await forward.flush(20.0)
    assert (forward.depth, forward.dead) == (0, 1)  # a reading before any record context
    await forward.aclose()
    assert seqs(influxd, "odd") == sorted([*ALL, ("pi-01", "aa", 84), ("pi-09", "ee", 3)])
