"""docs/sweeps.md is run as it stands: its files are written, its commands executed, their output compared.

Where the page says "install", PYTHONPATH does.
"""

import json
import os
import re
import shlex
from pathlib import Path

import pytest

from forked_commands import roambench
from roambench.study.ab.ab_figures import COMPARED
from roambench.study.sweep.metrics import METRICS, metric_of

PAGE = (Path(__file__).parents[3] / "docs" / "sweeps.md").read_text("utf-8")
FENCE = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
ROOT = Path(__file__).parents[3]


def run(command: str, folder: Path) -> str:
    program, *words = shlex.split(command)
    assert program == "roambench"
    environment = {**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "200", "NO_COLOR": "1"}
    done = roambench(*words, cwd=folder, env=environment)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return " ".join(done.stdout.split())


@pytest.mark.timeout(600)
def test_every_command_of_the_page_works_and_prints_what_the_page_shows(tmp_path: Path) -> None:
    for language, title, content in FENCE.findall(PAGE):
        if title:
            (tmp_path / title).parent.mkdir(exist_ok=True)
            (tmp_path / title).write_text(content)
        if language != "console":
            continue
        printed = ""
        for line in content.splitlines():
            if line.startswith("$ "):
                printed = run(line[2:], tmp_path)
            else:
                assert " ".join(line.split()) in printed, printed
    rows = json.loads((tmp_path / "runs" / "rates" / "table.json").read_text())["rows"]
    slow, quick = (row["metrics"]["final_accuracy"]["mean"] for row in rows)
    assert quick > max(slow, 0.9)  # the task of one's own was really learned, at the rate that allows it


def test_the_page_names_every_metric() -> None:
    told = {
        name for line in PAGE.splitlines() if line.startswith("| `") for name in re.findall("`(.*?)`", line)
    }
    assert told >= METRICS.keys()


def test_every_metric_of_the_page_is_one() -> None:
    table = PAGE[PAGE.index("| metric |") : PAGE.index("Joules are **measured**")]
    named = {
        name for line in table.splitlines() if line for name in re.findall("`(.*?)`", line.split("|")[1])
    }
    assert {name for name in named if metric_of(name) is None} == set()


def test_the_example_sweep_asks_for_what_its_comment_says(tmp_path: Path) -> None:
    printed = run(f"roambench sweep {ROOT / 'experiments' / 'sweep_demo.toml'} --check", tmp_path)
    assert "18 runs: 6 points of the grid, 3 seeds; 0 finished already, 18 to run" in printed


def test_every_figure_of_a_comparison_is_a_metric_of_the_page() -> None:
    """Of virtual devices `modelled_...` stands before its name."""
    table = PAGE[PAGE.index("| metric |") : PAGE.index("Joules are **measured**")]
    named = set(re.findall(r"`([a-z_]+)`", table))
    assert {row.name.removeprefix("modelled_") for row in COMPARED} - named - {"j"} == set()
