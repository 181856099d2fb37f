"""Tables in a real pipe: no line is wrapped or cut, no name or number broken, whatever COLUMNS says."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest

from forked_commands import roambench
from small_runs import measured
from tiny_experiment import SWEEP, TINY

BENCH = Path(__file__).parents[3] / "inventory" / "bench36.example.toml"
RUN = "a-run-whose-name-is-longer-than-a-narrow-terminal"
ROAMBENCH = [sys.executable, "-m", "roambench.cli.main"]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a trace, a run and a finished sweep."""
    folder = tmp_path_factory.mktemp("piped")
    (folder / "tiny.toml").write_text(TINY)
    (folder / "s.toml").write_text(SWEEP)
    measured(folder / RUN)
    piped(folder, "trace", "generate", "city", "-o", "t.parquet", "--set", "devices=30", "--set", "steps=9")
    piped(folder, "sweep", "s.toml", "-q")
    return folder


def piped(folder: Path, *words: str) -> str:
    """What a command writes into a pipe that pretends to be as narrow as a phone."""
    done = roambench(*words, cwd=folder, env={**os.environ, "COLUMNS": "20"})
    done.check_returncode()
    return done.stdout


def rows(out: str) -> list[list[str]]:
    """Words of every line."""
    return [line.split() for line in out.splitlines()]


def document(folder: Path, *words: str) -> Any:
    return json.loads(piped(folder, *words, "--json"))


@pytest.mark.parametrize("words", [("list", "readers"), ("list", "algorithms"), ("meter", "list")])
def test_names_and_descriptions_stand_on_one_line(here: Path, words: tuple[str, ...]) -> None:
    lines = rows(piped(here, *words))
    for row in document(here, *words):
        assert any(row["description"].split() == line[-len(row["description"].split()) :] for line in lines)
        assert any(row["name"] == line[0] for line in lines)


def test_data_sets_and_their_folders_stand_on_one_line(here: Path) -> None:
    lines = rows(piped(here, "data", "list"))
    for row in document(here, "data", "list"):
        assert [row["name"], row["state"]] in [line[:2] for line in lines]
        if row["folder"]:
            assert [row["name"], row["state"], row["folder"]] in lines


def test_who_has_which_data_has_a_column_for_each_class(here: Path) -> None:
    lines = rows(piped(here, "data", "show", "tiny.toml"))
    found = document(here, "data", "show", "tiny.toml")
    for device in found["devices"]:
        (line,) = [line for line in lines if line[:1] == [device["name"]]]
        assert line[1 : 1 + len(device["counts"])] == [str(count or ".") for count in device["counts"]]


def test_a_step_of_a_trace_has_a_line_for_each_device(here: Path) -> None:
    lines = rows(piped(here, "trace", "show", "t.parquet", "--step", "2"))
    present = document(here, "trace", "show", "t.parquet", "--step", "2")["present"]
    assert present
    for row in present:
        told = [f"{row['x_m'] / 1e3:.3f}", f"{row['y_m'] / 1e3:.3f}", f"{row['distance_m']:.0f}"]
        assert [row["device"], row["ap"], *told] in lines


def test_where_a_trace_comes_from_is_not_cut(here: Path) -> None:
    out = piped(here, "trace", "show", "t.parquet")
    provenance = document(here, "trace", "show", "t.parquet")["provenance"]
    told = [value if isinstance(value, str) else json.dumps(value) for value in provenance.values()]
    assert max(map(len, told)) > 300
    for text in told:
        assert any(line.endswith(text) for line in out.splitlines())


def test_every_statistic_beside_a_paper_is_one_line(here: Path) -> None:
    lines = rows(piped(here, "trace", "stats", "t.parquet"))
    for target in document(here, "trace", "stats", "t.parquet")["targets"]["mohawk"]:
        label, where = target["label"].split(), target["where"].split()
        assert any(line[: len(label)] == label and line[-len(where) :] == where for line in lines)


def test_a_host_of_a_bench_is_one_line(here: Path) -> None:
    lines = rows(piped(here, "fleet", "list", str(BENCH)))
    for host in document(here, "fleet", "list", str(BENCH)):
        (line,) = [line for line in lines if line[:1] == [host["name"]]]
        assert {host["address"], host["meter"]["serial"]} <= set(line)


def test_a_point_of_a_sweep_is_one_line(here: Path) -> None:
    head, *lines = piped(here, "sweep", "s.toml", "--table").splitlines()
    table = json.loads((here / "runs/s/table.json").read_text())
    assert re.split(r" {2,}", head) == ["system", "runs", "trainings wasted ↓", "trainings"]
    for row, line in zip(table["rows"], lines, strict=False):
        cells = re.split(r" {2,}", line)
        mean, sd = (row["metrics"]["wasted_share"][part] for part in ("mean", "sd"))
        assert cells[:3] == [row["values"]["system"], "2", f"{100 * mean:.1f} ± {100 * sd:.1f} %"]


def test_the_cells_of_results_are_whole(here: Path) -> None:
    lines = rows(piped(here, "results", "runs/s"))
    for table in document(here, "results", "runs/s")["tables"]:
        for row in table["rows"]:
            assert " ".join(row.values()).split() in lines


@pytest.mark.parametrize(
    ("words", "begins"), [(("report",), RUN), (("report", "--full"), "cumulative, used for learning")]
)
def test_a_figure_of_a_report_stands_behind_its_whole_name(
    here: Path, words: tuple[str, ...], begins: str
) -> None:
    found = document(here, "report", RUN)["runs"][0]["energy"]["table10"]["gross"]["cumulative_consumed"]
    told = f"{found['joules']:.1f} ± {2.0 * found['u_joules']:.1f} J"
    lines = piped(here, *words, RUN).splitlines()
    assert any(line.startswith(f"{begins} ") and f"  {told}" in line for line in lines)
    assert all(line == line.rstrip() for line in lines)


def test_the_table_of_a_sweep_breaks_no_figure_on_a_narrow_terminal(here: Path) -> None:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(ours, (50, 30))
    with subprocess.Popen(
        [*ROAMBENCH, "sweep", "s.toml", "--table"],
        cwd=here,
        stdout=theirs,
        env={name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        | {"NO_COLOR": "1", "TERM": "xterm"},
    ):
        os.close(theirs)
        out = b""
        try:
            while piece := os.read(ours, 65536):
                out += piece
        except OSError:  # the other end is closed
            pass
    os.close(ours)
    lines = re.sub(r"\r|\x1b\[[0-9;]*m", "", out.decode()).splitlines()
    for row in json.loads((here / "runs/s/table.json").read_text())["rows"]:
        mean, sd = (row["metrics"]["wasted_share"][part] for part in ("mean", "sd"))
        assert any(f"{100 * mean:.1f} ± {100 * sd:.1f} %" in line.replace("\u00a0", " ") for line in lines)
    assert max(len(line) for line in lines if not line.startswith("±")) <= 30  # a sentence wraps anywhere
