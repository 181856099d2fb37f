"""The finished runs of a sweep's folder, from what each point left there; no run folder is read for them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from roambench.contract.errors import RunError
from roambench.experiment.sections import Experiment, from_resolved
from roambench.extras.papers.runs import PaperRun, paper_run
from roambench.report.report import report
from roambench.runs.groups import run_folders
from roambench.runs.whole_file import read_whole
from roambench.study.sweep.points import Point
from roambench.study.sweep.sweep_folder import PointEnd, PointFile, SweepFolder, read_outcome


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """`folder` is the point's: its run folder is in `runs/` there."""

    folder: Path
    fleet: str
    experiment: Experiment
    outcome: PointEnd

    @property
    def system(self) -> str:
        """The run's only system."""
        return self.experiment.systems[0]

    def beside_the_paper(self) -> PaperRun | None:
        """The run as a row of the paper's tables; None where it played no step."""
        return paper_run(self.system, self.experiment, self.outcome.figures, self.outcome.scored)


def finished_runs(folder: Path) -> list[FinishedRun]:
    """In the order of the table that the sweep wrote, without those that are `doubtful`. RunError for what is
    no folder of a finished sweep."""
    runs = _all_finished(folder)
    sure = [run for run in runs if not run.outcome.doubts]
    if not sure:
        raise RunError(f"{folder}: no finished run is fit: {runs[0].outcome.doubts[0]}")
    return sure


def doubtful(folder: Path) -> list[str]:
    """Runs that no table of a paper takes, and why. RunError as `finished_runs`."""
    return [f"{run.folder.name}: {doubt}" for run in _all_finished(folder) for doubt in run.outcome.doubts]


def _all_finished(folder: Path) -> list[FinishedRun]:
    path = folder / "table.json"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        names = [point["folder"] for point in document["points"] if point["state"] == "finished"]
    except OSError as error:
        if (folder / "run.json").is_file():
            raise RunError(f"{folder}: a run, not a sweep: roambench report {folder}") from None
        raise RunError(f"{path}: cannot be read: {error.strerror}; is {folder} a sweep's folder?") from None
    except (ValueError, KeyError, TypeError):
        raise RunError(f"{path}: not the table of a sweep; make it again with roambench sweep") from None
    if not names:
        raise RunError(f"{folder}: no run of this sweep has finished")
    return [_finished(folder / name) for name in names]


def stopped_runs(folder: SweepFolder, points: Sequence[Point]) -> list[FinishedRun]:
    """Runs of these points that have not ended and whose model has changed, with their figures so far."""
    found = []
    for point in points:
        paths = list(run_folders(folder.folder_of(point) / "runs"))
        if paths and folder.outcome_of(point) is None:
            (summary,) = report(paths[-1:]).summaries
            end = PointEnd.of(point.key, summary, reason="stopped")
            if end.scored and end.figures["aggregated_per_step"]:
                found.append(FinishedRun(folder.folder_of(point), point.fleet, point.experiment, end))
    return found


def _finished(folder: Path) -> FinishedRun:
    path = folder / "point.json"
    point = read_whole(PointFile, path)
    outcome = read_outcome(folder, point.key)
    if outcome is None or not outcome.finished:
        raise RunError(f"{folder / 'result.json'}: made by another version; run the sweep again")
    return FinishedRun(folder, point.fleet, from_resolved(point.config, str(path)), outcome)
