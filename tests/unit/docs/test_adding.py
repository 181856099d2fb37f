"""docs/adding.md is run as it stands: its files are written, its commands executed, their output compared.

Only `pip install -e .` is replaced: the entry points are recorded by hand, as pip would record them.
"""

import dataclasses
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from forked_commands import roambench
from roambench.experiment import catalogue
from roambench.mobility.trace import Trace
from roambench.systems.system import (
    ApWork,
    Candidates,
    CloudInput,
    EdgeInput,
    PastTraining,
    SpentEnergy,
    Training,
)

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "adding.md"
PARTS = ("protos", "agent", "controller")
FENCE = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


def fences() -> list[tuple[str, str, str]]:
    """(language, title, content) of every fenced block."""
    return [(found[1], found[2] or "", found[3]) for found in FENCE.finditer(PAGE.read_text("utf-8"))]


def commands() -> Iterator[tuple[str, list[str]]]:
    """Every command of the console blocks with the output lines shown below it."""
    for language, _, content in fences():
        if language != "console":
            continue
        command, shown = "", list[str]()
        for line in content.splitlines():
            if line.startswith("$ "):
                if command:
                    yield command, shown
                command, shown = line[2:], []
            else:
                shown.append(line)
        yield command, shown


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the page's files, installed."""
    folder = tmp_path_factory.mktemp("workshop")
    for _, title, content in fences():
        if title:
            path = folder / title
            path.parent.mkdir(exist_ok=True)
            path.write_text(content)
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    recorded = folder / "bench_extras-0.1.dist-info"
    recorded.mkdir()
    (recorded / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0.1\n")
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for group, points in project["entry-points"].items()
    ]
    (recorded / "entry_points.txt").write_text("\n".join(groups))
    return folder


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "COLUMNS": "200",
        "NO_COLOR": "1",
    }
    program, *words = shlex.split(command)
    if program == "roambench":
        return roambench(*words, cwd=folder, env=environment)
    return subprocess.run(
        command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def squeezed(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.timeout(600)  # ten processes, each of which loads what it needs
def test_every_command_of_the_page_works_and_prints_what_the_page_shows(workshop: Path) -> None:
    executed = 0
    for command, shown in commands():
        if command.startswith("pip install"):
            continue
        done = run(command, workshop)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        printed = squeezed(done.stdout + done.stderr)
        for line in shown:
            assert squeezed(line) in printed, (
                f"{command} did not print {line!r} but\n{done.stdout}{done.stderr}"
            )
        executed += 1
    assert executed >= 10


def test_a_row_that_cannot_be_loaded_says_so_and_the_others_are_still_listed(workshop: Path) -> None:
    """The catalogue is only honest if a broken package shows as broken."""
    module = workshop / "bench_extras" / "ina.py"
    kept = module.read_text()
    module.write_text("import no_such_package\n")
    try:
        done = run("roambench list meters", workshop)
    finally:
        module.write_text(kept)
    assert done.returncode == 0
    lines = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert "cannot be loaded" in lines["ina"]
    assert "cannot be loaded" not in lines["smartpower2"]


def test_the_table_names_every_group_of_entry_points_there_is() -> None:
    """Also those that no table of the catalogue has: whatever is looked up among entry points."""
    rows = re.findall(
        r"^\| (?:`(\w+)`|–) \|[^|]+\| `(roambench\.\w+)` \|", PAGE.read_text("utf-8"), re.MULTILINE
    )
    assert {(kind, group) for kind, group in rows if kind} == {
        (kind, catalogue.table(kind).group) for kind in catalogue.TABLES
    }
    sources = [path.read_text("utf-8") for part in PARTS for path in (ROOT / part).rglob("*.py")]
    looked_up = {group for text in sources for group in re.findall(r'^    group="(\S+)",$', text, re.M)}
    assert looked_up == {group for _, group in rows}


def test_the_fields_that_rules_see_are_on_the_page_in_their_order() -> None:
    """Of a trace the first ones."""
    shown = dict(re.findall(r"^\| `(\w+)` \| (`\w+`, `\w+`[^|]*) \|$", PAGE.read_text("utf-8"), re.MULTILINE))
    seen = (Candidates, SpentEnergy, PastTraining, Training, EdgeInput, CloudInput, ApWork, Trace)
    assert shown.keys() == {one.__name__ for one in seen}
    for one in seen:
        told = re.findall(r"`(\w+)`", shown[one.__name__].partition(";")[0])
        fields = [found.name for found in dataclasses.fields(one)]
        assert told == (fields[: len(told)] if one is Trace else fields)
