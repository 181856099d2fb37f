"""The compared figures of a run: its joules with what its meters have wrong, and what it learned."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from roambench.contract.errors import RunError
from roambench.contract.json_values import kept_in
from roambench.contract.metric import Better
from roambench.energy.energy_value import Energy
from roambench.report.quantities import QUANTITIES, Quantity
from roambench.report.report import report
from roambench.report.summaries.run import RunSummary
from roambench.runs.whole_file import write_whole
from roambench.study.ab.improvement import Measured
from roambench.study.sweep.metrics import figures, metric_of

_FILE: Final = "ab.json"


@dataclass(frozen=True, slots=True)
class EndedRun:
    """The part of a point's finished run that a comparison takes, kept beside its folder under the point's
    `key`.

    `own`: of its task's own metrics, whether higher or lower values are better. `began`: UTC, in ISO 8601.
    `flags`: of the run's own report.
    """

    key: str
    began: str
    flags: tuple[str, ...]
    figures: Mapping[str, Measured]
    own: Mapping[str, Better]


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


def compared_in(runs: Iterable[EndedRun]) -> Iterator[Quantity]:
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


def figures_of(run: RunSummary) -> dict[str, Measured]:
    """Every figure that the run has, its task's own metrics among them, by the names of `compared_in`."""
    found = {}
    for name, figure in figures(run).items():
        if figure is not None:
            modelled = name in QUANTITIES and QUANTITIES[name].basis == "either" and run.basis == "modelled"
            terms = figure.terms if isinstance(figure, Energy) else ()
            value = figure.joules if isinstance(figure, Energy) else float(figure)
            found[f"{_MODELLED if modelled else ''}{name}"] = Measured(value, terms)
    return found


def ended_run(folder: Path, key: str) -> EndedRun:
    """Return the run in a point's folder: read where it was kept, else summed up and kept.

    RunError for a folder that holds no run.
    """
    path = folder / _FILE
    kept = kept_in(EndedRun, path)
    if kept is not None and kept.key == key:
        return kept
    runs = sorted(run for run in (folder / "runs").glob("*") if run.is_dir())
    if len(runs) != 1:
        raise RunError(f"{folder / 'runs'}: expected one run folder, found {len(runs)}")
    (summary,) = report(runs).summaries
    own = {metric.name: metric.better for metric in summary.learning.own}
    made = EndedRun(key, summary.info.created_utc, summary.flags, figures_of(summary), own)
    write_whole(path, json.dumps(asdict(made), indent=1) + "\n")
    return made


def forget_figures(folder: Path) -> None:
    """Before the point is run again."""
    (folder / _FILE).unlink(missing_ok=True)
