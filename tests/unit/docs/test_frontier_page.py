"""The experiment of docs/frontier.md in a small form, and what its page says the options do."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from statistics import mean, stdev

import pytest
from scipy import stats

from .test_codecs_page import ROOT, run

pytestmark = pytest.mark.timeout(600)


def test_the_experiment_in_a_small_form_spends_and_wastes_less_with_either_option(tmp_path: Path) -> None:
    text = (ROOT / "experiments" / "frontier.toml").read_text("utf-8")
    text = (
        text.replace('["mohawk", "hierfavg", "oort", "middle", "refl"]', '["mohawk"]')
        .replace("seeds = 5", "seeds = 1")
        .replace("[0.3, 0.5, 0.7]", "[0.3]")
        .replace("[0.05, 0.2, 0.4]", "[0.4]")
        .replace("steps = 336\n", "steps = 40\n")
        .replace("devices = 200", "devices = 60")
        .replace("accuracy_threshold = 0.85", "accuracy_threshold = 1.0")
    )
    (tmp_path / "frontier.toml").write_text(text)
    run("roambench sweep frontier.toml -o out --jobs 2", tmp_path)
    rows = json.loads((tmp_path / "out" / "table.json").read_text())["rows"]
    used = {
        tuple(row["values"][f"algorithm.mohawk.{name}"] for name in ("least_chance", "share")): (
            row["metrics"]["consumed_j"]["mean"],
            row["metrics"]["wasted_j"]["mean"],
        )
        for row in rows
    }
    usual = used[None, None]
    assert set(used) == {(None, None), (0.3, None), (None, 0.4), (0.3, 0.3)}
    # A share of 0.4 trains about four of ten, by chance, and wastes as large a part of them.
    assert 0.2 * usual[0] < used[None, 0.4][0] < 0.65 * usual[0]
    assert 0.2 * usual[1] < used[None, 0.4][1] < 0.65 * usual[1]
    # The forecast wastes a smaller part of what it spends.
    consumed, wasted = used[0.3, None]
    assert consumed < usual[0]
    assert wasted / consumed < usual[1] / usual[0]
    assert used[0.3, 0.3][0] < 0.5 * consumed


def test_the_ablation_in_a_small_form_has_a_row_for_each_option(tmp_path: Path) -> None:
    text = (ROOT / "experiments" / "ablation.toml").read_text("utf-8")
    text = (
        text.replace("seeds = 5", "seeds = 1")
        .replace("steps = 336\n", "steps = 20\n")
        .replace("devices = 200", "devices = 40")
        .replace("capacity_wh = 20.0", "capacity_wh = 5.0")
        .replace("accuracy_threshold = 0.85", "accuracy_threshold = 1.0")
    )
    (tmp_path / "ablation.toml").write_text(text)
    run("roambench sweep ablation.toml -o out --jobs 2", tmp_path)
    rows = json.loads((tmp_path / "out" / "table.json").read_text())["rows"]
    assert len(rows) == len({tuple(row["values"].values()) for row in rows}) == 10
    found = {
        tuple(row["values"][key] for key in ("algorithm.mohawk.least_charge", "links.codec_up")): row[
            "metrics"
        ]
        for row in reversed(rows)  # the first of several rows, MOHAWK itself
    }
    lost = {charge: found[charge, "identity"]["died_trainings"]["mean"] for charge in (None, 0.5)}
    assert lost[0.5] <= lost[None]
    assert found[None, "int8"]["encode_j"]["mean"] > 0.0


def cells(name: str) -> list[str]:
    """The row of the page's last table that begins so."""
    page = (ROOT / "docs" / "frontier.md").read_text("utf-8")
    table = page[page.index("## Each option alone") :]
    line = next(line for line in table.splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("MOHAWK", {}),
        ("`least_chance` 0.3", {"least_chance": "0.3", "share": ""}),
        ("`share` 0.4", {"share": "0.4", "least_chance": ""}),
        ("`least_charge` 0.3", {"least_charge": "0.3", "share": ""}),
        ("`most_epochs` 10", {"most_epochs": "10", "share": ""}),
        ("`int8` up", {"codec_up": "int8", "code_by_joules": "false"}),
    ],
)
def test_the_figures_of_the_page_are_those_of_its_runs(name: str, chosen: dict[str, str]) -> None:
    """By the paired t-test's own interval, on logarithms, from the file of all runs."""
    with (ROOT / "docs" / "evidence" / "ablation.csv").open(encoding="utf-8") as file:
        every = list(csv.DictReader(file))
    usual = {
        "least_chance": "",
        "share": "",
        "least_charge": "",
        "most_epochs": "",
        "local_epochs": "1",
        "codec_up": "identity",
        "code_by_joules": "",
    }

    def runs(wanted: dict[str, str]) -> dict[str, dict[str, str]]:
        return {row["seed"]: row for row in every if wanted.items() <= row.items()}

    plain, these = runs(usual), runs(usual | chosen)
    assert len(these) == 5
    shown = cells(name)
    for cell, column, digits in ((2, "consumed_j", 1), (4, "wasted_j", 1), (6, "died_trainings", 0)):
        values = [float(row[column]) for row in these.values()]
        assert shown[cell] == f"{mean(values):.{digits}f} ± {stdev(values):.{digits}f}"
    steps = [float(row["rounds_to_threshold"]) for row in these.values() if row["rounds_to_threshold"]]
    assert shown[1].startswith(f"{mean(steps):.0f} ± {stdev(steps):.0f}")
    if not chosen:
        return
    for cell, column in ((3, "consumed_j"), (5, "wasted_j")):
        pairs = [
            (math.log(float(row[column])), math.log(float(plain[seed][column])))
            for seed, row in these.items()
            if row["rounds_to_threshold"]
        ]
        if pairs == [(one, one) for one, _ in pairs]:
            assert shown[cell] == "100 %"
            continue
        low, high = stats.ttest_rel(*zip(*pairs, strict=True)).confidence_interval(0.95)
        factor = 100 * math.exp(mean(one - other for one, other in pairs))
        assert shown[cell] == f"{factor:.0f} [{100 * math.exp(low):.0f}, {100 * math.exp(high):.0f}] %"
