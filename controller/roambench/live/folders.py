"""Runs below a folder: one run, a group of them, or all there are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from roambench.contract.errors import RunError
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunInfo

#: runs/NAME/DATE/SYSTEM is three folders deep.
_DEPTH: Final = 3


@dataclass(frozen=True, slots=True)
class FoundRun:
    """A run folder. `name` is its path below the folder watched; `problem` says why `info` is None."""

    name: str
    path: Path
    info: RunInfo | None
    problem: str = ""

    @property
    def begun(self) -> str:
        """When it was created, so that later ones are greater."""
        return self.info.created_utc if self.info is not None else ""


class WatchedFolder:
    """A folder of runs; where it is a run itself, its neighbours are listed with it."""

    def __init__(self, path: Path, *, may_be_empty: bool = False) -> None:
        """RunError where there is no such folder or, unless it `may_be_empty`, no run in it."""
        found = Path(os.path.realpath(path))
        if not found.is_dir():
            problem = "not a folder" if found.exists() else "no such folder"
            raise RunError(f"{path}: {problem}; expected a run, a group of runs, or a folder of runs")
        self.one = found.name if (found / "run.json").is_file() else ""
        self.root = found.parent if self.one else found
        if not self.one and not may_be_empty and next(self._paths(), None) is None:
            raise RunError(f"{path}: no run in it (nothing there has a run.json)")

    def runs(self) -> list[FoundRun]:
        """All runs, the one that was begun last first."""
        found = [_found(path, str(path.relative_to(self.root))) for path in self._paths()]
        return sorted(found, key=lambda run: (run.begun, run.name), reverse=True)

    def run(self, name: str) -> FoundRun | None:
        """The run of that name, which may come from anybody; None where there is none."""
        return next((run for run in self.runs() if run.name == name), None)

    def chosen(self) -> FoundRun | None:
        """The run that is shown when none is named: the folder itself, else the one that was begun last."""
        return self.run(self.one) if self.one else next(iter(self.runs()), None)

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

    def _paths(self) -> Iterator[Path]:
        yield from _below(self.root, 1 if self.one else _DEPTH)


def _below(folder: Path, depth: int) -> Iterator[Path]:
    """Run folders; links, as `latest` is one, lead to what is found elsewhere, and a run holds no other."""
    try:
        with os.scandir(folder) as entries:
            folders = sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return
    for path in map(Path, folders):
        if (path / "run.json").is_file():
            yield path
        elif depth > 1:
            yield from _below(path, depth - 1)


def _found(path: Path, name: str) -> FoundRun:
    try:
        with RunFolder.open(path) as folder:
            return FoundRun(name, path, folder.info)
    except RunError as error:
        return FoundRun(name, path, None, str(error))
