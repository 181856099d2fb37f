"""Extras are reached by entry points: those of pyproject.toml, which this environment has installed."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8"))["project"]
POINTS = [
    (group, name, value) for group, rows in PROJECT["entry-points"].items() for name, value in rows.items()
]


@pytest.mark.parametrize(("group", "name", "value"), POINTS)
def test_a_row_of_extras_is_installed_and_loads(group: str, name: str, value: str) -> None:
    (point,) = (point for point in entry_points(group=group, name=name) if point.value == value)
    assert value.startswith("roambench.extras.")
    assert point.load() is not None


@pytest.mark.lengthy
@pytest.mark.parametrize("words", ["demo --fleet rehearsal --no-open", "demo --help", "run --help"])
def test_the_demo_loads_nothing_of_extras(words: str, tmp_path: Path) -> None:
    code = (
        "import contextlib, sys\n"
        "from roambench.controller.cli import main\n"
        "with contextlib.suppress(SystemExit): main(sys.argv[1].split())\n"
        "print('loaded', *(name for name in sys.modules if name.startswith('roambench.extras')))\n"
    )
    ran = [sys.executable, "-c", code, words]
    done = subprocess.run(ran, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=True)
    assert len(done.stdout.splitlines()) > 5
    assert done.stdout.splitlines()[-1] == "loaded"
