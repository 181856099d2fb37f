"""Cost of the instrument itself: idle power at rising levels of the agent, in mirrored order. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.contract.duty import DutyLevel
from roambench.contract.errors import ConfigError
from roambench.energy.idle.baseline import idle_level
from roambench.energy.readings.occupancy import SP2_STEP_W
from roambench.energy.uncertainty import UNCALIBRATED_SP2, MeterCalibration

#: Fewer usable readings than this, and a block says nothing.
MIN_READINGS: Final = 3


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
    back. Block means are fitted by one mean per level and one straight line of drift; where they scatter
    more than their readings do, the scatter counts. The meter's offset cancels; its gain does not. A power
    that moves by less than half of `step_w` (standard deviation) is rounded the same way most of the time:
    then the level is wrong by up to half a step, however long one looks. ConfigError when a level has no
    two blocks worth using.
    """
    means = [mean for block in blocks if (mean := _mean_of(ns, watts, block, settle_s, step_w)) is not None]
    for level in DutyLevel:
        if sum(mean.level is level for mean in means) < 2:
            raise ConfigError(
                [
                    f"overhead: level {level.value!r} has fewer than 2 blocks with {MIN_READINGS} readings; "
                    "measure for longer, or look why the meter was silent"
                ]
            )
    fitted, covariance = _fit(means)
    rounding_w = [
        step_w / math.sqrt(12.0) if any(mean.steady for mean in means if mean.level is level) else 0.0
        for level in DutyLevel
    ]

    def difference(high: DutyLevel, low: DutyLevel) -> PowerDifference:
        order = list(DutyLevel)
        a, b = order.index(high), order.index(low)
        found_w = float(fitted[a] - fitted[b]) / calibration.gain
        variance = float(covariance[a, a] + covariance[b, b] - 2.0 * covariance[a, b])
        shared_w = math.hypot(rounding_w[a], rounding_w[b]) / calibration.gain
        scatter_w = math.sqrt(max(0.0, variance)) / calibration.gain
        return PowerDifference(
            found_w, math.hypot(scatter_w, shared_w, calibration.u_gain * found_w), shared_w
        )

    corrected = calibration.correct(fitted)
    return Overhead(
        {level: float(corrected[index]) for index, level in enumerate(DutyLevel)},
        difference(DutyLevel.AGENT, DutyLevel.READER),
        difference(DutyLevel.STREAMING, DutyLevel.AGENT),
        difference(DutyLevel.STREAMING, DutyLevel.READER),
        sum(mean.readings for mean in means),
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
class _BlockMean:
    level: DutyLevel
    at_s: float
    watts: float
    u_watts: float
    readings: int
    steady: bool  # the readings move too little for rounding to average out


def _mean_of(
    ns: npt.NDArray[np.int64],
    watts: npt.NDArray[np.float64],
    block: DutyBlock,
    settle_s: float,
    step_w: float,
) -> _BlockMean | None:
    seen = watts[(ns >= block.start_ns + round(settle_s * 1e9)) & (ns < block.end_ns)]
    if len(seen) < MIN_READINGS:
        return None
    level = idle_level(seen)
    middle_s = 0.5e-9 * (block.start_ns + block.end_ns)
    steady = float(seen.std()) < 0.5 * step_w
    return _BlockMean(block.level, middle_s, level.watts, level.u_watts, len(seen), steady)


def _fit(means: Sequence[_BlockMean]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Means per level at the middle of the time, and their covariance, shapes (levels,) and square."""
    at_s = np.array([mean.at_s for mean in means])
    columns = [np.array([float(mean.level is level) for mean in means]) for level in DutyLevel]
    design = np.column_stack([*columns, at_s - at_s.mean()])
    watts = np.array([mean.watts for mean in means])
    # A block of equal readings claims to know its mean exactly; a microwatt keeps the weights finite, and
    # blocks are weighed alike enough that a lucky one does not decide alone.
    u = np.hypot(np.array([mean.u_watts for mean in means]), 1e-6)
    u = np.maximum(u, np.median(u))
    normal = design.T @ (design / u[:, None] ** 2)
    covariance = np.linalg.inv(normal)
    fitted = covariance @ (design.T @ (watts / u**2))
    free = len(means) - design.shape[1]
    if free > 0:
        chi2 = float(np.sum(((watts - design @ fitted) / u) ** 2)) / free
        covariance = covariance * max(1.0, chi2)
    levels = len(DutyLevel)
    return fitted[:levels], covariance[:levels, :levels]
