"""A meter's gain and offset from loads whose power a reference knows: a line, and how far the meter bends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.contract.errors import ConfigError
from roambench.energy.idle.baseline import IdleLevel, idle_level
from roambench.energy.uncertainty import MeterCalibration
from roambench.meters.traits import MeterTraits

#: Fewer readings than this tell nothing of how they scatter.
MIN_READINGS: Final = 10
#: A load nearer to the other than this is too close: what is uncertain of each is stretched by the distance.
CLOSE_RATIO: Final = 1.5
#: Below this many watts a Smart Power 2 prints 0 for its current (59 steps at 5.3 V), or for all (10 steps).
LEAST_W: Final = 0.05
#: A load whose halves differ by more than this and a step of the meter has not come to rest.
_STEADY_SHARE: Final = 0.002
#: Beyond this many standard uncertainties of its type a meter is broken, or the reference is read wrongly.
_PARTS_SIGMAS: Final = 4.0


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """One load: its power by the reference, and what the meter read of it. Watts, k = 1.

    `u_true_w` is the uncertainty of this one value, what the reference gets wrong at every load left out.
    `steady`: the first and the second half of the readings agree.
    """

    true_w: float
    u_true_w: float
    read: IdleLevel
    steady: bool

    @classmethod
    def of(
        cls, true_w: float, u_true_w: float, watts: npt.NDArray[np.float64], row: MeterTraits
    ) -> LoadPoint:
        """From readings in order of time, shape (readings,). ConfigError where they can be no point."""
        if not (math.isfinite(true_w) and true_w >= LEAST_W):
            raise ConfigError([f"expected a load of at least {LEAST_W:g} W, got {true_w:g} W: {NO_ZERO}"])
        if len(watts) < MIN_READINGS:
            raise ConfigError([f"expected at least {MIN_READINGS} readings of a load, got {len(watts)}"])
        if not watts.all():
            raise ConfigError([f"the meter printed 0 W at a load of {true_w:g} W: {NO_ZERO}"])
        read = idle_level(watts, row.step_w)
        first, second = (float(half.mean()) for half in np.array_split(watts, 2))
        steady = abs(second - first) <= row.step_w + _STEADY_SHARE * read.watts
        return cls(true_w, u_true_w, read, steady)


#: Why zero is no point of the line.
NO_ZERO: Final = (
    "zero is no point of a calibration: with its output off a meter says nothing or prints zeros without "
    "a measurement, and with no load the chip's few steps are printed as 0"
)


def calibrate(points: Sequence[LoadPoint], reference: str = "", u_reference: float = 0.0) -> MeterCalibration:
    """reading = gain x true + offset through the lowest and the highest of `points` (two or more).

    ConfigError where no meter can read so.

    What is uncertain of each point (scatter and rounding of its readings, its value of the reference) moves
    the line; `u_reference` (relative, k = 1), which is wrong alike at all, moves the gain alone. Points
    between tell how far the gain depends on the power (`linearity`), which is part of its uncertainty. The
    uncertainties of gain and offset are given as if they were independent. They are opposed, so that a power
    between the loads is known better than they say.
    """
    ordered = _by_power(points)
    for lower, higher in pairwise(ordered):
        if higher.true_w <= lower.true_w or higher.read.watts <= lower.read.watts:
            raise ConfigError(
                [
                    f"expected the meter to read more at the greater load, got {lower.read.watts:.3f} W at "
                    f"{lower.true_w:.3f} W and {higher.read.watts:.3f} W at {higher.true_w:.3f} W"
                ]
            )
    low, high = ordered[0], ordered[-1]
    apart_w = high.true_w - low.true_w
    rise_w = high.read.watts - low.read.watts
    gain = rise_w / apart_w
    low_u, high_u = (math.hypot(point.read.u_watts, gain * point.u_true_w) for point in (low, high))
    return MeterCalibration(
        gain,
        low.read.watts - gain * low.true_w,
        math.hypot(low_u / rise_w, high_u / rise_w, u_reference, linearity(points)),
        math.hypot(high.true_w * low_u, low.true_w * high_u) / apart_w,
        u_reference,
        reference,
    )


def linearity(points: Sequence[LoadPoint]) -> float:
    """Relative standard uncertainty of a gain that depends on the power: the slopes from point to point are
    the ends of a rectangle. 0 with two points, which tell nothing of it."""
    slopes = [
        (higher.read.watts - lower.read.watts) / (higher.true_w - lower.true_w)
        for lower, higher in pairwise(_by_power(points))
    ]
    return (max(slopes) - min(slopes)) / (2.0 * math.sqrt(3.0) * float(np.mean(slopes)))


def doubts(made: MeterCalibration, points: Sequence[LoadPoint], row: MeterTraits) -> list[str]:
    """Objections to a calibration of a meter of the type `row`, each with its remedy."""
    low, *_, high = _by_power(points)
    found = []
    if high.true_w < CLOSE_RATIO * low.true_w:
        own = math.sqrt(max(0.0, made.u_gain**2 - made.u_reference**2))
        found.append(
            f"the loads are close to each other: their distance adds {own:.2%} to the gain's uncertainty "
            f"and makes the offset's {1e3 * made.u_offset_w:.1f} mW; take one near an idle board's power "
            "and one near a busy board's, 2 W and 5 W"
        )
    found += [
        f"the load of {point.true_w:.3f} W changed while it was read: let it warm up and calibrate again"
        for point in points
        if not point.steady
    ]
    off = abs(made.gain - row.gain) > _PARTS_SIGMAS * math.hypot(row.u_gain, made.u_gain)
    off |= abs(made.offset_w) > _PARTS_SIGMAS * math.hypot(row.u_offset_w, made.u_offset_w)
    if off:
        found.append(
            f"a gain of {made.gain:.4f} and an offset of {1e3 * made.offset_w:.1f} mW are more than the "
            f"parts of a {row.name} allow: is the reference at the meter's output, before the cable? are "
            "volts, amperes and ohms what they seem?"
        )
    return found


def _by_power(points: Sequence[LoadPoint]) -> list[LoadPoint]:
    return sorted(points, key=lambda point: point.true_w)
