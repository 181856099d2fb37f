"""Energy per phase by generalised least squares (ENERGY rule R3): what each phase draws, with its covariance.

The order of phases is fixed (idle, download, train, upload, wait), so a trapezoid cut at the borders always
leaks training power into the transfers: a bias that no repetition averages away. Instead every reading is

    reading_k = sum over phases of occupancy(window_k, phase) * P_phase + error_k

and a span's energy is P_phase * its measured seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from roambench.contract.phases import ACTIVE_PHASES, Phase, PhaseSpan
from roambench.energy.integrate import PowerCurve, covered_by_span, span_stamps
from roambench.energy.lateness import informative, likeliest_lateness
from roambench.energy.least_squares import Design, Fit, fit_levels
from roambench.energy.occupancy import SP2_WINDOW, Columns, Floats, MeterWindow
from roambench.energy.samples import PowerSamples, without_bursts

#: R7: a phase this long is resolved by itself, or repeated phases of its type that add up to 10 periods.
RESOLVED_SPAN_S: Final = 5.0
RESOLVED_PERIODS: Final = 10.0


@dataclass(frozen=True, slots=True)
class SpanEnergy:
    """Energy of one span over its measured seconds; `u_level_w` is what spans of its type share."""

    covered_s: float
    gross_j: float
    net_j: float
    u_gross_j: float
    u_net_j: float
    u_level_w: float
    u_net_level_w: float
    resolved: bool


@dataclass(frozen=True, slots=True)
class Attribution:
    """Fitted power of each level (a phase type, or one long span): arrays of shape (levels,).

    `levels[0]` is the idle level. `covariance_w2` has shape (levels, levels). `noise_sd_w` is the scatter of
    single readings inside the level, `noise_correlation` their lag-1 correlation, `seconds` the time the
    spans of the level last, `readings` how many readings' worth of window looked at it. `residual_sd_w` is
    the root mean square of what the fit leaves over. `prior_sd_w` bounds a level that no reading saw.
    """

    levels: tuple[str, ...]
    watts: Floats
    covariance_w2: Floats
    noise_sd_w: Floats
    noise_correlation: Floats
    seconds: Floats
    readings: Floats
    residual_sd_w: float
    used_readings: int
    prior_sd_w: float
    lateness_s: float  # how much later than the window model says the lines arrived, and its uncertainty
    u_lateness_s: float
    nominal_s: float
    spans: tuple[PhaseSpan, ...]
    level_of_span: Columns  # shape (spans,), -1 for LOST

    @property
    def idle_w(self) -> float:
        return float(self.watts[0])

    @property
    def u_idle_w(self) -> float:
        return float(np.sqrt(self.covariance_w2[0, 0]))

    def watts_of(self, phase: Phase) -> tuple[float, float]:
        """Fitted power of a phase type and its standard uncertainty; KeyError if no span is of that type."""
        for span, level in zip(self.spans, self.level_of_span.tolist(), strict=True):
            if span.phase is phase and level >= 0:
                return float(self.watts[level]), float(np.sqrt(self.covariance_w2[level, level]))
        raise KeyError(f"no span of phase {phase.value}")

    def net_watts_of(self, phase: Phase) -> tuple[float, float]:
        """Power above the idle level and its standard uncertainty."""
        for span, level in zip(self.spans, self.level_of_span.tolist(), strict=True):
            if span.phase is phase and level >= 0:
                return float(self.watts[level] - self.watts[0]), float(self._u_net_w()[level])
        raise KeyError(f"no span of phase {phase.value}")

    def span_energies(self, curve: PowerCurve) -> list[SpanEnergy]:
        """Energy of each span over the seconds that `curve` covers, in span order; 0 J for LOST spans.

        Without a single usable reading nothing can be split: 0 J over 0 measured seconds.
        """
        if not self.used_readings:
            nothing = SpanEnergy(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, False)
            return [nothing] * len(self.spans)
        covered_s = covered_by_span(curve, self.spans)
        starts, ends = span_stamps(self.spans)
        length_s = (ends - starts) * 1e-9
        level = np.maximum(self.level_of_span, 0)
        lost = self.level_of_span < 0
        seen_s = np.where(lost, 0.0, covered_s)
        u_level = np.where(lost, 0.0, np.sqrt(np.diag(self.covariance_w2))[level])
        u_net_level = np.where(lost, 0.0, self._u_net_w()[level])
        # The level is a mean over its spans; one span scatters around it like its seconds do.
        spread = np.clip(self.noise_correlation, 0.0, 0.95)
        scatter_w2 = np.square(self.noise_sd_w) * (1.0 + spread) / (1.0 - spread) * self.nominal_s
        own_j2 = scatter_w2[level] * seen_s
        known = np.sqrt(np.diag(self.covariance_w2)) < 0.5 * self.prior_sd_w
        long_enough = (length_s >= RESOLVED_SPAN_S) | (
            self.seconds[level] >= RESOLVED_PERIODS * self.nominal_s
        )
        resolved = long_enough & known[level] & ~lost & (seen_s > 0.0)
        gross = self.watts[level] * seen_s
        net = (self.watts[level] - self.watts[0]) * seen_s
        u_gross = np.sqrt(np.square(u_level * seen_s) + own_j2)
        # A span at the idle level has no net energy by definition, hence no uncertainty of it.
        u_net = np.where(level == 0, 0.0, np.sqrt(np.square(u_net_level * seen_s) + own_j2))
        columns = (covered_s, gross, net, u_gross, u_net, u_level, u_net_level, resolved)
        return [SpanEnergy(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]

    def _u_net_w(self) -> Floats:
        c = self.covariance_w2
        return np.asarray(np.sqrt(np.maximum(np.diag(c) + c[0, 0] - 2.0 * c[:, 0], 0.0)))


def attribute(
    samples: PowerSamples,
    spans: Sequence[PhaseSpan],
    *,
    nominal_s: float = 1.0,
    window: MeterWindow = SP2_WINDOW,
    separate_background: bool = False,
    own_level_s: float | None = None,
    fit_lateness: bool = False,
) -> Attribution:
    """Fit the power of every phase type of one device from its raw arrivals (device time, not shifted).

    `spans` are sorted and do not overlap (`timeline.complete_timeline`); readings whose window touches a
    LOST span or a hole are left out. Idle, absent and wait share one level unless `separate_background`.
    A span of `own_level_s` or longer gets a level of its own: for runs whose training power drifts.

    `fit_lateness` also finds how much later than `window` says the lines arrive against the phase stamps
    (USB buffers, borders stamped late, an emulation run faster than real time). 20 ms not accounted for
    turn the net energy of 0.5 s downloads by -6 %, 60 ms by -14 %; 2 s ones by less than 1 %.

    A level that hardly any reading saw is held by a weak prior, the middle of the readings +- their range,
    so its energy stays physical and its uncertainty says that it was not measured.
    """
    names, level_of_span = _levels(spans, separate_background, own_level_s)
    count = len(names)
    starts, ends = span_stamps(spans)
    seconds = np.zeros(count)
    np.add.at(seconds, level_of_span[level_of_span >= 0], ((ends - starts) * 1e-9)[level_of_span >= 0])
    arrivals = without_bursts(samples, nominal_s).samples
    origin = int(starts[0]) if len(starts) else 0
    at_s, starts_s, ends_s = (np.multiply(ns - origin, 1e-9) for ns in (arrivals.ns, starts, ends))

    def fitted(late_s: float, chosen: Columns | slice = slice(None)) -> Fit:
        design = Design(at_s[chosen] - late_s, starts_s, ends_s, level_of_span, count, window)
        return fit_levels(design, arrivals.watts[chosen][design.used])

    late_s = u_late_s = 0.0
    if fit_lateness:
        near = informative(at_s, starts_s, ends_s, level_of_span, window)
        late_s, u_late_s = likeliest_lateness(lambda tried_s: fitted(tried_s, near).surprise)
    fit = fitted(late_s)
    if u_late_s:
        slope = (fitted(late_s + 0.025).watts - fitted(late_s - 0.025).watts) / 0.05
        fit = replace(fit, covariance=fit.covariance + np.outer(slope, slope) * u_late_s**2)
    return Attribution(
        levels=names,
        watts=fit.watts,
        covariance_w2=fit.covariance,
        noise_sd_w=np.sqrt(fit.noise_w2),
        noise_correlation=fit.correlation,
        seconds=seconds,
        readings=fit.readings,
        residual_sd_w=fit.residual_sd,
        used_readings=fit.used_readings,
        prior_sd_w=fit.prior_sd,
        lateness_s=late_s,
        u_lateness_s=u_late_s,
        nominal_s=nominal_s,
        spans=tuple(spans),
        level_of_span=level_of_span,
    )


def _levels(
    spans: Sequence[PhaseSpan], separate_background: bool, own_level_s: float | None
) -> tuple[tuple[str, ...], Columns]:
    """Names of the levels (idle first) and the level of each span, -1 where nothing is to be fitted."""
    index: dict[str, int] = {Phase.IDLE.value: 0}
    level_of_span = np.full(len(spans), -1, dtype=np.int64)
    for i, span in enumerate(spans):
        if span.phase is Phase.LOST:
            continue
        alone = span.phase in ACTIVE_PHASES or separate_background
        name = span.phase.value if alone else Phase.IDLE.value
        if own_level_s is not None and span.phase in ACTIVE_PHASES and span.duration_s >= own_level_s:
            name = f"{name}[{i}]"
        level_of_span[i] = index.setdefault(name, len(index))
    return tuple(index), level_of_span
