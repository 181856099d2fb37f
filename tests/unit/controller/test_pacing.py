from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from roambench.contract.device_time import DeviceClock
from roambench.controller.pacing import PAUSE_FILE, ClockPace, PauseGate, step_length_s
from roambench.rounds.records import ReplayPaused, RoundRecord


@dataclass
class HandClock:
    """Device time that a test sets; sleeping until a moment is noted and jumps there."""

    at_s: float = 100.0
    woken_s: list[float] = field(default_factory=list)

    def now_ns(self) -> int:
        return round(self.at_s * 1e9)

    async def sleep_until_ns(self, device_ns: int) -> None:
        self.at_s = max(self.at_s, device_ns / 1e9)
        self.woken_s.append(device_ns / 1e9)


class Told(list[RoundRecord]):
    """A journal that is a list."""


def test_a_step_lasts_what_the_clock_says_or_a_part_of_the_traces_own():
    assert step_length_s("answers", 3600.0) is None
    assert step_length_s("clock:2.5", 3600.0) == 2.5
    assert step_length_s("trace:60", 3600.0) == 60.0
    assert step_length_s("trace:0.5", 10.0) == 20.0


def test_steps_are_due_from_the_start_on_and_a_pause_makes_all_of_them_later():
    clock = HandClock()
    pace = ClockPace(10.0, clock)

    async def three_steps() -> None:
        await pace(0)
        clock.at_s += 25.0  # a step too long
        await pace(1)
        pace.shift(7_000_000_000)
        await pace(2)

    asyncio.run(three_steps())
    assert clock.woken_s == [110.0, 120.0, 137.0]
    assert clock.at_s == 137.0


@pytest.mark.parametrize("with_clock", [True, False])
def test_the_gate_holds_while_the_file_is_there_and_the_journal_tells_for_how_long(
    tmp_path: Path, with_clock
):
    clock = DeviceClock(time.monotonic_ns(), 20.0) if with_clock else None
    told = Told()
    said: list[str] = []
    before_ns = clock.now_ns() if clock else time.monotonic_ns()
    gate = PauseGate(tmp_path, told, clock, said.append)

    async def held() -> tuple[int, int]:
        free = await gate(3)
        (tmp_path / PAUSE_FILE).touch()
        waiting = asyncio.create_task(gate(4))
        await asyncio.sleep(0.25)
        assert not waiting.done()
        assert told == [ReplayPaused(4)]
        (tmp_path / PAUSE_FILE).unlink()
        return free, await waiting

    free, held_ns = asyncio.run(held())
    assert free == 0
    assert held_ns >= (0.25e9 * 20 if with_clock else 0.25e9)
    paused, resumed = told
    assert (paused, resumed.step, resumed.clock) == (ReplayPaused(4), 4, "device" if with_clock else "host")
    assert resumed.to_ns - resumed.from_ns == held_ns
    assert before_ns <= resumed.from_ns
    assert said[0] == f"paused after step 4: go on with `roambench resume-replay {tmp_path}`"
