"""Whether transfers draw constant power, as far as the meter's conversion clock can tell; pure.

The split takes a phase's power for constant while bytes move. At one line a second and windows of unknown
age nothing in the readings speaks against it: they are compared again with their ages known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import numpy as np

from roambench.energy.attribution.design import Design
from roambench.energy.attribution.fit_check import Misfit, worst_misfit
from roambench.energy.attribution.least_squares import Fit, fit_levels
from roambench.energy.attribution.near_transfers import Fitted, Near, near_transfers
from roambench.energy.attribution.pieces import TRANSFERS
from roambench.energy.attribution.span_powers import SpanPowers, span_powers
from roambench.energy.clocks.conversion_clock import ConversionClock, find_clock, shaped_by
from roambench.energy.readings.occupancy import Floats, MeterWindow

#: Log likelihood by which a shape must beat constant power: a dozen shapes are tried.
SHAPED: Final = 5.0
#: How well a clock tells the end of a window (k = 1), and how well clocks of hosts must agree to find one, s.
CLOCK_U_S: Final = 0.005
#: A single residual counts as so many standard deviations at most: a line that came late is no shape.
_MOST: Final = 4.0
#: With ages known, readings tell what a waiting transfer draws: hashing, writing, a radio that wakes up.
_WAITING_SHARE: Final = 1.5
#: Standard deviations from which on a group of readings of known age contradicts constant power.
LIMIT_Z: Final = 6.0


class NoClock(StrEnum):
    """Why a conversion clock neither bears out constant power within transfers nor contradicts it."""

    FASTER = "an emulation faster than real time: lines come too late"
    HOSTS = "the clocks of the meter's host and of the board agree too badly"
    NONE = "its windows do not follow one another"
    FEW = "too few readings at the borders of transfers"
    UNCLEAR = "none stands out from all that were tried"


@dataclass(frozen=True, slots=True)
class Steadiness:
    """The conversion clock's finding about transfers: `clock`, and the worst misfit with all ages known."""

    clock: ConversionClock
    misfit: Misfit | None = None

    @property
    def contradicts(self) -> bool:
        """Whether transfers are not steady, or the readings refute every clock."""
        wrong = self.misfit is not None and self.misfit.z > LIMIT_Z
        return self.clock.refuted or self.shaped or wrong

    @property
    def bears_out(self) -> bool:
        """Whether a clock was found, and speaks for transfers of constant power."""
        return self.clock.found and not self.contradicts

    @property
    def shaped(self) -> bool:
        """Whether some shape explains the readings better than constant power."""
        return self.clock.shaped > SHAPED

    @property
    def sentence(self) -> str:
        """The finding in words."""
        clock = self.clock
        if clock.refuted:
            return (
                "no conversion clock of the meter makes sense of the readings at the borders "
                f"(log likelihood {clock.gain:+.0f} against unknown ages)"
            )
        if self.shaped:
            return (
                f"power changes within transfers (log likelihood {clock.shaped:+.0f} against constant power)"
            )
        return self.misfit.sentence if self.misfit is not None else "steady"


@dataclass(frozen=True, slots=True)
class Known:
    """A fit with all ages known; `slope_w` is what each level would gain with lines `CLOCK_U_S` later."""

    fit: Fit
    powers: SpanPowers
    slope_w: Floats


def steadiness(fitted: Fitted, window: MeterWindow) -> tuple[Steadiness, Known | None] | None:
    """Find the meter's conversion clock, and fit again with the ages that it tells.

    None where too few readings saw a border. No fit where no clock was found, or where the run is longer
    than the readings that found it: a chip's clock is not known to keep its pace for hours.
    """
    near = near_transfers(fitted, window.window_s)
    clock = find_clock(near.shape, near.priors, near.readings, near.borders, window.window_s, near.late_s)
    if clock is None:
        return None
    clock = replace(clock, shaped=shaped_by(near.shape, near.shapes, near.readings, clock))
    if not clock.found:
        return Steadiness(clock), None
    known, misfit = fit_known(fitted, clock, _last_s(near, fitted))
    found = Steadiness(clock, misfit)
    return found, None if not near.whole or found.contradicts else known


def fit_known(fitted: Fitted, clock: ConversionClock, last_s: float = np.inf) -> tuple[Known, Misfit | None]:
    """The fit of readings up to `last_s` with the ages that `clock` tells, and what it explains worst."""
    old = fitted.design
    kept = np.flatnonzero((old.pure | ~clock.ambiguous(fitted.at_s)) & (fitted.at_s <= last_s))
    ends_s, watts = clock.ends_s(fitted.at_s[kept]), fitted.watts[kept]
    waits = {
        level: replace(waiting, share_sd=_WAITING_SHARE) for level, waiting in old.families.waits.items()
    }

    def design(late_s: float) -> Design:
        return Design(
            ends_s - late_s,
            old.starts_s,
            old.ends_s,
            old.level_of_fitted,
            old.levels,
            MeterWindow(clock.window_s, 0.0),
            CLOCK_U_S,
            replace(old.families, waits=waits),
            old.unit_of_fitted,
        )

    known = design(0.0)
    fit = fit_levels(known, watts[known.used], fitted.step_w)
    powers = span_powers(known, fit, watts[known.used])
    moving = np.zeros(old.levels, dtype=np.bool_)
    moving[old.level_of_fitted[[piece.phase in TRANSFERS for piece in fitted.pieces]]] = True
    seen = known.matrix[:, moving].any(axis=1)
    misfit = worst_misfit(known, fit, powers, watts[known.used], fitted.names, _MOST, seen)
    sides = [design(late_s) for late_s in (-CLOCK_U_S, CLOCK_U_S)]
    early, late = (fit_levels(side, watts[side.used], fitted.step_w).watts for side in sides)
    return Known(fit, powers, 0.5 * (late - early)), misfit


def _last_s(near: Near, fitted: Fitted) -> float:
    """Arrival of the last reading that the clock was found by."""
    return float(fitted.at_s[-1] if near.whole else near.readings.at_s[-1])
