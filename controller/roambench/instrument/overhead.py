"""Cost of the instrument itself: idle power at rising levels of the agent, in mirrored order. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import scipy

from roambench.contract.duty import DutyLevel
from roambench.contract.errors import ConfigError
from roambench.energy.readings.occupancy import SP2_STEP_W
from roambench.energy.uncertainty import UNCALIBRATED_SP2, MeterCalibration

#: Fewer usable readings than this, and a block says nothing.
MIN_READINGS: Final = 3
#: Times over which idle power may wander, s; what lasts for the first is over in the next part of a block.
_WANDERS_S: Final = (0.1, 6.0, 25.0, 50.0, 100.0, 200.0, 400.0, 800.0, 1600.0)
_PART_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class DutyBlock:
    """One board lived at `level` from `start_ns` to `end_ns` of its device time."""

    level: DutyLevel
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class PowerDifference:
    """Power at one level minus that at another, watts, k = 1; positive: the higher level costs more.

    `u_shared_w` is the part of `u_watts` that comes from rounding: boards that draw the same are rounded
    the same way, so more of them do not make it smaller.
    """

    watts: float
    u_watts: float
    u_shared_w: float = 0.0

    @property
    def resolved(self) -> bool:
        """True where it differs from nothing by more than 2 u."""
        return abs(self.watts) > 2.0 * self.u_watts


@dataclass(frozen=True, slots=True)
class Overhead:
    """Idle power by level and what the parts of the agent add to it, of one board or of several together.

    `levels` are mean watts (their own uncertainty is the meter's; the differences are the result).
    """

    levels: dict[DutyLevel, float]
    agent: PowerDifference  # session held and host looked at, over reading and spooling alone
    streaming: PowerDifference  # draining the records, over that
    instrument: PowerDifference  # both: streaming over reading alone
    readings: int

    def verdict(self) -> str:
        """One sentence, k = 2."""
        cost = self.instrument
        text = f"the instrument costs {cost.watts * 1e3:.0f} ± {2e3 * cost.u_watts:.0f} mW"
        idle_w = self.levels[DutyLevel.READER]
        if cost.resolved:
            return f"{text}, {cost.watts / idle_w:.1%} of idle" if idle_w > 0.0 else text
        bound_w = abs(cost.watts) + 2.0 * cost.u_watts
        return f"{text}: not resolved, less than {bound_w * 1e3:.0f} mW"


def duty_plan(minutes: float) -> tuple[tuple[DutyLevel, ...], float]:
    """Levels and seconds per block for `minutes` in all: a b c c b a, as often as keeps blocks near 20 s.

    The mirrored order lets a steady drift (a board that warms up) cancel from every difference.
    """
    mirrored = (*DutyLevel, *reversed(DutyLevel))
    rounds = max(1, round(minutes * 60.0 / (20.0 * len(mirrored))))
    return mirrored * rounds, minutes * 60.0 / (rounds * len(mirrored))


def board_overhead(
    ns: npt.NDArray[np.int64],
    watts: npt.NDArray[np.float64],
    blocks: Sequence[DutyBlock],
    *,
    settle_s: float = 5.0,
    step_w: float = SP2_STEP_W,
    calibration: MeterCalibration = UNCALIBRATED_SP2,
) -> Overhead:
    """One board's overhead from readings (arrival stamps and raw watts, shape (readings,)) and its blocks.

    A block's first `settle_s` are left out: the session is being dialled, the meter's window still looks
    back. Parts of blocks are fitted by one mean per level and one straight line of drift, about which idle
    power wanders (`_fit`). The meter's offset cancels; its gain does not. A power that moves by less than
    half of `step_w` (standard deviation) is rounded the same way most of the time: then the level is wrong
    by up to half a step, however long one looks. ConfigError when a level has no two blocks worth using.
    """
    seen = [used for block in blocks if (used := _readings_of(ns, watts, block, settle_s)) is not None]
    for level in DutyLevel:
        if sum(used.level is level for used in seen) < 2:
            raise ConfigError(
                [
                    f"overhead: level {level.value!r} has fewer than 2 blocks with {MIN_READINGS} readings; "
                    "measure for longer, or look why the meter was silent"
                ]
            )
    fitted = _fit([part for used in seen for part in used.parts()])
    rounding_w = [
        step_w / math.sqrt(12.0)
        if any(used.watts.std() < 0.5 * step_w for used in seen if used.level is level)
        else 0.0
        for level in DutyLevel
    ]

    def difference(high: DutyLevel, low: DutyLevel) -> PowerDifference:
        order = list(DutyLevel)
        a, b = order.index(high), order.index(low)
        found_w, scatter_w = (watts / calibration.gain for watts in fitted.difference(a, b))
        shared_w = math.hypot(rounding_w[a], rounding_w[b]) / calibration.gain
        return PowerDifference(
            found_w, math.hypot(scatter_w, shared_w, calibration.u_gain * found_w), shared_w
        )

    corrected = calibration.correct(fitted.levels)
    return Overhead(
        {level: float(corrected[index]) for index, level in enumerate(DutyLevel)},
        difference(DutyLevel.AGENT, DutyLevel.READER),
        difference(DutyLevel.STREAMING, DutyLevel.AGENT),
        difference(DutyLevel.STREAMING, DutyLevel.READER),
        sum(len(used.watts) for used in seen),
    )


def mean_overhead(boards: Sequence[Overhead]) -> Overhead:
    """The mean board: each has its own meter, so all errors but those of rounding are independent."""
    count = len(boards)

    def mean(parts: Sequence[PowerDifference]) -> PowerDifference:
        shared_w = math.fsum(part.u_shared_w for part in parts) / count
        own_w = math.sqrt(math.fsum(part.u_watts**2 - part.u_shared_w**2 for part in parts)) / count
        watts = math.fsum(part.watts for part in parts) / count
        return PowerDifference(watts, math.hypot(own_w, shared_w), shared_w)

    return Overhead(
        {level: math.fsum(board.levels[level] for board in boards) / count for level in DutyLevel},
        mean([board.agent for board in boards]),
        mean([board.streaming for board in boards]),
        mean([board.instrument for board in boards]),
        sum(board.readings for board in boards),
    )


@dataclass(frozen=True, slots=True)
class _Part:
    level: DutyLevel
    at_s: float
    watts: float


@dataclass(frozen=True, slots=True)
class _BlockReadings:
    """The usable readings of a block of `level`, shape (readings,), and their stamps."""

    level: DutyLevel
    at_s: npt.NDArray[np.float64]
    watts: npt.NDArray[np.float64]

    def parts(self) -> Iterator[_Part]:
        """Means of two parts or more, each of about `_PART_S`, of equally many readings."""
        count = max(2, round((self.at_s[-1] - self.at_s[0]) / _PART_S))
        for at_s, watts in zip(
            np.array_split(self.at_s, count), np.array_split(self.watts, count), strict=True
        ):
            if len(watts):
                yield _Part(self.level, float(at_s.mean()), float(watts.mean()))


def _readings_of(
    ns: npt.NDArray[np.int64], watts: npt.NDArray[np.float64], block: DutyBlock, settle_s: float
) -> _BlockReadings | None:
    inside = (ns >= block.start_ns + round(settle_s * 1e9)) & (ns < block.end_ns)
    if np.count_nonzero(inside) < MIN_READINGS:
        return None
    return _BlockReadings(block.level, ns[inside].astype(np.float64) * 1e-9, watts[inside])


@dataclass(frozen=True, slots=True)
class _Fitted:
    """Fits of the levels' means at the middle of the time, one for each of `_WANDERS_S`: what the parts say
    for it as a `share` of all, shape (fits,), the `means`, (fits, levels), their `covariances`, and the
    degrees of freedom of each."""

    share: npt.NDArray[np.float64]
    means: npt.NDArray[np.float64]
    covariances: npt.NDArray[np.float64]
    freedom: int

    @property
    def levels(self) -> npt.NDArray[np.float64]:
        """Means per level over all fits, shape (levels,)."""
        return np.asarray(self.share @ self.means)

    def difference(self, a: int, b: int) -> tuple[float, float]:
        """Level `a` minus level `b` and its standard uncertainty: two of it hold what two of a normal
        distribution do (Student)."""
        each, c = self.means[:, a] - self.means[:, b], self.covariances
        watts = float(self.share @ each)
        variance = self.share @ (c[:, a, a] + c[:, b, b] - 2.0 * c[:, a, b] + np.square(each - watts))
        student = float(scipy.special.stdtrit(self.freedom, 0.97725)) / 2.0
        return watts, student * math.sqrt(max(0.0, float(variance)))


def _fit(parts: Sequence[_Part]) -> _Fitted:
    """Fit the parts, ascending, by a mean per level and a straight drift, by generalised least squares.

    What is left is a first-order autoregression, as in `IdleReadings.variance_of`, with one time over which
    idle power wanders. Few minutes do not tell which: each has the likelihood of the parts, for any means,
    drift and scatter, as its share.
    """
    at_s = np.array([part.at_s for part in parts])
    columns = [np.array([float(part.level is level) for part in parts]) for level in DutyLevel]
    watts = np.array([part.watts for part in parts])
    table = np.column_stack([*columns, at_s - at_s.mean(), watts - watts.mean()])
    freedom = len(parts) - len(columns) - 1
    chances, means, covariances = [], [], []
    for wander_s in _WANDERS_S:
        kept = np.exp(-np.diff(at_s) / wander_s)
        fresh = np.append(1.0, np.sqrt(np.maximum(1.0 - kept**2, 1e-6)))
        alone = np.vstack([table[:1], table[1:] - kept[:, None] * table[:-1]]) / fresh[:, None]
        design, seen = alone[:, :-1], alone[:, -1]
        normal = design.T @ design
        covariance = np.linalg.inv(normal)
        fitted = covariance @ (design.T @ seen)
        # Equal readings do not tell their mean exactly: a microwatt.
        square = float(np.square(seen - design @ fitted).sum()) / freedom + 1e-12
        half = 0.5 * float(np.linalg.slogdet(normal)[1]) + 0.5 * freedom * math.log(square)
        chances.append(-float(np.log(fresh).sum()) - half)
        means.append(fitted[: len(columns)] + watts.mean())
        covariances.append(square * covariance)
    share = np.exp(np.array(chances) - max(chances))
    return _Fitted(share / share.sum(), np.array(means), np.array(covariances), freedom)
