"""The figures of a run in a file of its folder, so that lists of runs need not account each run again."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from roambench.contract.errors import RoambenchError, RunError
from roambench.energy.energy_value import Energy
from roambench.report.quantities import QUANTITIES, number_of
from roambench.runs.info import RunInfo, RunState
from roambench.runs.whole_file import read_whole, write_whole

if TYPE_CHECKING:  # what accounts a run is loaded where a run must be accounted
    from roambench.report.summaries.run import RunSummary
    from roambench.runs.event_log import EventLog

FIGURES: Final = "figures.json"


@dataclass(frozen=True, slots=True)
class RunFigures:
    """The figures of a run by the names of `QUANTITIES`, those that it has and that are finite numbers.

    `u`: standard uncertainty (k = 1) of those that are energies. `basis` of its joules: measured, modelled,
    or "" for none.
    """

    format: Literal[1] = field(default=1, kw_only=True)  # of the file
    basis: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)
    u: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, run: RunSummary) -> RunFigures:
        """The figures of a run that was summed up."""
        found = {name: row.figure(run) for name, row in QUANTITIES.items()}
        numbers = {name: number_of(figure) for name, figure in found.items()}
        u = {name: figure.u_joules for name, figure in found.items() if isinstance(figure, Energy)}
        return cls(run.basis or "", _finite(numbers), _finite(u))


def figures_of_folder(path: Path) -> RunFigures:
    """The figures that the folder's records give; RunError for what is no run."""
    return RunFigures.of(_summary(path))


def _summary(path: Path, log: EventLog | None = None) -> RunSummary:
    """The sum of what the folder's records give; RunError for what is no run."""
    from roambench.report.summaries.evidence import read_run
    from roambench.report.summaries.run import summarise

    return summarise(read_run(path, path.name, None, log))


def figures_of_log(path: Path) -> RunFigures:
    """The figures that the event log alone gives, which is all that a run has that goes on: no joules are
    accounted."""
    from roambench.report.summaries.evidence import RunEvidence
    from roambench.report.summaries.run import summarise
    from roambench.runs.folder import RunFolder

    with RunFolder.open(path) as folder:
        log, experiment = folder.read_log(), folder.experiment
        return RunFigures.of(
            summarise(RunEvidence(path.name, path, folder.info, experiment, log, None, None, (), ()))
        )


def figures_for(path: Path, info: RunInfo | None) -> tuple[RunFigures, str]:
    """The figures to list a run with: those that its end wrote, else what its records give; and a sentence
    on those that are not there, "" where none is missing."""
    problem = ""
    try:
        if (found := recorded_figures(path)) is not None:
            return found, ""
    except RunError as error:
        problem = f"{error}; its figures are computed from its records"
    if info is None:
        return RunFigures(), problem
    try:
        if info.state is not RunState.FINISHED:
            return figures_of_log(path), problem
        summary = _summary(path)
        return RunFigures.of(summary), summary.lost or problem
    except (RoambenchError, OSError) as error:
        return RunFigures(), f"no figures: {str(error).splitlines()[0]}"


def write_figures(path: Path, log: EventLog | None = None) -> RunSummary:
    """Write the figures that the folder's records give into it, and return what they are of; RunError where
    that is refused. `log`: the folder's, where it was read already."""
    summary = _summary(path, log)
    found = RunFigures.of(summary)
    document = {"format": found.format, "basis": found.basis, "figures": found.figures, "u": found.u}
    write_whole(path / FIGURES, json.dumps(document, indent=2, allow_nan=False) + "\n")
    return summary


def recorded_figures(path: Path) -> RunFigures | None:
    """The figures that the end of the run wrote; None where it wrote none, RunError for a damaged file."""
    return read_whole(RunFigures, path / FIGURES) if (path / FIGURES).is_file() else None


def _finite(values: Mapping[str, float | int | None]) -> dict[str, float]:
    return {name: value for name, value in values.items() if value is not None and math.isfinite(value)}
