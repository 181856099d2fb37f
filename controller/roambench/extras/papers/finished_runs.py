"""The finished runs of a sweep's folder, from what each point left there; no run folder is read for them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from roambench.contract.errors import RoambenchError, RunError
from roambench.contract.json_values import kept_in
from roambench.experiment.sections import Experiment, from_resolved
from roambench.extras.papers.runs import PaperRun, paper_run
from roambench.report.report import report
from roambench.runs.groups import run_folders
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
    no folder of a sweep of which runs have finished."""
    runs, lost, _ = _looked_through(folder)
    if not runs:
        raise RunError("\n".join(lost) or f"{folder}: no run of this sweep has finished")
    sure = [run for run in runs if not run.outcome.doubts]
    if not sure:
        raise RunError(f"{folder}: no finished run is fit: {runs[0].outcome.doubts[0]}")
    return sure


def doubtful(folder: Path) -> list[str]:
    """Runs that no table of a paper takes, and why. RunError as `finished_runs`."""
    runs, lost, _ = _looked_through(folder)
    return [*lost, *(f"{run.folder.name}: {doubt}" for run in runs for doubt in run.outcome.doubts)]


def unfinished(folder: Path) -> str:
    """A sentence on a sweep that has not ended; "" of one that has. RunError as `finished_runs`."""
    runs, _, in_all = _looked_through(folder)
    return "" if len(runs) == in_all else f"{folder}: {len(runs)} of {in_all} runs have finished"


def _looked_through(folder: Path) -> tuple[list[FinishedRun], list[str], int]:
    """The finished runs of a sweep by what each point left, a line for each that the sweep's table calls
    finished and that has lost that, and how many runs there are in all."""
    path = folder / "table.json"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        places = {folder / point["folder"]: point["state"] == "finished" for point in document["points"]}
    except OSError as error:
        if (folder / "run.json").is_file():
            command = f"roambench report {shlex.quote(str(folder))}"
            raise RunError(f"{folder}: a run, not a sweep: {command}") from None
        # An older version wrote no table for a sweep whose first session was interrupted.
        places = {found.parent: False for found in sorted(folder.glob("points/*/point.json"))}
        if not places:
            raise RunError(
                f"{path}: cannot be read: {error.strerror}; is {folder} a sweep's folder?"
            ) from None
    except (ValueError, KeyError, TypeError):
        raise RunError(f"{path}: not the table of a sweep; make it again with roambench sweep") from None
    runs, lost = [], []
    for place, was_finished in places.items():
        point = kept_in(PointFile, place / "point.json")
        outcome = None if point is None else read_outcome(place, point.key)
        if point is not None and outcome is not None and outcome.finished:
            experiment = from_resolved(point.config, str(place / "point.json"))
            runs.append(FinishedRun(place, point.fleet, experiment, outcome))
        elif was_finished:
            name = "point.json" if point is None else "result.json"
            lost.append(
                f"{place / name}: missing, damaged or of another version: give the sweep's command again, "
                "which makes it from the run that is kept, or runs it again"
            )
    return runs, lost, len(places)


def stopped_runs(
    folder: SweepFolder, points: Sequence[Point], left_out: Callable[[str], None]
) -> list[FinishedRun]:
    """Runs of these points that have not ended and whose model has changed, with their figures so far.
    `left_out` gets a sentence for each whose folder is damaged."""
    found = []
    for point in points:
        paths = list(run_folders(folder.folder_of(point) / "runs", half=True))
        if paths and folder.outcome_of(point) is None:
            try:
                made = report(paths[-1:])
            except RoambenchError as error:
                left_out(f"{paths[-1]}: left out: {' '.join(str(error).split())}")
                continue
            problems = [half.problem for half in made.halves] + [run.lost for run in made.evidence]
            if problem := next(filter(None, problems), ""):
                left_out(f"{paths[-1]}: left out: {problem}")
                continue
            (summary,) = made.summaries
            end = PointEnd.of(point.key, summary, reason="stopped")
            if end.scored and end.figures["aggregated_per_step"]:
                found.append(FinishedRun(folder.folder_of(point), point.fleet, point.experiment, end))
    return found
