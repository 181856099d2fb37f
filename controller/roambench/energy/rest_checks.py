"""Two checks of the sums: rests outlast what phases leave behind, and starts are spread over the period."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.contract.phases import Phase, PhaseSpan
from roambench.energy.rests import GUARD_SHARE, Window

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

#: Power after a phase is too high when it is so many standard uncertainties above that before it, and when
#: what it adds within the guard is such a share of the phase's energy.
TAIL_Z: Final = 4.0
TAIL_SHARE: Final = 0.03
#: What is drawn at the end of a guard goes on for about so long, s.
_TAIL_S: Final = 1.5
#: Fewer windows than this tell nothing.
MIN_WINDOWS: Final = 5
#: Phases that begin at one instant of the meter's period: length of their mean direction (1: exactly one),
#: and how sure that is no chance (Rayleigh: exp(-10) = 5 in 100,000).
LOCKED_R: Final = 0.6
LOCKED_NR2: Final = 10.0
#: Phases of more periods than this are sampled evenly wherever they begin.
_SHORT_PERIODS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Tail:
    """What a phase still drew when its guard was over: `watts` above the power before it, `z` in standard
    uncertainties, and the rest that would have been long enough."""

    watts: float
    z: float
    rest_s: float


@dataclass(frozen=True, slots=True)
class RestChecks:
    """Objections of the readings to the sums, by phase: guards that were too short, and phases that begin at
    one instant of the meter's period every time."""

    tails: Mapping[Phase, Tail] = field(default_factory=dict)
    locked: tuple[Phase, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether there is no objection."""
        return not self.tails and not self.locked


def rest_checks(
    at_s: Floats,
    watts: Floats,
    spans: Sequence[PhaseSpan],
    windows: Sequence[Window],
    quiet: Mask,
    joules: Floats,
    period_s: float,
    guard_s: float,
) -> RestChecks:
    """Check the windows of one device, whose net energies are `joules`, by phase; `quiet` marks the readings
    that saw it at rest."""
    kinds = [spans[window.first].phase for window in windows]
    tails, locked = {}, []
    for phase in dict.fromkeys(kinds):
        own = [j for j, kind in enumerate(kinds) if kind is phase]
        chosen = [windows[j] for j in own]
        found = _tail(at_s, watts, windows, own, quiet, float(joules[own].mean()), period_s, guard_s, phase)
        if found is not None:
            tails[phase] = found
        if _is_locked(at_s, chosen, period_s):
            locked.append(phase)
    return RestChecks(tails, tuple(locked))


def _tail(
    at_s: Floats,
    watts: Floats,
    windows: Sequence[Window],
    own: Sequence[int],
    quiet: Mask,
    mean_j: float,
    period_s: float,
    guard_s: float,
    phase: Phase,
) -> Tail | None:
    """Power at the end of the guards and in the rests behind them, above that before each phase."""
    last_s = min(max(1.0, period_s), 0.4 * guard_s)
    end_w, later_w, bias_j = [], [], []
    for j in own:
        window = windows[j]
        if window.until_s < window.end_s + guard_s - 0.01:
            continue
        before = _mean(at_s[quiet], watts[quiet], window.rest_from_s, window.start_s)
        if phase is Phase.TRAIN:
            # A training leaves a warm board behind, which is no tail: what is gone soon after is.
            following = windows[j + 1] if j + 1 < len(windows) else None
            if following is None or following.rest_from_s <= window.rest_until_s:
                continue
            before = _mean(at_s[quiet], watts[quiet], following.rest_from_s, following.start_s)
        end = _mean(at_s, watts, window.until_s - last_s, window.until_s) - before
        later = _mean(at_s[quiet], watts[quiet], window.until_s, window.rest_until_s) - before
        end_w.append(end)
        later_w.append(later)
        bias_j.append(
            _TAIL_S * end + (window.until_s - window.start_s) * (0.0 if math.isnan(later) else later)
        )
    known = np.array([value for value in bias_j if math.isfinite(value)])
    if len(known) < MIN_WINDOWS:
        return None
    # A median: one burst of a card or a daemon is no tail.
    lost_j, u_j = float(np.median(known)), 1.25 * float(known.std(ddof=1)) / math.sqrt(len(known))
    if lost_j <= TAIL_Z * u_j or lost_j <= TAIL_SHARE * abs(mean_j):
        return None
    return Tail(
        float(np.nanmedian(end_w)), lost_j / u_j if u_j else math.inf, _rest_for(end_w, later_w, guard_s)
    )


def _rest_for(end_w: Sequence[float], later_w: Sequence[float], guard_s: float) -> float:
    """A rest that outlasts a tail: twice this one, or longer where the tail hardly falls."""
    end, later = (float(np.nanmedian(column)) if len(column) else 0.0 for column in (end_w, later_w))
    times = 2.0 if later < 0.5 * end else 4.0
    return float(math.ceil(times * guard_s / GUARD_SHARE))


def _mean(at_s: Floats, watts: Floats, from_s: float, to_s: float) -> float:
    """Mean of the readings that arrived in (from_s, to_s]; NaN for none."""
    first, last = np.searchsorted(at_s, [from_s, to_s], side="right").tolist()
    return float(watts[first:last].mean()) if last > first else math.nan


def _is_locked(at_s: Floats, windows: Sequence[Window], period_s: float) -> bool:
    """Whether these short phases begin at one instant of the meter's period."""
    starts = np.array([w.start_s for w in windows if w.end_s - w.start_s < _SHORT_PERIODS * period_s])
    following = np.searchsorted(at_s, starts, side="right")
    starts, following = starts[following < len(at_s)], following[following < len(at_s)]
    if len(starts) < MIN_WINDOWS:
        return False
    angle = 2.0 * np.pi * (at_s[following] - starts) / period_s
    r = float(abs(np.exp(1j * angle).mean()))
    return r > LOCKED_R and len(starts) * r * r > LOCKED_NR2
