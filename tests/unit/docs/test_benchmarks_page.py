"""benchmarks/README.md has the table that benchmarks/table.py makes of the kept figures and the goals."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import table

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
GOALS = table.read(table.GOALS)
FIGURES = table.read(table.FIGURES)
ABOUT = {"date": "2026-11-01", "load": "0.2", "machine": "2 cores"}


def goal(figure: str, limit: str, unit: str = "ms") -> dict[str, str]:
    return {"figure": figure, "unit": unit, "goal": limit, "before": "", "source": ""}


def row(figure: str, values: str, **other: str) -> dict[str, str]:
    return {"figure": figure, "values": values, "limit": "", **ABOUT, **other}


def cells(made: str, figure: str) -> list[str]:
    (line,) = re.findall(rf"^\|{figure}.*\|$", made, re.M)
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_page_has_the_table_of_the_kept_figures() -> None:
    page = (BENCHMARKS / "README.md").read_text(encoding="utf-8")
    assert page == table.page(page, table.made(GOALS, FIGURES)), "run benchmarks/table.py"


def test_a_line_of_the_table_is_no_wider_than_a_terminal() -> None:
    lines = table.made(GOALS, FIGURES).splitlines()
    assert max(len(line) for line in lines if line.startswith("|")) <= 80


def test_each_figure_has_one_goal_and_each_goal_a_benchmark_that_keeps_it() -> None:
    named = [line["figure"] for line in GOALS]
    assert len(set(named)) == len(named)
    assert {line["figure"] for line in FIGURES} <= set(named)
    for line in GOALS:
        assert re.fullmatch(r"[<>]= \d+(\.\d+)?", line["goal"]), line
        assert bool(line["source"]) or not line["before"], line
        program = BENCHMARKS / (re.split(r"[ :]", line["figure"])[0] + ".py")
        assert "keep(" in program.read_text(encoding="utf-8"), line


def test_a_goal_is_met_by_the_best_of_the_repeats() -> None:
    goals = [goal("slow", "<= 9"), goal("fast", "<= 9"), goal("few", ">= 2"), goal("many", ">= 2")]
    figures = [row("slow", "9.5 9.1"), row("fast", "12 9"), row("few", "1.9 1.5"), row("many", "1 2.5")]
    made = table.made(goals, figures)
    assert cells(made, "slow")[2:] == ["9.1–9.5", "≤ 9", "", "no"]
    assert cells(made, "fast")[2:] == ["9–12", "≤ 9", "", "yes"]
    assert cells(made, "few")[2:] == ["1.9–1.5", "≥ 2", "", "no"]
    assert cells(made, "many")[2:] == ["2.5–1", "≥ 2", "", "yes"]
    assert made.startswith("2 of 4 goals are met, 2 missed, 0 not run.")


def test_ratios_come_first_and_a_goal_without_a_figure_was_not_run() -> None:
    made = table.made([goal("a", "<= 1"), goal("b × c", ">= 1", "x")], [row("a", "1")])
    assert made.index("b × c") < made.index("a, ms")
    assert cells(made, "b × c")[2] == "not run"


def test_an_old_figure_says_its_date_and_one_of_a_busy_machine_its_load() -> None:
    goals = [goal(name, "<= 9") for name in ("new", "old", "busy")]
    figures = [row("new", "1"), row("old", "2", date="2026-10-01"), row("busy", "3", load="1.6")]
    made = table.made(goals, figures)
    assert [cells(made, name)[2] for name in ("new", "old", "busy")] == ["1", "2¹", "3²"]
    assert "1. 2026-10-01\n2. 1.6 cores were busy before\n" in made


def test_figures_of_a_later_run_take_the_place_of_those_kept(tmp_path: Path) -> None:
    lines = [
        {"figure": name, "values": [2.0, 1.23456], "limit": "TCP 5 ms", **ABOUT, "load": 0.1}
        for name in ("a", "b")
    ]
    (tmp_path / "some.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    kept = [row("a", "7"), row("b", "8", date="2026-12-01"), row("c", "9")]
    found = {line["figure"]: line["values"] for line in table.renewed(kept, tmp_path)}
    assert found == {"a": "2 1.235", "b": "8", "c": "9"}


def test_a_benchmark_keeps_its_figures_where_it_is_told_and_none_without_a_goal(tmp_path: Path) -> None:
    text = "import sys\nfrom setting.figures import keep\nkeep(sys.argv[1], 3, 2.5, limit='4 ms')"
    environment = {"PYTHONPATH": str(BENCHMARKS), "ROAMBENCH_FIGURES": str(tmp_path / "rows")}

    def run(figure: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-c", text, figure]
        return subprocess.run(
            words, env={**os.environ, **environment}, capture_output=True, text=True, check=False
        )

    assert run("rounds CPU an agent").returncode == 0
    rows = [json.loads(line) for line in (tmp_path / "rows").read_text().splitlines()]
    assert rows == [{"figure": "rounds CPU an agent", "values": [3.0, 2.5], "limit": "4 ms"}]
    refused = run("rounds CPU")
    assert refused.returncode == 1
    assert refused.stderr.strip().endswith("goals.csv: no line of the figure 'rounds CPU'")
