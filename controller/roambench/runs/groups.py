"""Groups of runs: those of one start of an experiment lie together, and no start overwrites another.

runs/<name>/<start>/<system>/    run folders, see `runs.folder`
runs/<name>/<start>/report.html  their comparison
runs/<name>/latest               a link to the last start
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, count
from pathlib import Path
from typing import Final

from roambench.runs.database import naming
from roambench.runs.marks import EVENTS, RECORDS
from roambench.runs.settings import names_in_sweeps

LATEST: Final = "latest"
REPORT: Final = "report.html"
_START: Final = re.compile(r"\d{4}-\d\d-\d\dT\d{4}(-\d+)?")
#: runs/<name>/<start>/<system> is three folders deep.
_DEPTH: Final = 3
#: <runs>/<sweep>/points/<point>/runs/<run> is five folders deep.
ANY_DEPTH: Final = 5
#: Earlier tries of a point; their runs are no runs of its sweep.
_ATTEMPTS: Final = "attempts"
#: What only a run folder holds; one without its run.json has lost that.
_OF_RUNS: Final = ("run.json", EVENTS, RECORDS)


@dataclass(frozen=True, slots=True)
class Group:
    """A folder for the runs of one start."""

    path: Path

    def folder(self, system: str) -> Path:
        """Return where the system's run lies."""
        return self.path / system


def new_group(runs_dir: Path, name: str) -> Group:
    """A new folder, named after this minute in local time, and `latest` leads to it; RunError where that
    cannot be written. Without links on the file system there is no `latest`."""
    home = runs_dir / name
    with naming(home):
        home.mkdir(parents=True, exist_ok=True)
        start = datetime.now().strftime("%Y-%m-%dT%H%M")
        for number in count(1):
            path = home / (start if number == 1 else f"{start}-{number}")
            with contextlib.suppress(FileExistsError):
                path.mkdir()
                break
    with contextlib.suppress(OSError):
        link = home / f".{LATEST}.{secrets.token_hex(4)}"
        link.symlink_to(path.name)
        link.replace(home / LATEST)
    return Group(path)


def latest_group(runs_dir: Path, name: str) -> Group | None:
    """The last start of the experiment, if it is there still."""
    latest = runs_dir / name / LATEST
    return Group(latest.parent / latest.readlink()) if latest.is_symlink() and latest.is_dir() else None


def home_of(run: Path) -> str:
    """The experiment's name by where the run lies; "" for one that lies in no group."""
    group = run.resolve().parent
    return group.parent.name if _START.fullmatch(group.name) else ""


def run_name(run: Path) -> str:
    """Return what to call the run elsewhere: `<name>-<system>` in a group, what varies there in a sweep, else
    as its folder."""
    home, name = home_of(run), run.resolve().name
    return names_in_sweeps([run]).get(run.resolve()) or (f"{home}-{name}" if home else name)


def run_labels(runs: Sequence[Path]) -> list[str]:
    """Names of these runs beside each other: the folder's, else with the experiment's or what varies in their
    sweep, else with as many folders above as distinguish them; a number behind a run that comes twice."""
    paths = [run.resolve() for run in runs]
    names = names_in_sweeps(paths)
    different = len(set(paths))
    longest = max((len(path.parts) for path in paths), default=0)
    above = range(_DEPTH if any(map(home_of, paths)) else 2, longest + 1)
    ways = chain(
        ([path.name for path in paths], [names.get(path) or run_name(path) for path in paths]),
        (["/".join(path.parts[-depth:]) for path in paths] for depth in above),
    )
    labels: list[str] = []
    for name in next((names for names in ways if len(set(names)) == different), []):
        before = sum(label == name or label.startswith(f"{name} (") for label in labels)
        labels.append(name if not before else f"{name} ({before + 1})")
    return labels


def is_run(path: Path) -> bool:
    """Return whether the folder is a run's, be it only half there."""
    return any((path / name).is_file() for name in _OF_RUNS)


def run_folders(folder: Path, depth: int = _DEPTH, *, half: bool = False) -> Iterator[Path]:
    """Run folders below `folder`, with `half` also those that lost their run.json; links, as `latest` is one,
    lead to what is found elsewhere, and a run holds no other."""
    try:
        with os.scandir(folder) as entries:
            folders = sorted(
                entry.path
                for entry in entries
                if entry.name != _ATTEMPTS and entry.is_dir(follow_symlinks=False)
            )
    except OSError:
        return
    for path in map(Path, folders):
        if is_run(path) if half else (path / "run.json").is_file():
            yield path
        elif depth > 1:
            yield from run_folders(path, depth - 1, half=half)


def runs_at(paths: Sequence[Path]) -> list[Path]:
    """The run folders that a user means by these: a run itself; the runs of a group, of a sweep by name, or
    below another folder; of an experiment's folder those of its last start. What holds no run stays as it is.
    """
    found: list[Path] = []
    for path in paths:
        if is_run(path):
            found.append(path)
            continue
        latest = path / LATEST
        below = list(run_folders(latest if latest.is_dir() else path, ANY_DEPTH, half=True))
        names = names_in_sweeps(below)
        found += sorted(below, key=lambda run: _by_value(names.get(run.resolve(), ""))) or [path]
    return found


def _by_value(name: str) -> list[tuple[str, float]]:
    """A name for sorting, its numbers by their values."""
    parts = re.split(r"(\d+(?:\.\d+)?(?:e[-+]?\d+)?)", name)
    return [("", float(part)) if at % 2 else (part, 0.0) for at, part in enumerate(parts)]
