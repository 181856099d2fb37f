"""Run folders read for a report, those among them that lack a file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from roambench.contract.errors import RunError
from roambench.contract.metric import ACCURACY, Metric
from roambench.report.numbers import joules
from roambench.report.quantities import QUANTITIES
from roambench.report.run_figures import FIGURES, RunFigures, recorded_figures
from roambench.report.summaries.evidence import RunEvidence, read_run, read_runs, with_divergence
from roambench.runs.groups import is_run, run_labels
from roambench.runs.records import OpenRecords

STEPS: Final = "steps.parquet"


@dataclass(frozen=True)
class HalfRun:
    """A run whose folder lacks a file without which nothing can be summed up: `problem` names it. `figures`:
    those that the run's end wrote, of the whole run; `scores`: by step, from the table of its steps."""

    label: str
    problem: str
    figures: RunFigures
    scores: Mapping[Metric, Mapping[int, float]] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """Say what is missing and why."""
        figures = f"figures in {FIGURES}" if self.figures.figures else ""
        scores = f"scores in {STEPS}" if self.scores else ""
        kept = " and ".join(filter(None, (figures, scores)))
        shown = f"of it there are the {kept}, which its end wrote" if kept else f"and it has no {FIGURES}"
        return f"{self.label}: {self.problem}: {shown}; all else is missing"


def read_folders(
    paths: Sequence[Path | str], open_records: OpenRecords | None = None
) -> tuple[list[RunEvidence], list[HalfRun]]:
    """Read the folders as `read_runs` does, and apart from them those that lack a file. RunError for what is
    no run, and where there is no figure of any."""
    if not paths or open_records is not None:
        return read_runs(paths, open_records), []
    runs, halves = [], []
    for path, label in zip(map(Path, paths), run_labels([Path(path) for path in paths]), strict=True):
        try:
            run = read_run(path, label, None)
        except RunError as error:
            if not is_run(path):
                raise
            halves.append(HalfRun(label, str(error), _recorded(path), _scores(path)))
        else:
            unmeasured = run.lost and run.energy is None
            runs.append(replace(run, lost=run.lost + _as_recorded(path)) if unmeasured else run)
    if not runs and not any(half.figures.figures or half.scores for half in halves):
        raise RunError("\n".join(half.problem for half in halves))
    return with_divergence(runs), halves


def _recorded(path: Path) -> RunFigures:
    """The figures that the run's end wrote; none where that file is lost, too."""
    with suppress(RunError):
        return recorded_figures(path) or RunFigures()
    return RunFigures()


def _scores(path: Path) -> dict[Metric, dict[int, float]]:
    """The scores that the run's end wrote; none where that table is lost, too."""
    with suppress(OSError, ValueError, KeyError):  # pyarrow's own are of these
        schema = pq.read_schema(path / STEPS)
        metrics = [ACCURACY] if ACCURACY.name in schema.names else []
        for column in schema:
            match (column.metadata or {}).get(b"better"):
                case b"higher":
                    metrics.append(Metric(column.name, "higher"))
                case b"lower":
                    metrics.append(Metric(column.name, "lower"))
        table = pq.read_table(path / STEPS, columns=["step", *(metric.name for metric in metrics)])
        steps = table["step"].cast(pa.int64()).to_pylist()
        columns = {metric: table[metric.name].cast(pa.float64()).to_pylist() for metric in metrics}
        found = {
            metric: {
                step: value
                for step, value in zip(steps, values, strict=True)
                if step is not None and value is not None and math.isfinite(value)
            }
            for metric, values in columns.items()
        }
        return {metric: scores for metric, scores in found.items() if scores}
    return {}


def _as_recorded(path: Path) -> str:
    """The joules that the run's end wrote."""
    figures = _recorded(path).figures
    known = [
        f"{QUANTITIES[name].title} {joules(figures[name])}"
        for name in ("whole_run_j", "consumed_j", "wasted_j")
        if name in figures
    ]
    return f"; its end wrote ({FIGURES}): {', '.join(known)}" if known else ""
