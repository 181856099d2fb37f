"""Figures that are known exactly, or only from below because the run ended too early."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """The figure lies in [low, high]; `high` is infinite where only its least is known."""

    low: float
    high: float

    @classmethod
    def exactly(cls, value: float) -> Bounds:
        """A figure that is known."""
        return cls(value, value)

    @classmethod
    def at_least(cls, value: float) -> Bounds:
        """A figure known from below only."""
        return cls(value, math.inf)

    @property
    def known(self) -> bool:
        """True where the figure is known exactly."""
        return self.low == self.high


def mean_of(values: Sequence[Bounds]) -> Bounds:
    """At least one value."""
    count = len(values)
    return Bounds(math.fsum(v.low for v in values) / count, math.fsum(v.high for v in values) / count)


def ratio_of(above: Bounds, below: Bounds) -> Bounds:
    """The quotient of `above` and `below`; all figures are ≥ 0."""
    return Bounds(_quotient(above.low, below.high), _quotient(above.high, below.low))


def factor(ratio: Bounds, unit: str = " ×") -> str:
    """3.67 ×; ≥ 3.67 × and ≤ 3.67 × where one side is open; – where both are."""
    if math.isnan(ratio.low) or math.isnan(ratio.high) or (ratio.low <= 0.0 and math.isinf(ratio.high)):
        return "–"
    if math.isinf(ratio.high):
        return f"≥ {ratio.low:.2f}{unit}"
    if ratio.known or f"{ratio.low:.2f}" == f"{ratio.high:.2f}":
        return f"{ratio.low:.2f}{unit}"
    if ratio.low <= 0.0:
        return f"≤ {ratio.high:.2f}{unit}"
    return f"{ratio.low:.2f} to {ratio.high:.2f}{unit}"


def _quotient(above: float, below: float) -> float:
    if math.isinf(above) and math.isinf(below):
        return math.nan
    if below == 0.0:
        return math.nan if above == 0.0 else math.inf
    return above / below
