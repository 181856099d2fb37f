"""From the runs of a comparison to its table: every figure of A and B, and how much better one is; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from roambench.report.improvement import Improvement, improvement
from roambench.report.quantities import UP_TO_THRESHOLD, Quantity
from roambench.study.ab.ab_figures import compared_in, figures_of
from roambench.study.ab.ab_plan import ArmName
from roambench.study.sweep.sweep_folder import PointEnd

#: (arm, pair) -> the run that finished.
Ended = Mapping[tuple[ArmName, int], PointEnd]


@dataclass(frozen=True, slots=True)
class PairedFigure:
    """One figure, over the pairs in which both runs have it."""

    compared: Quantity
    found: Improvement


@dataclass(frozen=True, slots=True)
class AbTable:
    """`rows` in the order of `compared_in`; `partly`: figures that some pairs lack, how many have them. What
    it took to a threshold is no row where a run never reached it: the quick runs alone would favour the arm
    that seldom does."""

    pairs: int
    whole_pairs: int
    rows: tuple[PairedFigure, ...]
    partly: tuple[tuple[str, int], ...]

    def row(self, name: str) -> PairedFigure:
        """The row of a figure, by its name."""
        return next(row for row in self.rows if row.compared.name == name)


def ab_table(pairs: int, ended: Ended) -> AbTable:
    """`pairs` were asked for; only those of which both runs ended count."""
    whole = [pair for pair in range(1, pairs + 1) if ("A", pair) in ended and ("B", pair) in ended]
    rows, partly = [], []
    figures = {place: figures_of(run) for place, run in ended.items()}
    all_there = all("rounds_to_threshold" in figures[arm, pair] for arm in ("A", "B") for pair in whole)
    for compared in compared_in(ended.values()):
        both = [
            (figures["A", pair][compared.name], figures["B", pair][compared.name])
            for pair in whole
            if compared.name in figures["A", pair] and compared.name in figures["B", pair]
        ]
        if not both or not compared.better:
            continue
        if len(both) < len(whole):
            partly.append((compared.title, len(both)))
        if all_there or compared.name not in UP_TO_THRESHOLD:
            rows.append(PairedFigure(compared, improvement(both, compared.better)))
    return AbTable(pairs, len(whole), tuple(rows), tuple(partly))
