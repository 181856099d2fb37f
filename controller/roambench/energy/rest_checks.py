"""Checks of the sums: rests outlast what phases leave behind, nothing is drawn before phases, and starts are
spread over the period."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.contract.phases import COMPUTING_PHASES, Phase, PhaseSpan
from roambench.energy.idle.heat import Heat
from roambench.energy.readings.periods import is_regular, periods_between, places
from roambench.energy.rests import GUARD_SHARE, Window

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

#: Power behind a phase is too high when it is this many standard uncertainties above that at rest, and when
#: it is worth such a share of a transfer's energy.
TAIL_Z: Final = 4.0
TAIL_SHARE: Final = 0.06
#: What the last quarter of the guards brought, in standard uncertainties and as a share of the energy.
LAST_QUARTER_Z: Final = 3.5
LAST_QUARTER_SHARE: Final = 0.05
#: What is drawn at the end of a guard goes on for about this long, s.
_TAIL_S: Final = 1.5
#: A board that a training has warmed cools slowly: less than this share of what it draws above its idle
#: baselines is gone soon after.
_SOON_GONE: Final = 0.65
#: What outlasts the guard of trainings is worth such a share of a transfer: it fades sooner than is fitted.
_REMNANT_SHARE: Final = 0.14
#: Power before a phase is too high by the same two measures. The quiet part of a rest has a last part, which
#: is held against the part before `EARLY_CALM`; what comes early is worth this many seconds of that.
EARLY_Z: Final = 5.0
EARLY_SHARE: Final = 0.035
_EARLY_LAST: Final = 0.35
_EARLY_CALM: Final = 0.55
_EARLY_S: Final = 0.5
#: Lines are lost under load when their share exceeds that at rest by this many standard uncertainties, and by
#: this much. A meter that is silent for longer than this many periods has lost no single line.
LOST_Z: Final = 5.0
LOST_SHARE: Final = 0.05
_SILENT_PERIODS: Final = 8
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
    """The power that a phase still drew when its guard was over: `watts` above the board at rest, `z` in
    standard uncertainties, and the rest that would be long enough."""

    watts: float
    z: float
    rest_s: float


class EarlyCause(StrEnum):
    """A reason why power rises before a phase begins."""

    CLOCK = "clocks"  # before trainings, too: readings are stamped too early
    TRANSFER = "transfers"  # before transfers alone: something begins before their stamp


@dataclass(frozen=True, slots=True)
class RestChecks:
    """Objections of the readings to the sums, by phase: guards that were too short, watts that were drawn
    before a start and why, and phases that begin at one instant of the meter's period every time."""

    tails: Mapping[Phase, Tail] = field(default_factory=dict)
    locked: tuple[Phase, ...] = ()
    early_w: Mapping[Phase, float] = field(default_factory=dict)
    early_cause: EarlyCause | None = None
    lost_share: float = 0.0  # of lines under load, where it is surely more than at rest


@dataclass(frozen=True, slots=True)
class ArrivedPower:
    """Readings of a board, shape (readings,): arrivals in seconds after the timeline's start, watts."""

    at_s: Floats
    watts: Floats

    def mean_w(self, from_s: float, to_s: float) -> float:
        """Mean of those that arrived in (from_s, to_s]; NaN for none."""
        first, last = np.searchsorted(self.at_s, [from_s, to_s], side="right").tolist()
        return float(self.watts[first:last].mean()) if last > first else math.nan


