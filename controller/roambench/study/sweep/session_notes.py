"""A sweep folder's notes on how it was made: the command without this machine's paths, the machine."""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
from dataclasses import asdict, dataclass
from pathlib import Path

from roambench.contract.json_values import kept_in
from roambench.runs.whole_file import write_whole
from roambench.study.sweep.sweep_file import SweepFile
from roambench.study.sweep.sweep_folder import SweepFolder

_NAME = "sweep.json"


@dataclass(frozen=True, slots=True)
class SessionNotes:
    """Notes of the latest session; empty where nothing was noted."""

    command: str = ""
    machine: str = ""


def command_of(sweep: SweepFile, jobs: int) -> str:
    """Return the command for another folder: files outside the sweep's folder by their name alone."""
    elsewhere = sweep.path.is_absolute() or ".." in sweep.path.parts
    words = ["roambench", "sweep", sweep.path.name if elsewhere else sweep.path.as_posix()]
    return shlex.join([*words, *options_of(sweep), "--jobs", str(jobs)])


def options_of(sweep: SweepFile) -> list[str]:
    """The command's words that change the sweep's points, in the same manner."""
    words = [] if sweep.trace_file is None else ["--trace", sweep.trace_file.name]
    for override in sweep.overrides:
        key, _, value = override.partition("=")
        words += ["--set", f"{key}={_without_folders(value)}"]
    return words


def machine() -> str:
    """Processor, cores and torch: what the wall time depends on most."""
    from importlib.metadata import version

    return f"{os.cpu_count()} cores of {_processor()}, torch {version('torch')}"


def note_session(folder: SweepFolder, sweep: SweepFile, *, jobs: int) -> None:
    """Note this session as it begins: it may be killed. RunError where the file cannot be written."""
    notes = SessionNotes(command_of(sweep, jobs), machine())
    write_whole(folder.path / _NAME, json.dumps(asdict(notes), indent=2, ensure_ascii=False) + "\n")


def read_notes(folder: Path) -> SessionNotes:
    """Nothing noted where the file is missing or not ours."""
    return kept_in(SessionNotes, folder / _NAME) or SessionNotes()


def _without_folders(value: str) -> str:
    bare = value.strip("\"'")
    return value.replace(bare, Path(bare).name) if "/" in bare else value


def _processor() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found.group(1) if found else platform.machine()
