"""What the stage of real agents does before the first step."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from roambench.contract.records import Reading, RecordKind
from roambench.runner.agents.watch import RunningJoules
from roambench.runner.places.ready_agents import ReadyAgents


class Recorded:
    """Bench and run folder in one: they note in which order they were asked, and for what."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.info = SimpleNamespace(device_names=())
        self.clocks, self.clock, self.agents_fleet = self, self, self
        self.watch = SimpleNamespace(joules=RunningJoules())

    async def before(self, known: object) -> None:
        self.asked.append("clocks")

    def now_ns(self) -> int:
        return 7

    def hush(self, on: bool) -> None:
        """Queues a request, which leaves when the loop gets its turn."""

    async def idle(self, device_s: float) -> None:
        self.asked.append(f"silence for {device_s:g} s")

    def update(self, **changes: object) -> None:
        self.asked.append(f"disk: {changes}")


@pytest.mark.asyncio
async def test_the_request_for_silence_leaves_before_the_disk_holds_the_controller_up() -> None:
    """What is written meanwhile is when the baseline began, not when it was written."""
    both = cast(Any, Recorded())
    experiment = cast(Any, SimpleNamespace(energy=SimpleNamespace(idle_baseline_s=60.0)))
    await ReadyAgents(both, both, experiment, 1.0, both, both).begin(None, 0.0)
    assert both.asked == ["clocks", "silence for 60 s", "disk: {'start_device_ns': 7}"]


@pytest.mark.asyncio
async def test_joules_so_far_are_those_from_the_begin_of_the_run_on() -> None:
    """2 W for a second while agents got ready, and for one second of the run."""
    both = cast(Any, Recorded())
    joules: RunningJoules = both.watch.joules

    def read(second: int) -> None:
        reading = Reading(second * 1_000_000_000, 5.0, 0.4, 2.0)
        joules.add("pi-01", [(second, RecordKind.READING, reading.to_bytes())])

    for second in (0, 1):
        read(second)
    assert joules.total_j == pytest.approx(2.0)
    experiment = cast(Any, SimpleNamespace(energy=SimpleNamespace(idle_baseline_s=60.0)))
    await ReadyAgents(both, both, experiment, 1.0, both, both).begin(None, 0.0)
    read(2)
    assert joules.total_j == pytest.approx(2.0)
