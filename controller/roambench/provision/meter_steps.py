"""The meter that moves when one board is loaded: step heights against their noise, and what follows; pure.

A board is loaded alone for some seconds, then rests, then comes the next. For each window the mean power of
every meter inside is set against the line through its means in the rests on both sides, so that a slow drift
cancels. The board is on the meter whose power rose, if exactly one did, and clearly more than every other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.energy.idle.baseline import idle_level
from roambench.energy.readings.occupancy import SP2_STEP_W

#: Left out at every border: the load starts late, the meter's window looks back, clocks agree so well.
SETTLE_S: Final = 1.5
#: Logins come before a board is loaded: they cost a core.
LOGIN_S: Final = 2.0
#: A loaded Pi draws 0.8 W (`meters.traits.CORE_W`) more per core; what rises by less is no board at work.
LEAST_STEP_W: Final = 0.3
#: How many standard uncertainties a step must have, and its lead over the next one: few readings tell their
#: own noise badly, so it takes much more than the usual 2.
LEAST_SIGMAS: Final = 6.0
#: Fewer readings on either side show nothing.
_LEAST_READINGS: Final = 3


@dataclass(frozen=True, slots=True)
class PowerSeries:
    """A meter's readings: `at_s` ascending, on the clock of the windows; `watts` of the same shape."""

    at_s: npt.NDArray[np.float64]
    watts: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class BurnWindow:
    """The board was loaded from `start_s` to `end_s` and idle for `rest_s` before and after."""

    board: str
    start_s: float
    end_s: float
    rest_s: float


@dataclass(frozen=True, slots=True)
class PowerStep:
    """By how much a meter's power rose in a window, with its standard uncertainty."""

    meter: str
    watts: float
    u_watts: float

    @property
    def moved(self) -> bool:
        """True if the meter moved beyond its noise."""
        return self.watts >= max(LEAST_STEP_W, LEAST_SIGMAS * self.u_watts)


class Match(StrEnum):
    """The meters that moved while a board was loaded."""

    FOUND = "found"
    NOTHING_MOVED = "nothing moved"
    SEVERAL_MOVED = "several moved"
    NOT_LOADED = "not loaded"
    SHARED = "shared"  # its meter is that of another board, too


@dataclass(frozen=True, slots=True)
class BoardMeter:
    """The windows of one board, judged. `steps`: the largest first, of the window that says least.

    `separation` is the lead of the first over the second in standard uncertainties of their difference
    (infinite without a second): the confidence in the match.
    """

    board: str
    match: Match
    meter: str = ""
    steps: tuple[PowerStep, ...] = ()
    separation: float = 0.0
    reason: str = ""


def steps_in(window: BurnWindow, series: Mapping[str, PowerSeries]) -> list[PowerStep]:
    """The step of every meter that was read on both sides of the window's borders, the largest first."""
    found = []
    for meter, power in series.items():
        parts = (
            _between(power, window.start_s - window.rest_s + SETTLE_S, window.start_s - LOGIN_S),
            _between(power, window.start_s + SETTLE_S, window.end_s),
            _between(power, window.end_s + SETTLE_S, window.end_s + window.rest_s),
        )
        if min(len(part.at_s) for part in parts) < _LEAST_READINGS:
            continue
        before, loaded, after = (idle_level(part.watts, SP2_STEP_W) for part in parts)
        first_s, middle_s, last_s = (float(part.at_s.mean()) for part in parts)
        share = (middle_s - first_s) / (last_s - first_s)  # of the rest behind; a drift is a straight line
        rest_w = (1.0 - share) * before.watts + share * after.watts
        u_w = math.hypot(loaded.u_watts, (1.0 - share) * before.u_watts, share * after.u_watts)
        found.append(PowerStep(meter, loaded.watts - rest_w, u_w))
    return sorted(found, key=lambda step: (-step.watts, step.meter))


def meters_of_boards(
    windows: Sequence[BurnWindow],
    series: Mapping[str, PowerSeries],
    not_loaded: Mapping[str, str] | None = None,
) -> dict[str, BoardMeter]:
    """Each board's meter, if its windows agree on one; `not_loaded` has boards with the reason why."""
    found = {
        board: BoardMeter(board, Match.NOT_LOADED, reason=reason)
        for board, reason in (not_loaded or {}).items()
    }
    by_board: dict[str, list[BoardMeter]] = {}
    for window in windows:
        by_board.setdefault(window.board, []).append(_of_window(window, series))
    found |= {board: _agreed(answers) for board, answers in by_board.items()}
    return _shared(found)


def silent_meters(meters: Iterable[str], series: Mapping[str, PowerSeries]) -> tuple[str, ...]:
    """The meters of which hardly any reading came."""
    return tuple(
        meter for meter in meters if meter not in series or len(series[meter].at_s) < 3 * _LEAST_READINGS
    )


def _between(power: PowerSeries, start_s: float, end_s: float) -> PowerSeries:
    first, last = np.searchsorted(power.at_s, [start_s, end_s])
    return PowerSeries(power.at_s[first:last], power.watts[first:last])


def _of_window(window: BurnWindow, series: Mapping[str, PowerSeries]) -> BoardMeter:
    steps = tuple(steps_in(window, series))
    moved = [step for step in steps if step.moved]
    if not moved:
        return BoardMeter(window.board, Match.NOTHING_MOVED, steps=steps, reason=_nothing(steps))
    lead = _lead(steps)
    if len(moved) > 1 or lead < LEAST_SIGMAS:
        boards = ", ".join(
            f"{step.meter} by {step.watts:.2f} W" for step in (moved if moved[1:] else steps[:2])
        )
        return BoardMeter(
            window.board, Match.SEVERAL_MOVED, steps=steps, separation=lead, reason=f"rose: {boards}"
        )
    return BoardMeter(window.board, Match.FOUND, moved[0].meter, steps, lead)


def _nothing(steps: Sequence[PowerStep]) -> str:
    if not steps:
        return "no meter was read before, during and after"
    return f"largest step: {steps[0].meter} by {steps[0].watts:+.2f} ± {2 * steps[0].u_watts:.2f} W"


def _lead(steps: Sequence[PowerStep]) -> float:
    if len(steps) < 2:
        return math.inf
    first, second = steps[:2]
    u = math.hypot(first.u_watts, second.u_watts)
    return (first.watts - second.watts) / u if u > 0.0 else math.inf


def _agreed(answers: Sequence[BoardMeter]) -> BoardMeter:
    """All windows of a board have to say the same; the least sure of them stands for all."""
    doubtful = next((answer for answer in answers if answer.match is not Match.FOUND), None)
    if doubtful is not None:
        return doubtful
    meters = dict.fromkeys(answer.meter for answer in answers)
    least = min(answers, key=lambda answer: answer.separation)
    if len(meters) > 1:
        return BoardMeter(
            least.board, Match.SEVERAL_MOVED, steps=least.steps, reason=f"once {', once '.join(meters)}"
        )
    return least


def _shared(found: Mapping[str, BoardMeter]) -> dict[str, BoardMeter]:
    boards: dict[str, list[str]] = {}
    for board, answer in found.items():
        if answer.match is Match.FOUND:
            boards.setdefault(answer.meter, []).append(board)
    judged = {}
    for board, answer in found.items():
        others = [other for other in boards.get(answer.meter, ()) if other != board]
        if answer.match is Match.FOUND and others:
            reason = f"{answer.meter} moved for {', '.join(others)}, too"
            answer = BoardMeter(board, Match.SHARED, "", answer.steps, answer.separation, reason)
        judged[board] = answer
    return judged
