"""From the runs of a comparison to its table: every figure of A and B, and how much better one is; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from roambench.controller.ab.ab_figures import COMPARED, Compared
from roambench.controller.ab.ab_plan import ArmName
from roambench.energy.improvement import Improvement, Measured, improvement

#: (arm, pair) -> the figures of the run that finished.
Ended = Mapping[tuple[ArmName, int], Mapping[str, Measured]]


@dataclass(frozen=True, slots=True)
class Row:
    """One figure, over the pairs in which both runs have it."""

    compared: Compared
    found: Improvement


@dataclass(frozen=True, slots=True)
class AbTable:
    """`rows` in the order of COMPARED; `partly`: figures that some pairs lack, and how many have them."""

    pairs: int
    whole_pairs: int
    rows: tuple[Row, ...]
    partly: tuple[tuple[str, int], ...]

    def row(self, name: str) -> Row:
        """The row of a figure, by its name."""
        return next(row for row in self.rows if row.compared.name == name)


def ab_table(pairs: int, ended: Ended) -> AbTable:
    """`pairs` were asked for; only those of which both runs ended count."""
    whole = [pair for pair in range(1, pairs + 1) if ("A", pair) in ended and ("B", pair) in ended]
    rows, partly = [], []
    for compared in COMPARED:
        both = [
            (ended["A", pair][compared.name], ended["B", pair][compared.name])
            for pair in whole
            if compared.name in ended["A", pair] and compared.name in ended["B", pair]
        ]
        if not both:
            continue
        rows.append(Row(compared, improvement(both, compared.better)))
        if len(both) < len(whole):
            partly.append((compared.title, len(both)))
    return AbTable(pairs, len(whole), tuple(rows), tuple(partly))
