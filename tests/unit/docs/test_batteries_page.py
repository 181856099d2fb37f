"""docs/batteries.md is run as it stands, and its experiment in a small form."""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import mean

import pytest

from page_tables import column, rows_of, runs_of, with_interval

from .test_codecs_page import ROOT, run, typed

PAGE = (ROOT / "docs" / "batteries.md").read_text("utf-8")

pytestmark = pytest.mark.timeout(600)


def test_every_command_of_the_page_works_and_prints_what_the_page_shows(tmp_path: Path) -> None:
    typed(PAGE, tmp_path)


def test_in_the_experiment_in_a_small_form_a_large_battery_keeps_devices_on_and_small_ones_do_not(
    tmp_path: Path,
) -> None:
    text = (ROOT / "experiments" / "batteries.toml").read_text()
    text = re.sub(r"systems = \[.*?\]", 'systems = ["mohawk", "hierfavg"]', text)
    text = re.sub(r"capacity_wh = \[.*?\]", "capacity_wh = [5.0, 200.0]", text)
    text = (
        text.replace("seeds = 5", "seeds = 1")
        .replace("steps = 48", "steps = 10")
        .replace("agents = 20", "agents = 6")
    )
    (tmp_path / "batteries.toml").write_text(text)
    run("roambench sweep batteries.toml -o out --jobs 2", tmp_path)
    rows = json.loads((tmp_path / "out" / "table.json").read_text())["rows"]
    assert len(rows) == 4
    for row in rows:
        values = {name: metric["mean"] for name, metric in row["metrics"].items()}
        if row["values"]["battery.capacity_wh"] == 200.0:
            assert (values["deaths"], values["dead_share"]) == (0, 0.0)
        else:
            assert values["deaths"] > 0
            assert 0.0 < values["dead_share"] < 1.0
        assert 0.0 < values["final_accuracy"] <= 1.0


def test_the_table_of_the_page_follows_from_the_runs_kept_beside_it() -> None:
    shown, dead = rows_of(PAGE, "## Battery size"), dict[str, list[float]]()
    capacities = ("5.0", "10.0", "20.0", "200.0")
    for name, cells in list(shown.items())[:-1]:
        accuracies = {}
        for capacity_wh in capacities:
            runs = runs_of("batteries.csv", {"system": name.strip("`"), "capacity_wh": capacity_wh})
            assert sorted(runs) == ["42", "43", "44", "45", "46"]
            accuracies[capacity_wh] = [100.0 * one for one in column(runs, "final_accuracy")]
            dead.setdefault(capacity_wh, []).extend(column(runs, "dead_share"))
        lost = [most - one for most, one in zip(accuracies["200.0"], accuracies["5.0"], strict=True)]
        assert cells == [with_interval(one, 1) for one in (*accuracies.values(), lost)], name
        # No interval holds 0.
        number, half = with_interval(lost, 6).split(" ± ")
        assert float(number) > float(half)
    assert len(shown) == 6
    assert shown["time without charge"][:4] == [f"{100 * mean(dead[one]):.0f} %" for one in capacities]
