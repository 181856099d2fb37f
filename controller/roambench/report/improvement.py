"""The improvement of A over B: paired repeats, a t interval of the log-ratio, and what the meters share.

Runs of A and B are paired by neighbourhood: a bench that slowly warms up moves both of a pair alike, so the
pairs' log-ratios d_k = ln(b_k / a_k) scatter less than the runs do. The factor is exp(mean d), its interval
exp(mean d ± h) with h^2 = (t s_d)^2 / n + (z u_meter)^2, t of Student's distribution with n - 1 degrees of
freedom and z of the normal one. (One t at the effective degrees of freedom of Welch and Satterthwaite, JCGM
100:2008 G.4.1, held the truth in only 89 % of simulated benches with two pairs, this in 95 to 99 %.)

u_meter is of errors that repeats do not show, because every run has them alike: a meter's gain and offset.
In a ratio they cancel as far as A and B draw on the same meters in the same proportions: of each source only
the difference of its relative parts remains.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from roambench.contract.metric import Better
from roambench.energy.energy_value import LASTING, Term, UncertaintyPart, told_from_zero
from roambench.report.spread import CONFIDENCE, Interval, Spread, spread, t_interval

#: Errors of a meter that are the same in every run on it. A model's are, too, but A and B share the model.
_LASTING: Final = LASTING - {UncertaintyPart.MODEL}
#: Values that differ by less than this share are alike: they are sums of rounded ones.
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Measured:
    """One run's figure with the terms of its uncertainty, signs included (k = 1)."""

    value: float
    terms: tuple[Term, ...] = ()

    @property
    def u(self) -> float:
        """Standard uncertainty."""
        return math.hypot(*(u for _, _, u in self.terms))

    def lasting(self) -> dict[tuple[UncertaintyPart, str], float]:
        """Uncertainties that every run has alike, by part and source."""
        return {(part, source): u for part, source, u in self.terms if part in _LASTING and source}


@dataclass(frozen=True, slots=True)
class Improvement:
    """Over `pairs` of runs. `a` and `b`: their intervals are about repeats on these meters; what the meters
    have wrong themselves is `u` (k = 1). `factor` says how many times better A is: above 1 A is, below 1 B
    is.

    None where a value is not positive, or less than its uncertainty: then no ratio says anything (`reason`),
    and the difference B - A is what remains. Intervals are None for a single pair. `u_meter` is relative, of
    the factor (k = 1).
    """

    a: Spread
    b: Spread
    pairs: int
    factor: float | None
    factor_interval: Interval | None
    u_meter: float
    difference: float
    difference_interval: Interval | None
    better: Better
    reason: str = ""

    @property
    def doubt(self) -> str:
        """Say why nothing is claimed; "" where it is resolved. Pairs that are all alike are one pair, which
        chance had no part in: their interval has no width and no meaning."""
        if self.pairs < 2:
            return "one pair: no claim"
        if self.is_alike:
            return "the same in every pair: no claim"
        return "" if self._holds_no_equality else "not resolved"

    @property
    def resolved(self) -> bool:
        """True if the interval, of the factor where there is one, leaves no doubt who is better."""
        return not self.doubt

    @property
    def is_alike(self) -> bool:
        """True if every pair has the same values."""
        spreads = [(mean.sd or 0.0, abs(mean.mean or 0.0)) for mean in (self.a, self.b)]
        return all(sd <= _ROUNDING * size for sd, size in spreads)

    @property
    def _holds_no_equality(self) -> bool:
        if self.factor_interval is not None:
            return not self.factor_interval.holds(1.0)
        return self.difference_interval is not None and not self.difference_interval.holds(0.0)

    @property
    def winner(self) -> str:
        """ "A", "B", or "" where it is not resolved."""
        if not self.resolved:
            return ""
        b_is_more = self.difference > 0.0 if self.factor is None else self._b_over_a > 1.0
        return "A" if b_is_more == (self.better == "lower") else "B"

    @property
    def _b_over_a(self) -> float:
        assert self.factor is not None
        return self.factor if self.better == "lower" else 1.0 / self.factor


def improvement(
    pairs: Sequence[tuple[Measured, Measured]], better: Better, confidence: float = CONFIDENCE
) -> Improvement:
    """Return the improvement of A over B from pairs of neighbouring runs (a, b), or of one seed; ValueError
    without any pair."""
    if not pairs:
        raise ValueError("improvement: expected at least one pair")
    a, b = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    differences = [of_b.value - of_a.value for of_a, of_b in pairs]
    u_difference = _apart(_mean_terms(a, relative=False), _mean_terms(b, relative=False))
    reason = ""
    if not all(run.value > 0.0 for run in (*a, *b)):
        reason = "a value of 0 or less has no ratio"
    elif not all(told_from_zero(run.value, run.u) for run in (*a, *b)):
        reason = "a value that is less than its own uncertainty has no ratio"
    factor = interval = None
    u_meter = math.nan
    if not reason:
        u_meter = _apart(_mean_terms(a, relative=True), _mean_terms(b, relative=True))
        sign = 1.0 if better == "lower" else -1.0
        logs = [sign * math.log(of_b.value / of_a.value) for of_a, of_b in pairs]
        factor = math.exp(math.fsum(logs) / len(logs))
        if (found := t_interval(logs, u_meter, confidence)) is not None:
            interval = Interval(math.exp(found.low), math.exp(found.high))
    made = Improvement(
        _mean(a),
        _mean(b),
        len(pairs),
        factor,
        interval,
        u_meter,
        math.fsum(differences) / len(differences),
        t_interval(differences, u_difference, confidence),
        better,
        reason,
    )
    # Without an error of the meters, either, their intervals have no width.
    if made.is_alike and not u_difference:
        return replace(made, factor_interval=None, difference_interval=None)
    return made


def _mean(runs: Sequence[Measured]) -> Spread:
    u_meter = math.hypot(*_mean_terms(runs, relative=False).values())
    return spread([run.value for run in runs], u_meter)


def _mean_terms(runs: Iterable[Measured], *, relative: bool) -> dict[tuple[UncertaintyPart, str], float]:
    """Each lasting source's part in the mean of the runs, in their unit or as a share of their values."""
    found: dict[tuple[UncertaintyPart, str], list[float]] = {}
    count = 0
    for run in runs:
        count += 1
        for key, u in run.lasting().items():
            found.setdefault(key, []).append(u / run.value if relative else u)
    return {key: math.fsum(parts) / count for key, parts in found.items()}


def _apart(a: dict[tuple[UncertaintyPart, str], float], b: dict[tuple[UncertaintyPart, str], float]) -> float:
    """Uncertainty that sources of error leave in the difference: of one that both have alike, nothing."""
    return math.hypot(*(b.get(key, 0.0) - a.get(key, 0.0) for key in {**a, **b}))
