"""A sweep from Python: its table and its runs."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from roambench.api.columns import Columns
from roambench.api.run_set import RunSet, opened
from roambench.api.running import console, outside_loops
from roambench.contract.counts import count
from roambench.contract.errors import ConfigError
from roambench.runner.places.table import fleet_of


class Sweep:
    """The folder of a sweep that was run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def table(self) -> Columns:
        """A row for each point of the grid, the seeds left out: mean and standard deviation over them."""
        with (self.path / "table.parquet").open("rb") as file:
            return Columns(pq.read_table(file))

    @property
    def runs(self) -> RunSet:
        """The runs of all points."""
        return RunSet(opened(self.path))

    def __repr__(self) -> str:
        return f"<sweep {self.path}: {count(len(self.table), 'point')}>"

    def _repr_html_(self) -> str:
        return self.table._repr_html_()


def sweep_now(
    file: Path, out: Path | None, changes: Mapping[str, Any], *, jobs: int | None, fresh: bool, show: bool
) -> Sweep:
    """Return what `roambench.sweep` gives."""
    from roambench.study.sweep.sweep_file import read_sweep
    from roambench.study.sweep.sweep_runner import run_sweep

    sweep = read_sweep(file, [f"{key}={json.dumps(value)}" for key, value in changes.items()])
    kind, _ = fleet_of(sweep.fleet)
    if kind.has_file:
        command = f"roambench sweep {shlex.quote(str(file))}"
        raise ConfigError([f"{file}: a sweep on a bench takes care of its boards: {command}"])
    folder = out or Path("runs") / file.stem
    usual = 1 if kind.has_agents else os.cpu_count() or 1
    outside_loops(
        lambda: run_sweep(sweep, jobs=jobs or usual, out=folder, console=console(show), fresh=fresh)
    )
    return Sweep(folder)