def rest_checks(
    seen: ArrivedPower,
    quiet: ArrivedPower,
    heat: Heat,
    spans: Sequence[PhaseSpan],
    windows: Sequence[Window],
    joules: Floats,
    last_quarter_j: Floats,
    period_s: float,
    guard_s: float,
) -> RestChecks:
    """Check the windows of one device by phase. `seen` are all readings, `quiet` those at rest, both
    without `heat`; `joules` are
    the windows' net energies, of which the last quarter of each guard brought `last_quarter_j`."""
    kinds = [spans[window.first].phase for window in windows]
    by_kind = {phase: [j for j, kind in enumerate(kinds) if kind is phase] for phase in dict.fromkeys(kinds)}
    transfers: list[Phase] = [phase for phase in by_kind if phase not in COMPUTING_PHASES] or [*by_kind]
    least = min(transfers, key=lambda phase: abs(float(joules[by_kind[phase]].mean())))
    baseline_w = _baseline_w(quiet, windows)
    tails, locked, early_w = {}, [], {}
    lost_share = _lost_share(seen.at_s, windows, period_s)
    aside = (quiet.at_s <= windows[0].start_s) | (quiet.at_s > windows[-1].until_s)
    scatter_w = float(quiet.watts[aside].std()) if aside.any() else 0.0
    for phase, own in by_kind.items():
        # What is left of a training spoils the idle power under the smallest transfer first.
        judged = by_kind[least] if phase in COMPUTING_PHASES else own
        tail = _tail(seen, quiet, windows, own, judged, joules, period_s, guard_s, baseline_w, phase)
        if tail is None and phase in COMPUTING_PHASES and _spoils(heat, windows, own, judged, joules):
            tail = Tail(heat.watts, heat.watts / heat.u_w, math.ceil(2.0 * guard_s / GUARD_SHARE))
        if tail is None and phase not in COMPUTING_PHASES:
            tail = _still_growing(joules[own], last_quarter_j[own], guard_s)
        if tail is not None:
            tails[phase] = tail
        if _is_locked(seen.at_s, [windows[j] for j in own], period_s):
            locked.append(phase)
        watts = _early_w(quiet, [windows[j] for j in own], guard_s, scatter_w)
        # A clock that is wrong costs a training little, and is seen best before it.
        if phase in COMPUTING_PHASES or _EARLY_S * watts > EARLY_SHARE * abs(float(joules[own].mean())):
            early_w.update({phase: watts} if watts > 0.0 else {})
    transfers_w = [watts for phase, watts in early_w.items() if phase not in COMPUTING_PHASES]
    if not transfers_w:
        return RestChecks(tails, tuple(locked), lost_share=lost_share)
    computed_w = max((early_w.get(phase, 0.0) for phase in COMPUTING_PHASES), default=0.0)
    clocks = computed_w > min(transfers_w)
    cause = EarlyCause.CLOCK if clocks else EarlyCause.TRANSFER
    return RestChecks(tails, tuple(locked), early_w, cause, lost_share)


def _tail(
    seen: ArrivedPower,
    quiet: ArrivedPower,
    windows: Sequence[Window],
    own: Sequence[int],
    judged: Sequence[int],
    joules: Floats,
    period_s: float,
    guard_s: float,
    baseline_w: float,
    phase: Phase,
) -> Tail | None:
    """Power at the end of the guards of the windows `own` and in the rests behind them, above that of the
    board at rest: before a transfer, or before what comes next to a training."""
    last_s = min(max(1.0, period_s), 0.4 * guard_s)
    length_s = float(np.mean([windows[j].until_s - windows[j].start_s for j in judged]))
    end_w, later_w, above_w = [], [], []
    for j in own:
        window, calm = windows[j], windows[j]
        if window.until_s < window.end_s + guard_s - 0.01:
            continue
        if phase in COMPUTING_PHASES:
            if j + 1 == len(windows) or windows[j + 1].rest_from_s <= window.rest_until_s:
                continue
            calm = windows[j + 1]
        calm_w = quiet.mean_w(calm.rest_from_s, calm.start_s)
        if math.isnan(calm_w):  # the rest is over before the meter has seen it alone
            calm_w = baseline_w
        later = quiet.mean_w(window.until_s, window.rest_until_s)
        end_w.append(seen.mean_w(window.until_s - last_s, window.until_s) - calm_w)
        later_w.append(later - calm_w)
        above_w.append(later - baseline_w)
    parts = [(length_s, later_w)] if phase in COMPUTING_PHASES else [(_TAIL_S, end_w), (length_s, later_w)]
    worth = [(seconds * _median(column), seconds * _u_median(column)) for seconds, column in parts]
    known = [(j, u) for j, u in worth if math.isfinite(u)]
    if not known:
        return None
    lost_j, u_j = math.fsum(j for j, _ in known), math.hypot(*(u for _, u in known))
    if lost_j <= TAIL_Z * u_j or lost_j <= TAIL_SHARE * abs(float(joules[judged].mean())):
        return None
    later, above = _median(later_w), _median(above_w)
    if phase in COMPUTING_PHASES and math.isfinite(above) and later < _SOON_GONE * above:
        return None
    times = 2.0 if later < 0.5 * _median(end_w) else 4.0
    rest_s = float(math.ceil(times * guard_s / GUARD_SHARE))
    return Tail(max(later, _median(end_w)), lost_j / u_j if u_j else math.inf, rest_s)


def _spoils(
    heat: Heat, windows: Sequence[Window], own: Sequence[int], judged: Sequence[int], joules: Floats
) -> bool:
    """Return whether trainings, the windows `own`, outlast their guard, by more than the windows `judged`
    bear."""
    if not heat.is_remnant:
        return False
    left_w = heat.watts * float(heat.shape(np.array([windows[j].until_s for j in own])).mean())
    length_s = float(np.mean([windows[j].until_s - windows[j].start_s for j in judged]))
    return left_w * length_s > _REMNANT_SHARE * abs(float(joules[judged].mean()))


