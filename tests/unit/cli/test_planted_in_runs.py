"""A command that is planted in an experiment file or in a trace is refused or stays data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tomlkit

from forked_commands import roambench
from planted import PLANTED, fields_of
from roambench.contract.errors import ConfigError
from roambench.experiment.load import load_experiment
from roambench.experiment.sections import Experiment
from tiny_experiment import TINY

pytestmark = pytest.mark.lengthy


def _with(values: dict[str, Any], path: tuple[str, ...], text: str) -> dict[str, Any]:
    """A copy of the tables with `text` in that field."""
    copy = tomlkit.parse(tomlkit.dumps(values)).unwrap()
    where = copy
    for name in path[:-1]:
        where = where.setdefault(name, {})
    where[path[-1]] = text
    return copy


def _loads(values: dict[str, Any], folder: Path) -> bool:
    (folder / "x.toml").write_text(tomlkit.dumps(values))
    try:
        load_experiment(folder / "x.toml")
    except ConfigError:
        return False
    return True


@pytest.mark.parametrize(
    "planted", ["".join(one for one in PLANTED if "\n" not in one), *(one for one in PLANTED if "\n" in one)]
)
def test_what_is_planted_in_an_experiment_and_in_a_trace_is_not_run(planted: str, tmp_path: Path) -> None:
    """All fields that take the text have it at once, in a run from its trace on."""
    mark = tmp_path / "m"
    text = planted.replace("{}", "touch m")
    name = text.replace("\n", " ").replace('"', '""')
    times = ((0, 10), (3600, 20), (7200, 30))
    rows = [f'"{n}{name}",{time_s},{x},{x}' for n in range(3) for time_s, x in times]
    (tmp_path / "t.csv").write_text("\n".join(["device,time,x,y", *rows, ""]))
    columns = "device=device,time=time,x=x,y=y"
    words = ("trace", "import", "csv", "t.csv", "-o", "t.parquet", "--steps", "2", "--columns", columns)
    imported = roambench(*words, cwd=tmp_path)
    assert imported.returncode == 0, imported.stderr
    values = tomlkit.parse(TINY).unwrap()
    taken = 0
    for path in fields_of(Experiment):
        changed = _with(values, path, text)
        if path != ("influxdb", "url") and _loads(changed, tmp_path):
            values, taken = changed, taken + 1
    assert taken >= 3
    assert _loads(values, tmp_path)
    run = (
        "run",
        "x.toml",
        "--fleet",
        "rehearsal",
        "--trace",
        "t.parquet",
        "--set",
        "fleet.aps=0",
        "--set",
        "fleet.agents=0",
    )
    ran = roambench(*run, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert not mark.exists()
