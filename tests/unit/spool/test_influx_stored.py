"""Writing to a real InfluxDB 1.6 by both endpoints, and to VictoriaMetrics."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from influx_servers import Influxd, Shim, VictoriaMetrics, free_port, running
from roambench.contract.records import Reading, RecordKind
from roambench.spool.drain import Drain
from roambench.spool.influx import InfluxSender, InfluxWriter
from roambench.spool.influx_settings import InfluxSettings
from roambench.spool.line_protocol import LineEncoder
from roambench.spool.record_context import RecordContext
from roambench.spool.spool import Spool


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    """600 readings of 100 Hz whose wall clock is known."""
    spool = Spool(tmp_path / "spool.sqlite", consumers=("influxdb",))
    spool.begin_context(RecordContext("b" * 32, "0/1.0", 1_700_000_000 * 10**9, "smartpower2", "r"), 0)
    for i in range(600):
        spool.append(RecordKind.READING, Reading(i * 10_000_000, 5.0, 0.5, i / 7).to_bytes())
    yield spool
    spool.close()


async def drained(spool: Spool, settings: InfluxSettings) -> bool:
    sender = InfluxSender(InfluxWriter(settings, print), LineEncoder("pi-01", spool))
    done = await Drain(spool.consumers["influxdb"], sender.send, batch_records=128, trouble=print).flush(30.0)
    await sender.aclose()
    return done


@pytest.mark.asyncio
@pytest.mark.parametrize("api", ["v2", "v1"])
async def test_what_a_spool_holds_is_in_a_real_server_once_however_often_it_is_sent(
    spool: Spool, influxd: Influxd, influx_shim: Shim, tmp_path: Path, api: str
):
    database = f"once_{api}"
    influxd.create_database(database)
    settings = InfluxSettings(influx_shim.url if api == "v2" else influxd.url, database, api=api)
    copy = tmp_path / "copy.sqlite"
    spool.sync()
    for suffix in ("", "-wal"):  # what an agent finds that died before it could note the answer
        Path(f"{copy}{suffix}").write_bytes(Path(f"{tmp_path}/spool.sqlite{suffix}").read_bytes())
    assert await drained(spool, settings)
    again = Spool(copy, consumers=("influxdb",))
    assert again.depth == 601
    assert await drained(again, settings)
    again.close()
    rows = influxd.rows('SELECT "seq", "watts", "monotonic_ns" FROM "power"', database)
    assert sorted((row["seq"], row["watts"], row["monotonic_ns"]) for row in rows) == [
        (i + 2, i / 7, i * 10_000_000) for i in range(600)
    ]


@pytest.mark.asyncio
@pytest.mark.parametrize("api", ["v2", "v1"])
async def test_a_point_that_the_server_will_never_take_is_set_aside_with_its_words_and_the_rest_is_stored(
    spool: Spool, influxd: Influxd, influx_shim: Shim, api: str
):
    database = f"conflict_{api}"
    influxd.create_database(database)
    # Somebody has made `detail` a number in this shard: every event conflicts, no reading does.
    influxd_settings = InfluxSettings(influxd.url, database, api="v1")
    writer = InfluxWriter(influxd_settings, print)
    writer.write(b"event,device=pi-01 detail=7 1700000000000000000")
    writer.close()
    settings = InfluxSettings(influx_shim.url if api == "v2" else influxd.url, database, api=api)
    assert await drained(spool, settings)
    consumer = spool.consumers["influxdb"]
    assert (consumer.depth, consumer.dead) == (0, 1)  # the record context's event
    assert len(influxd.rows('SELECT "seq" FROM "power"', database)) == 600
    spool.sync()
    (error,) = spool._rows.execute("SELECT error FROM dead_letters").fetchone()
    assert "field type conflict" in error


@pytest.mark.asyncio
async def test_a_database_that_appears_later_gets_what_waited_for_it(spool: Spool, influxd: Influxd):
    sender = InfluxSender(
        InfluxWriter(InfluxSettings(influxd.url, "later", api="v1"), print), LineEncoder("pi-01", spool)
    )
    said: list[str] = []
    drain = Drain(spool.consumers["influxdb"], sender.send, trouble=said.append, backoff_most_s=0.05)
    running_drain = asyncio.create_task(drain.run())
    while not said:
        await asyncio.sleep(0.01)
    assert "404" in said[0]
    assert "database not found" in said[0]
    assert spool.depth == 601
    influxd.create_database("later")
    async with asyncio.timeout(20):
        while spool.depth:
            await asyncio.sleep(0.01)
    assert said[1:] == [""]
    running_drain.cancel()
    await asyncio.gather(running_drain, return_exceptions=True)
    await sender.aclose()
    assert len(influxd.rows('SELECT "seq" FROM "power"', "later")) == 600


@pytest.mark.asyncio
async def test_a_wrong_token_is_said_and_nothing_is_lost(spool: Spool, influxd: Influxd, tmp_path: Path):
    influxd.create_database("guarded")
    token = tmp_path / "token"
    token.write_text("wrong")
    with running(Shim(tmp_path / "guard", free_port(), influxd, token="right")) as shim:
        settings = InfluxSettings(shim.url, "guarded", token_file=str(token))
        assert not await drained(spool, settings)
        assert spool.depth == 601
        token.write_text("right")
        assert await drained(spool, settings)


@pytest.mark.asyncio
async def test_victoria_metrics_takes_the_same_writes_cut_to_milliseconds_and_keeps_repeats(
    spool: Spool, victoria_metrics: VictoriaMetrics
):
    sender = InfluxSender(
        InfluxWriter(InfluxSettings(victoria_metrics.url, "any"), print), LineEncoder("vm-01", spool)
    )
    records = spool.batch(1000)
    assert await sender.send(records) == 601
    (series,) = victoria_metrics.export('power_watts{device="vm-01"}')
    assert series["metric"]["run"] == "r"
    assert series["timestamps"] == [1_700_000_000_000 + i * 10 for i in range(600)]  # distinct in ms
    assert series["values"] == pytest.approx([i / 7 for i in range(600)], rel=1e-12)
    await sender.send(records)
    await sender.aclose()
    (series,) = victoria_metrics.export('power_watts{device="vm-01"}')
    assert len(series["values"]) == 1200  # it has no key by which a repeat is known
