"""Extras are reached by entry points: those of pyproject.toml, which this environment has installed."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from samples import sampled

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8"))["project"]
POINTS = [
    (group, name, value) for group, rows in PROJECT["entry-points"].items() for name, value in rows.items()
]


@pytest.mark.parametrize(("group", "name", "value"), POINTS)
def test_a_row_of_extras_is_installed_and_loads(group: str, name: str, value: str) -> None:
    (point,) = (point for point in entry_points(group=group, name=name) if point.value == value)
    assert value.startswith("roambench.extras.")
    assert point.load() is not None


def loaded_by(words: str, folder: Path) -> set[str]:
    """The packages of extras that a process has after this command."""
    code = (
        "import contextlib, sys\n"
        "from roambench.cli.main import main\n"
        "with contextlib.suppress(SystemExit): main(sys.argv[1].split())\n"
        "print('loaded', *(name for name in sys.modules if name.startswith('roambench.extras.')))\n"
    )
    ran = [sys.executable, "-c", code, words]
    done = subprocess.run(ran, cwd=folder, capture_output=True, text=True, timeout=200, check=True)
    printed, _, names = done.stdout.partition("loaded")
    assert len(printed.splitlines()) > 3
    return {name.split(".")[2] for name in names.split()}


@pytest.mark.lengthy
@pytest.mark.parametrize(
    "words",
    sampled(
        ["run one.toml --fleet rehearsal", "demo --fleet rehearsal --no-open"],
        [
            "demo --help",
            "run --help",
            "fleet list --help",
            "run one.toml --fleet rehearsal",
            "demo --fleet rehearsal --no-open",
        ],
    ),
)
def test_a_command_of_the_core_loads_nothing_of_extras(words: str, tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text('systems = ["mohawk"]\ntrace = {steps = 4}\nfleet = {agents = 6}\n')
    assert loaded_by(words, tmp_path) == set()
