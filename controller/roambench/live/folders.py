"""Runs below a folder: one run, a group of them, or all there are."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from roambench.contract.errors import RunError
from roambench.report.run_columns import ListedRun
from roambench.report.run_figures import FIGURES, RunFigures, figures_for
from roambench.runs.folder import RunFolder
from roambench.runs.groups import ANY_DEPTH, REPORT, is_run, run_folders
from roambench.runs.info import RunInfo, RunState
from roambench.runs.settings import names_in_sweeps


@dataclass(frozen=True, slots=True)
class FoundRun:
    """A run folder. `name` is its path below the folder watched; `problem` says why `info` is None."""

    name: str
    path: Path
    info: RunInfo | None
    problem: str = ""

    @property
    def begun(self) -> str:
        """The time of its creation; later ones are greater."""
        return self.info.created_utc if self.info is not None else ""

    @property
    def report(self) -> Path | None:
        """The page that compares the runs of its start, where it was made."""
        path = self.path.parent / REPORT
        return path if path.is_file() else None


class WatchedFolder:
    """A folder of runs; where it is a run itself, its neighbours are listed with it."""

    def __init__(self, path: Path, *, since_utc: str = "") -> None:
        """RunError where there is no such folder or no run in it. With `since_utc`, as `RunInfo.created_utc`
        has it, there need not be one: then only runs that were begun after that, or go on, are chosen."""
        self._since_utc = since_utc
        self._known: dict[Path, tuple[int, FoundRun]] = {}
        self._figures: dict[Path, tuple[int, RunFigures, str]] = {}
        self._settings: dict[Path, str] = {}  # of a sweep's points; "" of other runs
        found = Path(os.path.realpath(path))
        if not found.is_dir():
            problem = "not a folder" if found.exists() else "no such folder"
            raise RunError(f"{path}: {problem}; expected a run, a group of runs, or a folder of runs")
        self.one = found.name if is_run(found) else ""
        self.root = found.parent if self.one else found
        if not self.one and not since_utc and next(self._paths(), None) is None:
            raise RunError(f"{path}: no run in it (nothing there has a run.json)")

    def runs(self) -> list[FoundRun]:
        """All runs, the one that was begun last first."""
        found = [self._found(path) for path in self._paths()]
        return sorted(found, key=lambda run: (run.begun, run.name), reverse=True)

    def run(self, name: str) -> FoundRun | None:
        """The run of that name, which may be any text; None where there is none."""
        return next((run for run in self.runs() if run.name == name), None)

    def chosen(self) -> FoundRun | None:
        """The run that is shown when none is named: the folder itself, else one that goes on, else the one
        that was begun last."""
        if self.one:
            return self.run(self.one)
        runs = self.runs()
        goes_on = (run for run in runs if run.info is not None and run.info.state is RunState.RUNNING)
        return next(goes_on, None) or next((run for run in runs if run.begun >= self._since_utc), None)

    def previous(self, run: FoundRun) -> FoundRun | None:
        """The run to hold `run` against: the last one before it on the same movement, of another system if
        there is one."""
        if run.info is None:
            return None
        before = [
            other
            for other in self.runs()
            if other.info is not None
            and other.name != run.name
            and other.info.trace_hash == run.info.trace_hash
            and other.begun <= run.begun
        ]
        others = (other for other in before if other.info and other.info.system != run.info.system)
        return next(others, None) or next(iter(before), None)

    def listed(self, within_s: float) -> list[tuple[FoundRun, ListedRun]]:
        """All runs with their figures, the last first. A run that is over and whose end wrote none is
        accounted once, as many as the time allows; one that goes on has none yet."""
        until_s, runs = time.monotonic() + within_s, self.runs()
        paths = {found.path.resolve() for found in runs}
        if paths - self._settings.keys():
            self._settings = dict.fromkeys(paths, "") | names_in_sweeps(list(paths))
        return [
            (found, replace(self._with_figures(found, until_s), setting=self._settings[found.path.resolve()]))
            for found in runs
        ]

    def _with_figures(self, found: FoundRun, until_s: float) -> ListedRun:
        nothing = ListedRun(found.name, found.info, RunFigures(), found.problem)
        if found.info is not None and found.info.state is RunState.RUNNING:
            return nothing
        stamp = 0
        with suppress(OSError):
            stamp = (found.path / "run.json").stat().st_mtime_ns
        known = self._figures.get(found.path)
        if known is None or known[0] != stamp:
            if not (found.path / FIGURES).is_file() and time.monotonic() > until_s:
                return nothing
            known = self._figures[found.path] = stamp, *figures_for(found.path, found.info)
        return replace(nothing, figures=known[1], problem=found.problem or known[2])

    def _found(self, path: Path) -> FoundRun:
        """The contents of its run.json, read once for a run that is over: a sweep has thousands."""
        name = str(path.relative_to(self.root))
        try:
            stamp = (path / "run.json").stat().st_mtime_ns
            known = self._known.get(path)
            if known is not None and known[0] == stamp:
                return known[1]
            with RunFolder.open(path) as folder:
                found = FoundRun(name, path, folder.info)
        except (RunError, OSError) as error:
            return FoundRun(name, path, None, str(error))
        if found.info is not None and found.info.state in (RunState.FINISHED, RunState.FAILED):
            self._known[path] = stamp, found
        return found

    def _paths(self) -> Iterator[Path]:
        return run_folders(self.root, 1 if self.one else ANY_DEPTH, half=True)
