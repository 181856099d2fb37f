"""Honest verdict on a model beside a measurement, in one sentence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

#: A model agrees where the interval of measured / modelled holds 1 and neither this nor its inverse.
FACTOR: Final = 2.0
#: No interval this narrow (k = 2) holds 1 and a factor of two at once: it settles the matter at any ratio.
SETTLING: Final = 0.25


class ModelFinding(StrEnum):
    """How a model stands beside a measurement."""

    NOTHING = "nothing"  # no transfer that was seen in full, or no model for it
    NOT_RESOLVED = "not resolved"  # the interval holds 1 and a factor of two
    AGREES = "agrees"
    OVERSTATES = "overstates"  # the model says more than was measured
    UNDERSTATES = "understates"


@dataclass(frozen=True, slots=True)
class ModelVerdict:
    """`sentence` stands alone; `remark` is one or two words, for a table that has the figures."""

    finding: ModelFinding
    sentence: str
    remark: str

    @property
    def settled(self) -> bool:
        """Whether the measurement decided anything about the model."""
        return self.finding in (ModelFinding.AGREES, ModelFinding.OVERSTATES, ModelFinding.UNDERSTATES)


def verdict_of(
    *,
    ratio: float,
    u_ratio: float,
    transfers: int,
    left_out: int,
    u_lasting: float = 0.0,
) -> ModelVerdict:
    """Judge measured / modelled = `ratio` with standard uncertainty `u_ratio` by its interval of ± 2 u alone,
    for one transfer, a board and a sum alike; it agrees where the interval holds 1 and excludes a factor of
    two. `u_lasting` is the part of `u_ratio` that no further transfer would lower.

    `transfers` were summed, `left_out` more not seen in full.
    """
    if not transfers:
        why = f"{_count(left_out)} not seen in full" if left_out else "no transfer"
        return ModelVerdict(ModelFinding.NOTHING, f"nothing to compare: {why}", "not seen")
    if not math.isfinite(ratio):
        return ModelVerdict(
            ModelFinding.NOTHING, "nothing to compare with: no model knows this link", "no model"
        )
    if abs(ratio - 1.0) > 2.0 * u_ratio:
        finding = ModelFinding.OVERSTATES if ratio < 1.0 else ModelFinding.UNDERSTATES
        said, remark = f"the model {finding.value}", finding.value
    elif ratio - 2.0 * u_ratio > 1.0 / FACTOR and ratio + 2.0 * u_ratio < FACTOR:
        finding, said, remark = ModelFinding.AGREES, "agrees within 2u", "agrees"
    else:
        enough = _enough(transfers, u_ratio, u_lasting)
        finding, remark = ModelFinding.NOT_RESOLVED, "not resolved"
        said = f"{remark} ({enough})"
    return ModelVerdict(finding, f"measured/modelled = {ratio_text(ratio, u_ratio)}: {said}", remark)


def _enough(transfers: int, u_ratio: float, u_lasting: float) -> str:
    """How many transfers would settle it: what does not last falls with the root of their number."""
    left = (0.5 * SETTLING) ** 2 - u_lasting**2
    if left > 0.0 and math.isfinite(u_ratio):
        return f"some {math.ceil(transfers * (u_ratio**2 - u_lasting**2) / left):,} such transfers would do"
    return (
        f"no number of transfers would do: gain, idle power and model alone leave ± {2.0 * u_lasting:.2f}, "
        f"and it takes ± {SETTLING:g}"
    )


def ratio_text(ratio: float, u_ratio: float) -> str:
    """A ratio with its expanded uncertainty (k = 2), two digits of it."""
    expanded = 2.0 * u_ratio
    places = 2
    if 0.0 < expanded < math.inf:
        places = min(3, max(0, 1 - math.floor(math.log10(expanded))))
    return f"{ratio:.{places}f} ± {expanded:.{places}f}"


def _count(transfers: int) -> str:
    return "1 transfer" if transfers == 1 else f"{transfers} transfers"
