"""The end of a step of the replay: as soon as it is done, or not before a clock says so; pauses; and when its
orders are given.

Pauses are asked for by a file in the run folder (`roambench pause`) and last until it is removed. They begin
at a step's border: all orders of the step are answered, the step stays open while the replay holds.
"""

from __future__ import annotations

import asyncio
import math
import shlex
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Final, Literal, Protocol

from roambench.contract.draws import generator
from roambench.contract.orders import Answer, Order, Vector, rests_of
from roambench.rounds.ports import Fleet, Journal, OnAnswer, keep_all
from roambench.rounds.records import ReplayPaused, ReplayResumed

PAUSE_FILE: Final = "pause"
_LOOK_S: Final = 0.1
#: Its multiples, modulo 1, keep away from each other as far as they can, however many there are.
_GOLDEN: Final = (math.sqrt(5.0) - 1.0) / 2.0


class PacingClock(Protocol):
    """The part of `contract.device_time.DeviceClock` that pacing needs."""

    def now_ns(self) -> int:
        """The present device time."""
        ...

    async def sleep_until_ns(self, device_ns: int) -> None:
        """Wait until a device time."""
        ...


def step_length_s(step_close: str, trace_step_s: float) -> float | None:
    """Device seconds that a step lasts at least: `clock:<s>`, `trace:<factor>`: the trace's own / factor.

    None for `answers`: as fast as possible.
    """
    kind, _, value = step_close.partition(":")
    if kind == "answers":
        return None
    return float(value) if kind == "clock" else trace_step_s / float(value)


class ClockPace:
    """Step t closes no earlier than (t + 1) * `step_s` of device time after `started_ns`, pauses not counted.

    A step whose orders take longer closes when they are answered, and the next ones catch up.
    """

    def __init__(self, step_s: float, clock: PacingClock, first_step: int = 0) -> None:
        """`first_step` begins now."""
        self._step_s = step_s
        self._clock = clock
        self._started_ns = clock.now_ns() - round(first_step * step_s * 1e9)

    async def __call__(self, step: int) -> None:
        """Wait until the step is over by the fleet's clock."""
        due_ns = self._started_ns + round((step + 1) * self._step_s * 1e9)
        await self._clock.sleep_until_ns(due_ns)

    def shift(self, paused_ns: int) -> None:
        """A pause of that much device time is over: everything is due so much later."""
        self._started_ns += paused_ns


class SpreadStarts:
    """A fleet that gives its orders at places of a meter's period, 2 * `dither_s` of device time, that are
    spread evenly: each batch of a kind a golden section of it after the one before.

    How far a phase's sum is off depends on its place between two lines, on all boards that begin together.
    Starts a whole number of periods apart would show meters the same part of each phase for ever, random ones
    some part more often by chance. Orders without a phase that boards rest around do not wait.
    """

    def __init__(self, fleet: Fleet, clock: PacingClock, seed: int, dither_s: float) -> None:
        self._fleet = fleet
        self._clock = clock
        self._first = float(generator(seed, "first start").random())
        self._period_ns = round(2e9 * dither_s)
        self._batches: Counter[type[Order]] = Counter()

    async def perform(self, orders: Sequence[Order], on_answer: OnAnswer = keep_all) -> list[Answer]:
        """Give the orders, less than a period late."""
        measured = [type(order) for order in orders if rests_of(order)]
        if measured and self._period_ns:
            place = (self._first + self._batches[measured[0]] * _GOLDEN) % 1.0
            self._batches[measured[0]] += 1
            now_ns = self._clock.now_ns()
            late_ns = (round(place * self._period_ns) - now_ns) % self._period_ns
            await self._clock.sleep_until_ns(now_ns + late_ns)
        return await self._fleet.perform(orders, on_answer)

    def publish(self, model: Vector | bytes) -> str:
        """Publish it in the fleet."""
        return self._fleet.publish(model)

    def retain(self, digests: Collection[str]) -> None:
        """Forget them in the fleet."""
        self._fleet.retain(digests)


class PauseGate:
    """Holds a run while its folder has the pause file; the journal tells when, and for how long."""

    def __init__(
        self, folder: Path, journal: Journal, clock: PacingClock | None, say: Callable[[str], None]
    ) -> None:
        """`clock` is the boards', whose time goes on; None where device time is modelled and stands still."""
        self._file = folder / PAUSE_FILE
        self._journal = journal
        self._clock = clock
        self._say = say

    async def __call__(self, step: int) -> int:
        """Returns at once, or when the file is gone: after how many ns (of device time, else of the host)."""
        if not self._file.exists():
            return 0
        began_ns = self._now_ns()
        self._journal.append(ReplayPaused(step))
        command = f"roambench resume-replay {shlex.quote(str(self._file.parent))}"
        self._say(f"paused after step {step}: go on with `{command}`")
        while self._file.exists():  # noqa: ASYNC110  another process removes it
            await asyncio.sleep(_LOOK_S)
        ended_ns = self._now_ns()
        clock: Literal["device", "host"] = "host" if self._clock is None else "device"
        self._journal.append(ReplayResumed(step, began_ns, ended_ns, clock))
        held_ns = ended_ns - began_ns
        of = "this machine's time" if self._clock is None else "device time"
        self._say(f"resumed after {held_ns * 1e-9:.1f} s of {of}")
        return held_ns

    async def hold(self, step: int) -> None:
        """The same as a `rounds.run.Pace`."""
        await self(step)

    def _now_ns(self) -> int:
        return time.monotonic_ns() if self._clock is None else self._clock.now_ns()
