"""Whole files of runs and sweeps, whose errors name the file and say what to do."""

from __future__ import annotations

from pathlib import Path

from roambench.contract import whole_file
from roambench.contract.json_values import Kind, from_file
from roambench.runs.database import naming


def write_whole(path: Path, text: str, *, synced: bool = True) -> None:
    """Do as `roambench.contract.whole_file.write_whole`; RunError where that is refused."""
    with naming(path):
        whole_file.write_whole(path, text, synced=synced)


def read_whole(kind: type[Kind], path: Path, *, finite: bool = True) -> Kind:
    """Do as `roambench.contract.json_values.from_file`; RunError instead of ConfigError."""
    with naming(path):
        return from_file(kind, path, finite=finite)
