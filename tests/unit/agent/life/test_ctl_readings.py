"""What `ctl readings` tells of the meter: the newest readings, stamped, with their flags."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from roambench.agent.life.ctl_handler import CtlHandler
from roambench.agent.orders import program_host
from roambench.agent.readings.host_metrics import HostMetrics
from roambench.agent.readings.meter_watch import NEWEST, MeterWatch
from roambench.agent.settings import HostSettings
from roambench.contract.events import EventKind
from roambench.contract.records import AgentEvent, Reading, ReadingFlag

S = 1_000_000_000


class StoppedClock:
    def now_ns(self) -> int:
        return 100 * S


def handler(watch: MeterWatch) -> CtlHandler:
    session: Any = SimpleNamespace(meter=SimpleNamespace(neighbours=(), clock=StoppedClock(), watch=watch))
    others: Any = None
    return CtlHandler(session, others, others)


def told(watch: MeterWatch, *words: str) -> Any:
    async def ask() -> list[str]:
        return [line async for line in handler(watch).answer({"ask": "readings", "words": list(words)})]

    (line,) = asyncio.run(ask())
    return json.loads(line)


def test_the_readings_of_the_last_seconds_come_with_stamps_and_flags() -> None:
    watch = MeterWatch()
    for second, watts in ((50, 1.5), (90, 2.0), (95, math.nan), (99, 3.0)):
        watch.take(
            Reading(second * S, 5.0, 0.4, watts, math.nan, flags=ReadingFlag.INCONSISTENT * (second == 99))
        )
    watch.take(AgentEvent(EventKind.METER_OK, 99 * S, ""))
    assert told(watch, "10") == {
        "now_ns": 100 * S,
        "ns": [90 * S, 95 * S, 99 * S],
        "volts": [5.0, 5.0, 5.0],
        "amps": [0.4, 0.4, 0.4],
        "watts": [2.0, None, 3.0],
        "flags": [0, 0, int(ReadingFlag.INCONSISTENT)],
    }


def test_a_meter_that_tells_readings_and_no_state_is_settled_by_the_first() -> None:
    """Orders wait for that."""
    watch = MeterWatch()
    assert not watch.settled.is_set()
    watch.take(Reading(5, 5.0, 0.4, 2.0))
    assert watch.settled.is_set()


def test_a_meter_that_speaks_for_days_keeps_its_newest() -> None:
    watch = MeterWatch()
    for number in range(NEWEST + 5):
        watch.take(Reading(number * S, 5.0, 0.4, float(number), math.nan))
    assert (len(watch.newest), watch.newest[0].watts, watch.readings) == (NEWEST, 5.0, NEWEST + 5)


def test_of_a_meter_that_speaks_every_100_ms_every_fourth_reading_is_kept() -> None:
    watch = MeterWatch()
    for number in range(40):
        watch.take(Reading(number * S // 10, 5.0, 0.4, float(number), math.nan))
    assert [reading.watts for reading in watch.newest] == [4.0 * n for n in range(10)]
    assert watch.readings == 40


@pytest.mark.parametrize("words", [(), ("soon",), ("nan",), ("inf",)])
def test_seconds_that_are_none_are_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="readings: expected SECONDS"):
        told(MeterWatch(), *words)


@pytest.mark.parametrize(("abi", "confines"), [(-1, False), (1, False), (2, True)])
def test_a_status_says_whether_the_kernel_confines_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, abi: int, confines: bool
) -> None:
    monkeypatch.setattr(program_host, "landlock_abi", lambda: abi)
    spool = SimpleNamespace(consumers={})
    meter: Any = SimpleNamespace(
        clock=StoppedClock(), spool=spool, parts=(), unsent_runs={}, watch=MeterWatch(), neighbours=()
    )
    settings = SimpleNamespace(state_dir=tmp_path)
    session: Any = SimpleNamespace(meter=meter, settings=settings, about=dict)
    status = CtlHandler(session, HostMetrics(HostSettings(), emulated=True), cast(Any, None)).status()
    assert status["confines_programs"] is confines
