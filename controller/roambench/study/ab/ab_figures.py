"""The compared figures of a run: its joules with what its meters have wrong, and what it learned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from roambench.report.improvement import Measured
from roambench.report.quantities import QUANTITIES, Quantity
from roambench.report.report import report
from roambench.runs.groups import run_folders
from roambench.study.sweep.metrics import metric_of
from roambench.study.sweep.sweep_folder import PointEnd, write_outcome


def _rows() -> Iterator[Quantity]:
    """Each under the heading of its column."""
    for row in QUANTITIES.values():
        if row.better:
            yield replace(row, title=row.heading("modelled" if row.basis == "modelled" else None))
            if row.basis == "either":
                yield replace(row, name=f"{_MODELLED}{row.name}", title=row.heading("modelled"))


#: Before the names of energies that were modelled because a run had no meters.
_MODELLED: Final = "modelled_"
#: What has a direction, in the order of the table; metrics of a task's own stand behind accuracy
#: (`compared_in`). What no run of a comparison has is left out there.
COMPARED: Final = tuple(_rows())
_BEFORE_OWN: Final = "best_accuracy"


def compared_in(runs: Iterable[PointEnd]) -> Iterator[Quantity]:
    """COMPARED, and the last and the best value of every metric of the runs' own tasks."""
    own = {name: better for run in runs for name, better in run.own.items()}
    for row in COMPARED:
        yield row
        if row.name == _BEFORE_OWN:
            for name, better in own.items():
                for figure in (f"final {name}", f"best {name}"):
                    metric = metric_of(figure)
                    assert metric is not None, figure
                    yield replace(metric, title=f"{figure} ({better} is better)", better=better)


def figures_of(run: PointEnd) -> dict[str, Measured]:
    """Every figure that the run has, its task's own metrics among them, by the names of `compared_in`."""
    found = {}
    for name, value in run.figures.items():
        if value is not None:
            modelled = name in QUANTITIES and QUANTITIES[name].basis == "either" and run.basis == "modelled"
            terms = run.terms.get(name, ())
            found[f"{_MODELLED if modelled else ''}{name}"] = Measured(float(value), terms)
    return found


def with_flags(outcome: PointEnd, folder: Path) -> PointEnd:
    """The outcome of a finished point with the begin and the flags of its run. An older version did not keep
    them: they are read from the run, where that is still there, and kept."""
    runs = list(run_folders(folder / "runs", 1))
    if outcome.began or len(runs) != 1:
        return outcome
    (summary,) = report(runs).summaries
    whole = PointEnd.of(outcome.key, summary)
    outcome = replace(outcome, terms=whole.terms, own=whole.own, began=whole.began, flags=whole.flags)
    write_outcome(folder, outcome)
    return outcome
