"""Names of run folders that lie in no group: no run overwrites another."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

from roambench.contract.errors import FleetError

_MOST = 9_999


def free_folder(runs_dir: Path, name: str) -> Path:
    """`runs/<name>`, or with -2, -3, ... behind it when that exists."""
    for path in islice(_numbered(runs_dir, name), _MOST):
        if not path.exists():
            return path
    raise FleetError(f"{runs_dir / name}: {_MOST:,} runs of this name; tidy up")


def _numbered(runs_dir: Path, name: str) -> Iterator[Path]:
    yield runs_dir / name
    for number in count(2):
        yield runs_dir / f"{name}-{number}"
