"""A measured energy: joules, how uncertain and by what, and how much of the time the meter really saw."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import numpy as np
import numpy.typing as npt


class UncertaintyPart(StrEnum):
    """A source of an energy's uncertainty (rule R9)."""

    GAIN = "gain"
    OFFSET = "offset"
    EDGES = "edges"  # borders of phases and of the run against the meter's window and clock
    SAMPLING = "sampling"  # what happened while the meter did not look, its noise and its steps
    BASELINE = "baseline"  # the idle power that a net energy leaves out
    MODEL = "model"  # of modelled energies


#: Errors of one source that are the same in every run; all others scatter between runs.
LASTING: Final = frozenset({UncertaintyPart.GAIN, UncertaintyPart.OFFSET, UncertaintyPart.MODEL})
#: (part, what shares it, joules): terms of one source are one and the same error and add linearly, signs
#: included; the source "" stands for independent errors, which add in quadrature.
Term = tuple[UncertaintyPart, str, float]


@dataclass(frozen=True, slots=True)
class UncertaintyBudget:
    """Standard uncertainties in joules by where they come from, independent of each other."""

    gain_j: float = 0.0
    offset_j: float = 0.0
    sampling_j: float = 0.0
    edges_j: float = 0.0
    baseline_j: float = 0.0
    model_j: float = 0.0

    @property
    def total_j(self) -> float:
        """Combined standard uncertainty, J: root of the sum of squares."""
        return math.hypot(
            self.gain_j,
            self.offset_j,
            self.sampling_j,
            self.edges_j,
            self.baseline_j,
            self.model_j,
        )


@dataclass(frozen=True, slots=True)
class Energy:
    """`joules` over `covered_s` seconds; `gap_s` more seconds passed unmeasured and hold no joules here.

    `u_joules` is a standard uncertainty (k = 1) and always that of `terms`. Without terms all of it counts
    as independent sampling. Adding two energies adds what they share linearly (one meter's gain and offset,
    a common reference, a model) and the rest in quadrature, so that no sum is surer than it should be.
    """

    joules: float = 0.0
    u_joules: float = 0.0
    covered_s: float = 0.0
    gap_s: float = 0.0
    terms: tuple[Term, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if self.terms:
            object.__setattr__(self, "terms", _merged(self.terms))
            object.__setattr__(self, "u_joules", math.hypot(*(u for _, _, u in self.terms)))
        elif self.u_joules:
            object.__setattr__(self, "terms", ((UncertaintyPart.SAMPLING, "", self.u_joules),))

    def __add__(self, other: Energy) -> Energy:
        return total((self, other))

    @property
    def coverage(self) -> float:
        """Measured share of the time, 0..1; an energy over no time at all is fully covered."""
        total_s = self.covered_s + self.gap_s
        return self.covered_s / total_s if total_s > 0.0 else 1.0

    @property
    def mean_w(self) -> float:
        """Mean power over the covered time; NaN when nothing was covered."""
        return self.joules / self.covered_s if self.covered_s > 0.0 else math.nan

    @property
    def budget(self) -> UncertaintyBudget:
        """The uncertainty by where it comes from."""
        parts = {part: math.hypot(*(u for of, _, u in self.terms if of is part)) for part, _, _ in self.terms}
        return UncertaintyBudget(**{f"{part.value}_j": u for part, u in parts.items()})

    def with_terms(self, *more: Term) -> Energy:
        """The same energy, less sure by `more`."""
        return Energy(self.joules, 0.0, self.covered_s, self.gap_s, (*self.terms, *more))

    def times(self, factor: float) -> Energy:
        """A part of the energy, or a multiple, over the same time."""
        terms = tuple((part, source, factor * u_j) for part, source, u_j in self.terms)
        return Energy(factor * self.joules, 0.0, self.covered_s, self.gap_s, terms)

    def beside_other_runs(self) -> Energy:
        """The same energy, for sums with other runs': what meters and models have wrong in every run alike
        keeps its source, all else is the run's own."""
        terms = tuple((part, source if part in LASTING else "", u_j) for part, source, u_j in self.terms)
        return Energy(self.joules, 0.0, self.covered_s, self.gap_s, terms)


def total(energies: Iterable[Energy]) -> Energy:
    """Sum in the order given; shared errors add linearly, the others in quadrature."""
    joules = covered_s = gap_s = 0.0
    terms: list[Term] = []
    for energy in energies:
        joules += energy.joules
        covered_s += energy.covered_s
        gap_s += energy.gap_s
        terms += energy.terms
    return Energy(joules, 0.0, covered_s, gap_s, tuple(terms))


def covariance_j2(energies: Sequence[Energy]) -> npt.NDArray[np.float64]:
    """Covariance of energies, J², shape (energies, energies): by the errors that they share off the
    diagonal."""
    columns: dict[tuple[UncertaintyPart, str, int], int] = {}
    found = [
        (row, columns.setdefault((part, source, -1 if source else row), len(columns)), u_j)
        for row, energy in enumerate(energies)
        for part, source, u_j in energy.terms
    ]
    errors = np.zeros((len(energies), len(columns)))
    for row, column, u_j in found:
        errors[row, column] = u_j
    return errors @ errors.T


def _merged(terms: Iterable[Term]) -> tuple[Term, ...]:
    """One term for each part and source, sorted; those of no size are left out."""
    sums: dict[tuple[UncertaintyPart, str], float] = {}
    for part, source, u_j in terms:
        known = sums.get((part, source), 0.0)
        sums[part, source] = known + u_j if source else math.hypot(known, u_j)
    return tuple((*key, sums[key]) for key in sorted(sums) if sums[key])


def told_from_zero(reference: float, u: float, value: float = 0.0) -> bool:
    """Return whether a ratio of `value` to `reference` says anything: `reference` is more than the standard
    uncertainty `u`, and more than what rounding may leave of a difference of sums like `value`."""
    return abs(reference) > max(u if math.isfinite(u) else 0.0, 1e-9 * abs(value))
