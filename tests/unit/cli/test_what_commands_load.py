"""A command loads the libraries of its own work: those of other commands make nobody wait."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

#: What takes long to load, and is some commands' alone. SciPy loads its parts when they are first used.
LIBRARIES = (
    "cryptography",
    "fabric",
    "google.protobuf",
    "grpc",
    "jinja2",
    "numpy",
    "paramiko",
    "plotly",
    "pyarrow",
    "pydantic",
    "scipy.linalg",
    "scipy.sparse",
    "scipy.spatial",
    "scipy.special",
    "sklearn",
    "torch",
)
TINY = """
name = "tiny"
systems = ["mohawk"]
trace = {steps = 4, parameters = {devices = 6}}
fleet = {agents = 6, aps = 2}
"""
#: Files, tables and figures of a run in which nothing is measured and nothing trained.
REPORT = {"jinja2", "numpy", "plotly", "pyarrow", "pydantic"}


def loaded(folder: Path, *commands: str) -> tuple[set[str], str]:
    """The libraries that a process has after these commands, run in `folder`, and what it printed."""
    code = (
        "import contextlib, sys\n"
        "from roambench.cli.main import main\n"
        "for command in sys.argv[2:]:\n"
        "    with contextlib.suppress(SystemExit): main(command.split())\n"
        "print(*(name for name in sys.argv[1].split() if name in sys.modules))\n"
    )
    words = [sys.executable, "-c", code, " ".join(LIBRARIES), *commands]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=100, check=True)
    printed, _, names = done.stdout.rstrip("\n").rpartition("\n")
    return set(names.split()), printed + done.stderr


def test_help_is_quick_because_it_imports_nothing_heavy(tmp_path: Path) -> None:
    libraries, printed = loaded(tmp_path, "--help")
    assert libraries == set()
    assert "trace" in printed


def test_helps_of_groups_with_extras_are_as_quick(tmp_path: Path) -> None:
    """Typer itself imports Pydantic when a command of a group is looked up."""
    libraries, printed = loaded(tmp_path, "fleet --help", "export --help")
    assert libraries == {"pydantic"}
    assert "discover" in printed
    assert "mlflow" in printed


def test_a_wrong_file_is_refused_before_anything_heavy_is_read(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text('seed = "x"\n')
    libraries, printed = loaded(tmp_path, "run bad.toml")
    assert libraries == {"numpy", "pydantic"}
    assert "seed: expected an integer" in printed


def test_a_rehearsal_and_its_report_load_nothing_that_trains_talks_or_fits(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(TINY)
    libraries, printed = loaded(tmp_path, "run tiny.toml --fleet rehearsal")
    assert "report.html" in printed
    assert libraries == REPORT
    libraries, printed = loaded(tmp_path, "report runs/tiny/latest/mohawk --full", "compare runs/tiny/latest")
    assert "who would do what" in printed
    assert libraries == REPORT


def test_a_sweep_of_rehearsals_loads_no_more_than_they_do(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(TINY)
    (tmp_path / "s.toml").write_text('experiment = "tiny.toml"\nfleet = "rehearsal"\n[grid]\nseeds = 1\n')
    libraries, printed = loaded(tmp_path, "sweep s.toml --jobs 1 -o o")
    assert "table.parquet" in printed
    assert libraries <= REPORT


@pytest.mark.parametrize("place", ["simulated", "rehearsal"])
def test_places_without_agents_load_neither_grpc_nor_certificates(place: str) -> None:
    code = (
        f"import sys, roambench.runner.composition, roambench.runner.places.{place}\n"
        "print(*(name for name in sys.argv[1].split() if name in sys.modules))"
    )
    words = [sys.executable, "-c", code, " ".join(LIBRARIES)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=100, check=True)
    assert set(done.stdout.split()) == {"numpy", "pyarrow", "pydantic"}
