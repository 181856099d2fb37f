"""An agent's stores together: both get everything, one's trouble is not the other's, the state is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from influx_servers import Influxd, free_port
from roambench.agent.readings.stores import Stores
from roambench.agent.settings import AgentSettings
from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import LinkError
from roambench.contract.events import EventKind
from roambench.contract.records import Reading, RecordKind
from roambench.spool.consumer import Record
from roambench.spool.gate import Gate
from roambench.spool.influx_settings import InfluxSettings
from roambench.spool.record_context import following
from roambench.spool.spool import Spool


class Bench:
    """Stores of one device, whose controller takes everything at once, unless it is `away`."""

    def __init__(self, folder: Path, influxdb: InfluxSettings) -> None:
        settings = AgentSettings("pi-01", "127.0.0.1:1", "id", str(folder), influxdb=influxdb)
        self.clock = DeviceClock()
        self.spool = Spool(folder / "spool.sqlite", consumers=settings.stores)
        context = following(None, boot_id="b" * 32, clock=self.clock, meter="smartpower2", run="r")
        self.spool.begin_context(context, self.clock.now_ns())
        for i in range(40):
            self.spool.append(RecordKind.READING, Reading(i * 10**9, 5.0, 0.5, 2.5).to_bytes())
        self.gate = Gate()
        self.told: list[tuple[str, str]] = []
        self.at_controller: list[int] = []
        self.away = False
        self.stores = Stores(
            settings,
            self.spool,
            self.clock,
            self.gate,
            self,
            self,
            monitor_period_s=0.01,
        )

    def report_and_log(self, kind: str, detail: str) -> None:
        self.told.append((kind, detail))

    @property
    def is_there(self) -> bool:
        return False

    async def send(self, records: list[Record]) -> int:
        if self.away:
            raise LinkError("no session")
        self.at_controller += [seq for seq, _, _ in records]
        return records[-1][0]


@pytest.fixture
def bench(tmp_path: Path, influxd: Influxd) -> Iterator[Bench]:
    influxd.create_database("stores")
    bench = Bench(tmp_path, InfluxSettings(influxd.url, "stores", api="v1", retry_most_s=0.05))
    yield bench
    bench.spool.close()
    influxd.query('DROP DATABASE "stores"')


@pytest.mark.asyncio
async def test_both_stores_get_everything_and_the_spool_is_empty_then(bench: Bench, influxd: Influxd):
    assert bench.stores.left == {"controller": 41, "influxdb": 41}
    assert await bench.stores.flush(20.0)
    await bench.stores.aclose()
    assert bench.at_controller == list(range(1, 42))
    assert len(influxd.rows('SELECT "seq" FROM "power"', "stores")) == 40
    assert (bench.spool.depth, bench.stores.left, bench.stores.troubles) == (0, {}, [])


@pytest.mark.asyncio
async def test_a_store_in_trouble_is_told_of_and_holds_up_no_other(bench: Bench, influxd: Influxd):
    influxd.query('DROP DATABASE "stores"')
    assert not await bench.stores.flush(20.0)
    assert bench.at_controller == list(range(1, 42))
    assert bench.stores.left == {"influxdb": 41}
    assert [kind for kind, _ in bench.told] == [EventKind.STORE_REFUSES]
    assert "database not found" in bench.stores.troubles[0]
    influxd.create_database("stores")
    assert await bench.stores.flush(20.0)
    assert bench.told[1:] == [(EventKind.STORE_RECOVERED, "influxdb")]
    state = json.loads(bench.stores.state_event(5).detail)
    assert state == {name: {"depth": 0, "dropped": 0, "dead": 0} for name in ("controller", "influxdb")}
    await bench.stores.aclose()


@pytest.mark.asyncio
async def test_the_spools_state_is_in_the_database_but_not_while_the_gate_is_shut(
    bench: Bench, influxd: Influxd
):
    await bench.gate.shut(1.0)
    tasks = bench.stores.start()
    await asyncio.sleep(0.1)
    assert influxd.query("SHOW MEASUREMENTS", "stores") == []
    bench.gate.open()
    async with asyncio.timeout(20):
        while not (points := influxd.rows('SELECT * FROM "bench"', "stores")):
            await asyncio.sleep(0.02)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await bench.stores.aclose()
    assert (points[0]["device"], points[0]["run"], points[0]["dropped"]) == ("pi-01", "r", 0)
    assert 0 <= points[0]["spool_depth"] <= 41


@pytest.mark.asyncio
async def test_a_controller_that_is_gone_is_not_waited_for_and_the_other_store_gets_everything(bench: Bench):
    bench.away = True
    assert not await bench.stores.flush(1e6, waits_for_controller=False)
    assert bench.stores.left == {"controller": 41}
    bench.away = False
    assert await bench.stores.flush(20.0, waits_for_controller=False)  # it is there after all
    await bench.stores.aclose()


@pytest.mark.asyncio
async def test_a_server_that_is_away_costs_the_controller_nothing(tmp_path: Path):
    bench = Bench(tmp_path, InfluxSettings(f"http://127.0.0.1:{free_port()}", "stores"))
    assert not await bench.stores.flush(0.5)
    assert (len(bench.at_controller), bench.stores.left, bench.told) == (41, {"influxdb": 41}, [])
    await bench.stores.aclose()
    bench.spool.close()
