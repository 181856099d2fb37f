"""Fitted powers of one device's levels and spans, and every span's energy with its uncertainty."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.contract.phases import Phase, PhaseSpan
from roambench.energy.attribution.fit_check import Misfit
from roambench.energy.attribution.pieces import LONG_WAITING, WAITING
from roambench.energy.attribution.span_energy import SpanEnergy
from roambench.energy.attribution.span_powers import SpanPowers
from roambench.energy.attribution.steadiness import NoClock, Steadiness
from roambench.energy.attribution.transfer_kinds import OF_KINDS
from roambench.energy.integrate import PowerCurve, covered_by_span, span_stamps
from roambench.energy.readings.occupancy import Columns, Floats, MeterWindow

#: R7: a phase is resolved when one span lasts 5 periods, or its spans together 10 (at 1 Hz: 5 s, 10 s).
RESOLVED_SPAN_PERIODS: Final = 5.0
RESOLVED_PERIODS: Final = 10.0


class Resolution(StrEnum):
    """Whether the meter was fast enough for a phase (rule R7); an undersampled one has its large u."""

    RESOLVED = "resolved"
    UNDERSAMPLED = "undersampled"


@dataclass(frozen=True, slots=True)
class Attribution:
    """Fitted power of each level (a phase type, a kind of transfer, one long span): shape (levels,).

    `levels[0]` is the idle level. `covariance_w2` has shape (levels, levels) and holds everything but the
    meter's gain and offset. `noise_sd_w` is the scatter of single readings inside a span, `between_sd_w`
    that of the spans, `seconds` the time the spans of the level last, `readings` how many readings' worth
    of window looked at it.
    `prior_sd_w` bounds a level that no reading saw (one of several kinds of a direction: about their mean).
    `late_slope_w` is what a level would gain if the lines were taken to be one `u_lateness_s` later.
    `spans_fit` is None without a single usable reading.
    """

    levels: tuple[str, ...]
    watts: Floats
    covariance_w2: Floats
    noise_sd_w: Floats
    between_sd_w: Floats
    seconds: Floats
    readings: Floats
    used_readings: int
    prior_sd_w: Floats
    lateness_s: float  # how much later than the window model says the lines arrived, and its uncertainty
    u_lateness_s: float
    late_slope_w: Floats
    nominal_s: float
    window: MeterWindow
    spans: tuple[PhaseSpan, ...]  # as fitted: transfers cut where their bytes began and ended to move
    span_of: Columns  # of the spans given, which each fitted one is a piece of
    level_of_span: Columns  # shape (spans,), -1 for LOST
    spans_fit: SpanPowers | None
    misfit: Misfit | None  # None without readings enough to judge by
    steadiness: Steadiness | None  # None where no conversion clock was looked for
    no_clock: NoClock | None  # None, too, where none is needed: the meter sees all, or nothing was moved
    restless: tuple[str, ...]  # levels whose power wanders, beats with the meter or jumps
    locked: tuple[str, ...]  # levels that begin at the same instant of the meter's period every time
    offsets: int  # tenths of that period in which spans of one level began, of the level with the fewest

    @property
    def too_early(self) -> bool:
        """Whether lines seem to have come before they could exist: power changed later than phases say."""
        return self.lateness_s + 2.0 * self.u_lateness_s < 0.0

    @property
    def borne_out(self) -> bool:
        """Whether constant power within transfers is more than an assumption: the meter sees all of them, or
        its conversion clock was found and speaks for it.
        """
        clocked = self.steadiness is not None and self.steadiness.bears_out
        return clocked or not self.window.misses_some(self.nominal_s)

    def several_kinds(self, phase: Phase) -> bool:
        """Whether transfers of a phase type run at rates that have powers of their own (`transfer_kinds`)."""
        return any(name.startswith(f"{phase.value} ") and name.endswith(OF_KINDS) for name in self.levels)

    @property
    def unsteady(self) -> str:
        """The conversion clock's objection to transfers of constant power; "" for nothing."""
        told = self.steadiness
        return told.sentence if told is not None and told.contradicts else ""

    @property
    def contradicted(self) -> bool:
        """Whether the readings speak against what the split assumes."""
        wrong = self.misfit is not None and self.misfit.contradicts
        return wrong or self.too_early or any((self.unsteady, self.locked, self.restless))

    @property
    def unseen_j(self) -> float:
        """Standard uncertainty of the whole run's energy by what happens while the meter does not look, J."""
        unseen = max(0.0, 1.0 - self.window.window_s / self.nominal_s)
        variance = np.square(np.nan_to_num(self.noise_sd_w)) @ self.seconds
        return float(np.sqrt(variance * self.nominal_s * unseen))

    @property
    def idle_w(self) -> float:
        """Fitted power of idling, W."""
        return float(self.watts[0])

    @property
    def u_idle_w(self) -> float:
        """Standard uncertainty of `idle_w`, W, without the meter's gain and offset."""
        return float(np.sqrt(self.covariance_w2[0, 0]))

    def watts_of(self, phase: Phase) -> tuple[float, float]:
        """Fitted power of a phase type and its standard uncertainty, mean over the time of its levels.

        KeyError if no span is of that type.
        """
        share = self._shares_of(phase)
        return float(share @ self.watts), float(np.sqrt(share @ self.covariance_w2 @ share))

    def net_watts_of(self, phase: Phase) -> tuple[float, float]:
        """Power above the idle level and its standard uncertainty, as `watts_of`."""
        share = self._shares_of(phase)
        share[0] -= 1.0
        return float(share @ self.watts), float(np.sqrt(np.maximum(share @ self.covariance_w2 @ share, 0.0)))

    def u_waiting_w(self, phase: Phase) -> float:
        """How far the phase's power would move with what its transfers are assumed to draw while they wait
        (k = 1), W: a share of the way from idle to moving (`Part`), `prior_sd_w` of that level.

        u = |a' C c| / s, with a the shares of the phase's levels in its time, C the covariance of the levels,
        c the contrast of a waiting level to that share and s its prior; both kinds of waiting in quadrature.
        """
        kinds = {f"{phase.value} {kind.name}": kind for kind in (WAITING, LONG_WAITING)}
        own = {self.levels.index(name): kind for name, kind in kinds.items() if name in self.levels}
        if self.spans_fit is None or not own:
            return 0.0
        share = self._shares_of(phase)
        moving = [level for level in np.flatnonzero(share).tolist() if level not in own]
        found_w = []
        for level, kind in own.items():
            contrast = np.zeros(len(self.levels))
            contrast[level], contrast[0] = 1.0, kind.share - 1.0
            contrast[moving] -= kind.share / max(len(moving), 1)
            moved = float(share @ self.spans_fit.mean_covariance @ contrast)
            found_w.append(moved / float(self.prior_sd_w[level]))
        return math.hypot(*found_w)

    def _shares_of(self, phase: Phase) -> Floats:
        """How much of a phase's time each level has, shape (levels,)."""
        seconds = np.zeros(len(self.levels))
        for span, level in zip(self.spans, self.level_of_span.tolist(), strict=True):
            if span.phase is phase and level >= 0:
                seconds[level] += max(span.duration_s, 1e-9)
        if not seconds.any():
            raise KeyError(f"no span of phase {phase.value}")
        return np.asarray(seconds / seconds.sum())

    def span_energies(self, curve: PowerCurve) -> list[SpanEnergy]:
        """Energy of each span given, over the seconds that `curve` covers, in order; 0 J for LOST spans.

        Without a single usable reading nothing can be split: 0 J over 0 measured seconds.
        """
        count = int(self.span_of[-1]) + 1 if len(self.span_of) else 0
        if self.spans_fit is None:
            nothing = SpanEnergy(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, False)
            return [nothing] * count
        covered_s = covered_by_span(curve, self.spans)
        fitted = self.level_of_span >= 0
        level = self.level_of_span[fitted]
        seen_s = covered_s[fitted]
        powers = self.spans_fit
        own_j2, shared_w2 = self._own_and_shared(powers, level, seen_s)
        edge_w = self.late_slope_w[level]
        net_edge_w = edge_w - self.late_slope_w[0]
        u_idle_w = float(np.sqrt(powers.level_covariance[0, 0]))
        active = level != 0  # a span at the idle level has no net energy, hence no uncertainty of it
        net_own_j2 = np.maximum(own_j2, 0.0)
        net_shared_w2 = np.maximum(shared_w2[level] - 2.0 * powers.with_idle_w2, 0.0)
        net_edge_w = np.where(active, net_edge_w, 0.0)
        columns: dict[str, Floats] = {
            "gross_j": powers.watts * seen_s,
            "net_j": np.where(active, (powers.watts - powers.level_watts[0]) * seen_s, 0.0),
            "u_gross_j": np.sqrt(own_j2 + (shared_w2[level] + np.square(edge_w)) * np.square(seen_s)),
            "u_net_j": np.where(
                active,
                np.sqrt(
                    net_own_j2 + (net_shared_w2 + np.square(net_edge_w) + u_idle_w**2) * np.square(seen_s)
                ),
                0.0,
            ),
            "u_level_w": np.sqrt(shared_w2[level]),
            "u_net_level_w": np.where(active, np.sqrt(net_shared_w2), 0.0),
            "edge_w": edge_w,
            "net_edge_w": net_edge_w,
            "u_idle_w": np.where(active, u_idle_w, 0.0),
        }
        whole = np.zeros((len(columns), len(self.spans)))
        whole[:, fitted] = np.stack(list(columns.values()))
        resolved = np.zeros(len(self.spans), dtype=np.bool_)
        resolved[fitted] = self._long_enough(level) & (seen_s > 0.0)
        rows = zip(covered_s.tolist(), whole.T.tolist(), resolved.tolist(), strict=True)
        found = [
            SpanEnergy(covered, **dict(zip(columns, row, strict=True)), resolved=long)
            for covered, row, long in rows
        ]
        if count == len(found):
            return found
        unit_of = np.full(len(found), -1)
        unit_of[fitted] = powers.unit_of
        first = np.searchsorted(self.span_of, np.arange(count + 1))
        return [
            found[begin] if end == begin + 1 else self._joined(found, unit_of, slice(begin, end))
            for begin, end in zip(first[:-1].tolist(), first[1:].tolist(), strict=True)
        ]

    def _joined(self, found: Sequence[SpanEnergy], unit_of: Columns, pieces: slice) -> SpanEnergy:
        """The pieces of one span together: what their levels share is known by the levels' covariance, which
        knows that what is taken for waiting is missing in what moves. Pieces of one unit are wrong together.
        """
        assert self.spans_fit is not None
        parts, level = found[pieces], self.level_of_span[pieces]
        seen_s = np.array([part.covered_s for part in parts])
        covered_s = float(seen_s.sum())
        weight = seen_s / covered_s if covered_s > 0.0 else np.zeros(len(parts))
        covariance = self.spans_fit.level_covariance
        shared_w2 = float(weight @ covariance[np.ix_(level, level)] @ weight)
        net_shared_w2 = max(0.0, shared_w2 - 2.0 * float(weight @ covariance[level, 0]))
        edge_w, net_edge_w = (
            float(weight @ [getattr(part, name) for part in parts]) for name in ("edge_w", "net_edge_w")
        )
        u_idle_w = max(part.u_idle_w for part in parts)
        own = [part.u_gross_j**2 - (part.u_level_w**2 + part.edge_w**2) * part.covered_s**2 for part in parts]
        _, unit, size = np.unique(unit_of[pieces], return_inverse=True, return_counts=True)
        if (size > 1).any():
            own = np.square(np.bincount(unit, np.sqrt(np.maximum(own, 0.0)))).tolist()
        own_j2 = max(math.fsum(own), 0.0)
        square_s2 = covered_s**2
        return SpanEnergy(
            covered_s,
            math.fsum(part.gross_j for part in parts),
            math.fsum(part.net_j for part in parts),
            math.sqrt(own_j2 + (shared_w2 + edge_w**2) * square_s2),
            math.sqrt(own_j2 + (net_shared_w2 + net_edge_w**2 + u_idle_w**2) * square_s2),
            math.sqrt(shared_w2),
            math.sqrt(net_shared_w2),
            edge_w,
            net_edge_w,
            u_idle_w,
            any(part.resolved for part in parts),
        )

    def _own_and_shared(self, powers: SpanPowers, level: Columns, seen_s: Floats) -> tuple[Floats, Floats]:
        """Variance of each span alone, J^2, and of what spans of a level share, W^2: together they give
        the variance that the fit has for one span, and for the sum over all spans of the level.

        What a window saw of a span's own scatter is no error of that span's energy: with windows end to end
        nothing was missed. What a unit of several spans has alone is divided so that it adds up linearly.
        """
        unit_of = powers.unit_of
        first = np.unique(unit_of, return_index=True)[1]
        whole_s, level = _of_units(unit_of, seen_s), level[first]
        share = np.divide(seen_s, whole_s[unit_of], out=np.ones(len(seen_s)), where=whole_s[unit_of] > 0.0)
        seen_s = whole_s
        unseen_w2s = np.square(self.noise_sd_w) * self.window.window_s
        floor_w2 = np.diag(powers.level_covariance) - np.diag(powers.mean_covariance)
        single_j2 = np.square(seen_s) * powers.variance_w2[first]
        single_j2 += seen_s * unseen_w2s[level] * (1.0 - 2.0 * powers.own_share[first])
        single_j2 = np.maximum(single_j2, np.square(seen_s) * floor_w2[level])
        shared_w2 = np.zeros(len(self.levels))
        for of in np.unique(level).tolist():
            inside = level == of
            seconds = np.where(inside, seen_s, 0.0)
            total_s, squares_s2 = seconds.sum(), float(seconds @ seconds)
            together_j2 = powers.variance_of_sum(seconds) - unseen_w2s[of] * total_s
            together_j2 = max(together_j2, 0.0) + floor_w2[of] * total_s**2
            between = total_s**2 - squares_s2
            if between > 1e-9 * squares_s2:
                limit = powers.variance_w2[first][inside].min()
                found = (together_j2 - single_j2[inside].sum()) / between
                shared_w2[of] = min(max(found, 0.0), limit)
        own_j2 = np.maximum(single_j2 - shared_w2[level] * np.square(seen_s), 0.0)
        return own_j2[unit_of] * np.square(share), shared_w2

    def _long_enough(self, level: Columns) -> npt.NDArray[np.bool_]:
        """Rule R7, shape (fitted spans,); the slower of period and window counts."""
        pace_s = max(self.nominal_s, self.window.window_s)
        starts, ends = span_stamps(self.spans)
        length_s = ((ends - starts) * 1e-9)[self.level_of_span >= 0]
        if self.spans_fit is not None:
            unit_of = self.spans_fit.unit_of
            length_s = _of_units(unit_of, np.asarray(length_s, np.float64))[unit_of]
        known = np.sqrt(np.diag(self.covariance_w2)) < 0.5 * self.prior_sd_w
        enough = (length_s >= RESOLVED_SPAN_PERIODS * pace_s) | (
            self.seconds[level] >= RESOLVED_PERIODS * pace_s
        )
        return np.asarray(enough & known[level])

    def resolution_of(self, phase: Phase) -> Resolution:
        """R7 for a phase type; KeyError if no span is of that type.

        A level counts when all its spans do; the type when the levels that do have half of its time.
        """
        own = [i for i, span in enumerate(self.spans) if span.phase is phase]
        if not own:
            raise KeyError(f"no span of phase {phase.value}")
        if self.spans_fit is None or (self.level_of_span[own] < 0).any():
            return Resolution.UNDERSAMPLED
        good = np.zeros(len(self.spans), dtype=np.bool_)
        good[self.level_of_span >= 0] = self._long_enough(self.level_of_span[self.level_of_span >= 0])
        resolved_s = whole_s = 0.0
        for level in np.unique(self.level_of_span[own]).tolist():
            inside = [i for i in own if self.level_of_span[i] == level]
            seconds = sum(max(self.spans[i].duration_s, 1e-9) for i in inside)
            whole_s += seconds
            resolved_s += seconds if good[inside].all() else 0.0
        return Resolution.RESOLVED if 2.0 * resolved_s >= whole_s else Resolution.UNDERSAMPLED


def _of_units(unit_of: Columns, values: Floats) -> Floats:
    """Sums by unit, shape (units,)."""
    return np.bincount(unit_of, values).astype(np.float64)
