"""Run folders read for a report, those among them that lack a file."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from roambench.contract.errors import RunError
from roambench.report.numbers import joules
from roambench.report.quantities import QUANTITIES
from roambench.report.run_figures import FIGURES, RunFigures, recorded_figures
from roambench.report.summaries.evidence import RunEvidence, read_run, read_runs, with_divergence
from roambench.runs.groups import is_run, run_labels
from roambench.runs.records import OpenRecords


@dataclass(frozen=True)
class HalfRun:
    """A run whose folder lacks a file without which nothing can be summed up: `problem` names it. `figures`:
    those that the run's end wrote, of the whole run."""

    label: str
    problem: str
    figures: RunFigures

    @property
    def sentence(self) -> str:
        """Say what is missing and why."""
        kept = f"its figures are those that its end wrote ({FIGURES}), its curves and tables are missing"
        missing = f"all its figures are missing, and it has no {FIGURES}"
        return f"{self.label}: {self.problem}: {kept if self.figures.figures else missing}"


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
            halves.append(HalfRun(label, str(error), _recorded(path)))
        else:
            unmeasured = run.lost and run.energy is None
            runs.append(replace(run, lost=run.lost + _as_recorded(path)) if unmeasured else run)
    if not runs and not any(half.figures.figures for half in halves):
        raise RunError("\n".join(half.problem for half in halves))
    return with_divergence(runs), halves


def _recorded(path: Path) -> RunFigures:
    """The figures that the run's end wrote; none where that file is lost, too."""
    with suppress(RunError):
        return recorded_figures(path) or RunFigures()
    return RunFigures()


def _as_recorded(path: Path) -> str:
    """The joules that the run's end wrote."""
    figures = _recorded(path).figures
    known = [
        f"{QUANTITIES[name].title} {joules(figures[name])}"
        for name in ("whole_run_j", "consumed_j", "wasted_j")
        if name in figures
    ]
    return f"; its end wrote ({FIGURES}): {', '.join(known)}" if known else ""
