"""When runs reached lower accuracies than the threshold: ratios where a baseline never got that far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from roambench.report import paper_mohawk as paper
from roambench.report.numbers import NONE
from roambench.report.paper_ratios import ratios_of
from roambench.report.paper_runs import PaperRun, comparable, rounds_of
from roambench.report.paper_settings import bounded, groups_of, place_of
from roambench.report.table import Table

#: Accuracies below the threshold that are told.
MILESTONES: Final = (0.8, 0.9, 0.95)


def milestones_table(runs: Sequence[PaperRun]) -> Table | None:
    """Rounds to each of MILESTONES below the runs' threshold, ours only; None where nothing was scored."""
    kept = [run for run in comparable(runs) if run.scored]
    told = [accuracy for accuracy in MILESTONES if any(accuracy < run.threshold for run in kept)]
    rows = []
    for setting, systems in groups_of(kept).items():
        for accuracy in told:
            found = [systems.get(name, []) for name in paper.SYSTEMS]
            means = [rounds_of(there, accuracy) if there else None for there in found]
            cells = [
                NONE if mean is None else bounded([mean], lambda low: f"{low:,.4g}", "not in ")
                for mean in means
            ]
            rows.append((*place_of(setting), f"{100.0 * accuracy:g} %", *cells, *ratios_of(means)))
    if not rows:
        return None
    return Table(
        "paper-milestones",
        "Rounds to lower accuracies",
        "Counted as in Table 4, from the same runs; the paper has no figures for these. "
        f"{NONE}: no ratio can be told.",
        (
            "dataset", "data", "k2", "accuracy", "HierFAVG", "MACFL", "MOHAWK",
            "MOHAWK : HierFAVG : MACFL", "Avg. improvement",
        ),
        tuple(rows),
        numeric_from=3,
    )  # fmt: skip
