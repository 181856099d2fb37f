"""Checkpoint of a run, to go on from when its controller died: `checkpoint.json` in its folder, replaced as a
whole."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from roambench.contract.json_values import plain
from roambench.runs.marks import Marks
from roambench.runs.whole_file import read_whole, write_whole

NAME: Final = "checkpoint.json"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A run before step `next_step`. `rounds` is the round loop's state as `rounds.checkpoint` writes it,
    `fleet` what the fleet needs besides.

    `made_with` is what a run must go on with to end as if nothing had been: digests of the settings and of
    all code that takes part, versions. `data`: digests of data and first model as they were loaded ({} in
    checkpoints of older versions). `marks`: what the run's folder held when it was written.
    """

    format: Literal[1] = field(default=1, kw_only=True)  # of the file
    next_step: int
    rounds: str
    made_with: dict[str, str]
    fleet: dict[str, Any] = field(default_factory=dict)
    data: dict[str, str] = field(default_factory=dict)
    marks: Marks = field(default_factory=Marks)


def write_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """It survives a power cut when this returns; RunError where the disk refuses."""
    text = json.dumps(checkpoint, default=plain, separators=(",", ":"))
    write_whole(folder / NAME, text + "\n")


def read_checkpoint(folder: Path) -> Checkpoint | None:
    """None where there is none; RunError for one that cannot be read."""
    path = folder / NAME
    return read_whole(Checkpoint, path) if path.exists() else None


def forget_checkpoint(folder: Path) -> None:
    """And what a writer that was killed left beside it."""
    for path in (folder / NAME, *folder.glob(f".{NAME}.*")):
        path.unlink(missing_ok=True)