def _still_growing(joules: Floats, last_quarter_j: Floats, guard_s: float) -> Tail | None:
    """Transfers whose energy still grew in the last quarter of their guards."""
    if len(joules) < MIN_WINDOWS:
        return None
    mean_j, u_j = float(last_quarter_j.mean()), float(last_quarter_j.std(ddof=1)) / math.sqrt(len(joules))
    if mean_j <= LAST_QUARTER_Z * u_j or mean_j <= LAST_QUARTER_SHARE * abs(float(joules.mean())):
        return None
    rest_s = float(math.ceil(2.0 * guard_s / GUARD_SHARE))
    return Tail(mean_j / (0.25 * guard_s), mean_j / u_j if u_j else math.inf, rest_s)


def _lost_share(at_s: Floats, windows: Sequence[Window], period_s: float) -> float:
    """Share of a regular meter's lines that are lost, or late by a period, under load; 0 if no more than at
    rest."""
    if not is_regular(np.diff(at_s), period_s):
        return 0.0
    periods, middle_s = periods_between(at_s, period_s), 0.5 * (at_s[1:] + at_s[:-1])
    lost = np.where(periods <= _SILENT_PERIODS, periods - 1, 0)
    index = places(np.array([w.start_s for w in windows]), middle_s) - 1
    loaded = (index >= 0) & (middle_s <= np.array([w.end_s for w in windows])[index] + 0.5 * period_s)
    of_load, of_rest = int(periods[loaded].sum()), int(periods[~loaded].sum())
    if not of_load or not of_rest:
        return 0.0
    share, at_rest = lost[loaded].sum() / of_load, lost[~loaded].sum() / of_rest
    common = lost.sum() / (of_load + of_rest)
    u = math.sqrt(max(common * (1.0 - common), 0.0) * (1.0 / of_load + 1.0 / of_rest))
    return float(share) if share - at_rest > max(LOST_Z * u, LOST_SHARE) else 0.0


def _early_w(quiet: ArrivedPower, windows: Sequence[Window], guard_s: float, scatter_w: float) -> float:
    """Return how much more is drawn right before these phases than earlier in the same rests, W; 0 if not
    surely. `scatter_w` is that of readings far from phases."""
    quiet_s = guard_s * (1.0 / GUARD_SHARE - 1.0)
    last_w, calm_w = [], []
    for window in windows:
        borders_s = np.array([quiet_s, _EARLY_CALM * quiet_s, _EARLY_LAST * quiet_s, 0.0])
        at = np.searchsorted(quiet.at_s, window.start_s - borders_s, side="right")
        calm_w.extend(quiet.watts[at[0] : at[1]].tolist())
        last_w.extend(quiet.watts[at[2] : at[3]].tolist())
    if min(len(last_w), len(calm_w)) < MIN_WINDOWS:
        return 0.0
    watts = float(np.median(last_w) - np.median(calm_w))
    spread_w = max(float(np.std(calm_w, ddof=1)), scatter_w)
    u_w = 1.25 * spread_w * math.sqrt(1.0 / len(last_w) + 1.0 / len(calm_w))
    return watts if watts > EARLY_Z * u_w else 0.0


def _baseline_w(quiet: ArrivedPower, windows: Sequence[Window]) -> float:
    """Idle power before the first and after the last window; NaN without."""
    before = quiet.mean_w(-math.inf, windows[0].start_s)
    after = quiet.mean_w(windows[-1].until_s, math.inf)
    return 0.5 * (before + after)


def _median(values: Sequence[float]) -> float:
    """Return the median of the known ones: one burst of a card or a daemon is no tail."""
    known = [value for value in values if math.isfinite(value)]
    return float(np.median(known)) if known else math.nan


def _u_median(values: Sequence[float]) -> float:
    """Standard uncertainty of that median; NaN where too few are known."""
    known = [value for value in values if math.isfinite(value)]
    return (
        1.25 * float(np.std(known, ddof=1)) / math.sqrt(len(known)) if len(known) >= MIN_WINDOWS else math.nan
    )


def _is_locked(at_s: Floats, windows: Sequence[Window], period_s: float) -> bool:
    """Return whether these short phases begin at one instant of the meter's period."""
    starts = np.array([w.start_s for w in windows if w.end_s - w.start_s < _SHORT_PERIODS * period_s])
    following = np.searchsorted(at_s, starts, side="right")
    starts, following = starts[following < len(at_s)], following[following < len(at_s)]
    if len(starts) < MIN_WINDOWS:
        return False
    angle = 2.0 * np.pi * (at_s[following] - starts) / period_s
    r = float(abs(np.exp(1j * angle).mean()))
    return r > LOCKED_R and len(starts) * r * r > LOCKED_NR2
