"""Whole files of runs and sweeps, whose errors name the file and say what to do."""

from __future__ import annotations

from pathlib import Path

from roambench.contract import whole_file
from roambench.contract.errors import RunError
from roambench.contract.json_values import Kind, from_file, from_values
from roambench.runs.database import naming


def write_whole(path: Path, text: str, *, synced: bool = True) -> None:
    """As `roambench.contract.whole_file.write_whole`; RunError where that is refused."""
    with naming(path):
        whole_file.write_whole(path, text, synced=synced)


def read_whole(kind: type[Kind], path: Path, file_format: int) -> Kind:
    """The dataclass whose fields and "format" are in a JSON file; RunError names everything that is wrong."""
    with naming(path):
        values = from_file(dict[str, object], path)
        if (found := values.pop("format", None)) != file_format:
            told = f"format {str(found)[:20]} is not {file_format}"
            raise RunError(f"{path}: {told}; it was written by another version")
        return from_values(kind, values, str(path))
