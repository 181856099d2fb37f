from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle, pairwise
from pathlib import Path

import numpy as np
import pytest

from roambench.contract.device_time import DeviceClock
from roambench.contract.orders import Answer, IdleOrder, LocalTraining, Order, TrainOrder, UploadOrder, Vector
from roambench.contract.phases import Phase, PhaseSpan
from roambench.energy.account import Method, account_device
from roambench.energy.readings.samples import PowerSamples
from roambench.energy.uncertainty import MeterCalibration
from roambench.experiment.sections import Experiment
from roambench.rounds.ports import OnAnswer, keep_all
from roambench.rounds.records import ReplayPaused, RoundRecord
from roambench.runner.pacing import PAUSE_FILE, ClockPace, PauseGate, SpreadStarts, step_length_s


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

    async def sleep(self, device_s: float) -> None:
        self.at_s += device_s


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


def test_a_run_that_goes_on_is_as_far_as_if_it_had_just_come_there():
    clock = HandClock()
    asyncio.run(ClockPace(10.0, clock, first_step=4)(4))
    assert clock.woken_s == [110.0]


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


@dataclass
class Given:
    """A fleet that is told when orders come, and takes a time for each batch."""

    clock: HandClock
    lasts_s: Iterator[float]
    at_s: list[float] = field(default_factory=list)

    async def perform(self, orders: Sequence[Order], on_answer: OnAnswer = keep_all) -> list[Answer]:
        self.at_s.append(self.clock.at_s)
        self.clock.at_s += next(self.lasts_s)
        return []

    def publish(self, model: Vector | bytes) -> str:
        raise NotImplementedError

    def retain(self, digests: Collection[str]) -> None:
        raise NotImplementedError


TRAIN = TrainOrder("t", 0, 0, 0, "d", LocalTraining(1))
UPLOAD = UploadOrder("u", 0, 0, 0, "t")
IDLE = IdleOrder("i", 0, 0, True)


def started_s(
    dither_s: float, step_close: str, seed: int, lasts_s: Sequence[float], *orders: Order
) -> np.ndarray:
    """When the orders of each step are given, one batch each, shape (steps, batches)."""
    clock, step_s = HandClock(), step_length_s(step_close, 3600.0)
    given = Given(clock, iter(lasts_s))
    fleet = SpreadStarts(given, clock, seed, dither_s)
    pace = None if step_s is None else ClockPace(step_s, clock, 0)

    async def run() -> None:
        for step in range(len(lasts_s) // len(orders)):
            for order in orders:
                await fleet.perform([IDLE, order])
            if pace is not None:
                await pace(step)

    asyncio.run(run())
    return np.array(given.at_s).reshape(-1, len(orders))


def locked(starts_s: np.ndarray) -> tuple[Phase, ...]:
    """Whether downloads that begin with the steps are locked to lines at whole seconds and 0.03 s."""
    lines_ns = (np.arange(0.0, starts_s[-1] + 6.0) + 0.03) * 1e9
    edges_ns = [0, *(round(at_s * 1e9) for start_s in starts_s for at_s in (start_s, start_s + 2.0))]
    edges_ns.append(edges_ns[-1] + 3 * 10**9)
    spans = [
        PhaseSpan("pi-01", "b", phase, 0, start_ns, end_ns)
        for phase, (start_ns, end_ns) in zip(
            cycle((Phase.REST, Phase.DOWNLOAD)), pairwise(edges_ns), strict=False
        )
    ]
    samples = PowerSamples(lines_ns.astype(np.int64), np.full(len(lines_ns), 2.0))
    account = account_device(samples, spans, {}, {}, MeterCalibration(), 0, edges_ns[-1])
    assert account.split.method is Method.RESTS
    return account.split.checks.locked


@pytest.mark.parametrize("step_close", ["answers", "clock:20", "trace:180"])
def test_by_default_steps_start_all_over_the_meters_second(step_close):
    lasts_s = [3.0] * 24
    assert locked(started_s(0.0, step_close, 1, lasts_s, TRAIN)[:, 0]) == (Phase.DOWNLOAD,)
    dither_s = Experiment(systems=["mohawk"]).rounds.dither_s
    for seed in range(20):
        starts_s = started_s(dither_s, step_close, seed, lasts_s, TRAIN)[:, 0]
        assert locked(starts_s) == ()
        if step_close != "answers":  # a late start makes no later step late
            assert np.all(starts_s - starts_s[0] - 20.0 * np.arange(24) < 1.0)


@pytest.mark.parametrize("steps", [4, 8, 12, 24, 60])
@pytest.mark.parametrize("period_s", [0.1, 1.0])
def test_starts_are_spread_evenly_over_a_meters_period_whatever_steps_last(steps: int, period_s: float):
    """Errors of sums, which go with the place between two lines, cancel over evenly spread starts. Of random
    ones, exp(2 pi i place) has a sum whose mean square is `steps`, in one of fifty four times that."""
    for seed in range(50):
        lasts_s = np.random.default_rng(seed).uniform(2.0, 30.0, 2 * steps).tolist()
        starts_s = started_s(0.5 * period_s, "answers", seed, lasts_s, UPLOAD, TRAIN)
        turns = np.exp(2j * np.pi * starts_s / period_s)
        for harmonic, most in ((1, 1.2), (2, 1.6)):
            assert np.all(np.abs((turns**harmonic).sum(axis=0)) < most)
        waited_s = np.diff(starts_s.ravel()) - lasts_s[:-1]
        assert np.all((waited_s > -1e-6) & (waited_s < period_s))


def test_two_seeds_start_at_different_places_and_one_at_the_same():
    places = [started_s(0.5, "answers", seed, [2.0], TRAIN)[0, 0] % 1.0 for seed in range(200)]
    assert np.histogram(places, 5, (0.0, 1.0))[0] == pytest.approx(40, abs=24)  # four standard deviations
    assert started_s(0.5, "answers", 7, [5.5], TRAIN)[0, 0] % 1.0 == pytest.approx(places[7])


def test_orders_without_a_measured_phase_do_not_wait():
    assert started_s(0.5, "answers", 3, [0.25] * 8, IDLE)[:, 0] == pytest.approx(100.0 + 0.25 * np.arange(8))


def test_what_happened_a_few_times_only_is_not_called_locked():
    assert locked(np.arange(1.0, 13.0) * 7.0) == (Phase.DOWNLOAD,)
    assert locked(np.arange(1.0, 5.0) * 7.0) == ()
