"""Measured over modelled energy with its interval, and what that decides about the model, in one sentence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from roambench.energy.energy_value import Energy, covariance_j2

#: Intervals are of ± 2 u, about 95 %.
K: Final = 2.0
#: A model agrees where the interval of measured / modelled holds 1, and neither this nor its inverse.
FACTOR: Final = 2.0


class ModelFinding(StrEnum):
    """The standing of a model beside a measurement."""

    NOTHING = "nothing"  # no transfer that was seen in full, or no model for it
    NOT_RESOLVED = "not resolved"  # the interval holds 1 and a factor of two
    AGREES = "agrees"
    OVERSTATES = "overstates"  # the model says more than was measured
    UNDERSTATES = "understates"


@dataclass(frozen=True, slots=True)
class Ratio:
    """Measured over modelled energy: `value` with its interval and standard uncertainty `u`, of which
    `u_lasting` is what no further transfer would lower. `residual_u` is measured minus modelled in standard
    uncertainties of the difference. `settled_by` times as many transfers decide about the model, if `value`
    stays; infinite: none do. NaN where there is nothing to divide by; an interval without ends where the
    modelled energy may be 0."""

    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    u: float = math.nan
    u_lasting: float = math.nan
    residual_u: float = math.nan
    settled_by: float = math.nan

    @classmethod
    def of(cls, measured: Energy, modelled: Energy | None) -> Ratio:
        """All ratios r that the difference measured - r * modelled allows (Fieller): its uncertainty has the
        errors of both, and an error that both share, such as a gain, cancels."""
        if modelled is None or modelled.joules <= 0.0:
            return cls()
        (v_measured, shared), (_, v_modelled) = covariance_j2([measured, modelled]).tolist()
        value = measured.joules / modelled.joules

        def u2_at(ratio: float) -> float:
            """Variance of measured - ratio * modelled in units of the modelled energy."""
            variance = v_measured - 2.0 * ratio * shared + ratio**2 * v_modelled
            return float(max(0.0, variance)) / modelled.joules**2

        u, own, u_apart = math.sqrt(u2_at(value)), measured.budget.sampling_j / modelled.joules, u2_at(1.0)
        residual_u = (value - 1.0) / math.sqrt(u_apart) if u_apart else math.nan
        rest = u, math.sqrt(max(0.0, u**2 - own**2)), residual_u
        a = modelled.joules**2 - K**2 * v_modelled
        b = measured.joules * modelled.joules - K**2 * shared
        c = measured.joules**2 - K**2 * v_measured
        if a <= 0.0:
            return cls(value, -math.inf, math.inf, *rest, math.inf)

        def left_out_by(ratio: float) -> float:
            """Times as many transfers until the interval leaves `ratio` out; what lasts grows with them."""
            room = ((value - ratio) / K) ** 2 - (u2_at(ratio) - own**2)
            return own**2 / room if room > 0.0 else math.inf

        agreed = (
            max(left_out_by(1.0 / FACTOR), left_out_by(FACTOR)) if 1.0 / FACTOR < value < FACTOR else math.inf
        )
        root = math.sqrt(max(0.0, b**2 - a * c))
        return cls(value, (b - root) / a, (b + root) / a, *rest, min(left_out_by(1.0), agreed))

    def __str__(self) -> str:
        half = 0.5 * (self.high - self.low)
        if not math.isfinite(half):
            return f"{self.value:.2f} [no bounds]"
        places = min(3, max(0, 1 - math.floor(math.log10(half)))) if half > 0.0 else 3
        return f"{self.value:.{places}f} [{self.low:.{places}f}, {self.high:.{places}f}]"


@dataclass(frozen=True, slots=True)
class ModelVerdict:
    """`sentence` stands alone; `remark` is one or two words, for a table that has the figures."""

    finding: ModelFinding
    sentence: str
    remark: str

    @property
    def settled(self) -> bool:
        """True if the measurement decided anything about the model."""
        return self.finding in (ModelFinding.AGREES, ModelFinding.OVERSTATES, ModelFinding.UNDERSTATES)


def verdict_of(ratio: Ratio, *, transfers: int, left_out: int) -> ModelVerdict:
    """Judge `ratio` by its interval alone, for one transfer, a board and a sum alike; the model agrees where
    the interval holds 1 and excludes a factor of two.

    `transfers` were summed, `left_out` more not seen in full.
    """
    if not transfers:
        why = f"{left_out} transfer{'s' * (left_out > 1)} not seen in full" if left_out else "no transfer"
        return ModelVerdict(ModelFinding.NOTHING, f"nothing to compare: {why}", "not seen")
    if not math.isfinite(ratio.value):
        return ModelVerdict(
            ModelFinding.NOTHING, "nothing to compare with: no model knows this link", "no model"
        )
    if ratio.high < 1.0:
        finding, said = ModelFinding.OVERSTATES, "the interval is below 1, so the model overstates the energy"
    elif ratio.low > 1.0:
        finding, said = (
            ModelFinding.UNDERSTATES,
            "the interval is above 1, so the model understates the energy",
        )
    elif ratio.low > 1.0 / FACTOR and ratio.high < FACTOR:
        finding, said = ModelFinding.AGREES, "the interval holds 1 and no factor of two, so the model agrees"
    else:
        finding = ModelFinding.NOT_RESOLVED
        said = f"not resolved, the interval holds 1 and a factor of two ({_enough(transfers, ratio)})"
    return ModelVerdict(finding, f"measured/modelled = {ratio}: {said}", finding.value)


def _enough(transfers: int, ratio: Ratio) -> str:
    """Return how many transfers would settle it: what does not last falls with the root of their number."""
    if math.isfinite(ratio.settled_by):
        needed = math.ceil(transfers * ratio.settled_by)
        return f"about {needed:,} such transfers would settle it at this ratio"
    return (
        "no number of transfers would settle it at this ratio: gain, idle power and model alone leave "
        f"± {K * ratio.u_lasting:.2f}"
    )
