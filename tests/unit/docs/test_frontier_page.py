"""The experiment of docs/frontier.md in a small form, and what its page says the options do."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from statistics import mean, stdev

import pytest

from page_tables import column, factor, rows_of, runs_of, with_sd

from .test_codecs_page import ROOT, run

PAGE = (ROOT / "docs" / "frontier.md").read_text("utf-8")

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
        .replace("stop_at_threshold = true", "stop_at_threshold = false")
    )
    (tmp_path / "frontier.toml").write_text(text)
    run("roambench sweep frontier.toml -o out --jobs 2", tmp_path)
    factors_are_those_of_the_runs(tmp_path / "out")
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


def factors_are_those_of_the_runs(folder: Path) -> None:
    """The factors that a sweep writes beside MOHAWK, from its own rows of runs."""
    with (folder / "runs.csv").open(encoding="utf-8") as file:
        runs = list(csv.DictReader(file))
    with (folder / "table.csv").open(encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    keys = list(runs[0])[: list(runs[0]).index("seed")]
    by_row = {tuple(row[key] for key in keys): row for row in runs}
    usual, *others = (by_row[tuple(row[key] for key in keys)] for row in table)
    assert len(others) > 2
    for row, found in zip(others, table[1:], strict=True):
        factor = float(row["consumed_j"]) / float(usual["consumed_j"])
        assert float(found["consumed_j_factor"]) == pytest.approx(factor)


def test_the_ablation_in_a_small_form_has_a_row_for_each_option(tmp_path: Path) -> None:
    text = (ROOT / "experiments" / "ablation.toml").read_text("utf-8")
    text = (
        text.replace("seeds = 5", "seeds = 1")
        .replace("steps = 336\n", "steps = 48\n")
        .replace("devices = 200", "devices = 40")
        .replace("stop_at_threshold = true", "stop_at_threshold = false")
    )
    (tmp_path / "ablation.toml").write_text(text)
    run("roambench sweep ablation.toml -o out --jobs 2", tmp_path)
    factors_are_those_of_the_runs(tmp_path / "out")
    rows = json.loads((tmp_path / "out" / "table.json").read_text())["rows"]
    assert len(rows) == len({tuple(row["values"].values()) for row in rows}) == 10
    found = {
        tuple(row["values"][key] for key in ("algorithm.mohawk.least_charge", "links.codec_up")): row[
            "metrics"
        ]
        for row in reversed(rows)  # the first of several rows, MOHAWK itself
    }
    # Boards die, and models with them; those that may train with half a battery left lose fewer.
    lost = {charge: found[charge, "identity"]["died_trainings"]["mean"] for charge in (None, 0.5)}
    assert found[None, "identity"]["deaths"]["mean"] > 0
    assert lost[0.5] < lost[None]
    assert found[None, "int8"]["encode_j"]["mean"] > 0.0


PLAIN = {"system": "mohawk", "least_chance": "", "share": ""}
USUAL = {
    "frontier-city.csv": PLAIN,
    "frontier-checkins.csv": PLAIN,
    "ablation.csv": PLAIN
    | {
        "least_charge": "",
        "most_epochs": "",
        "local_epochs": "1",
        "codec_up": "identity",
        "code_by_joules": "",
    },
}
OPTIONS: dict[str, dict[str, str]] = {
    "MOHAWK": {},
    "`least_chance` 0.3": {"least_chance": "0.3"},
    "`share` 0.4": {"share": "0.4"},
}
SYSTEMS = OPTIONS | {
    "0.5": {"least_chance": "0.5"},
    "0.7": {"least_chance": "0.7"},
    "0.2": {"share": "0.2"},
    "0.05": {"share": "0.05"},
    "`least_chance` 0.3, `share` 0.3": {"least_chance": "0.3", "share": "0.3"},
    "OORT": {"system": "oort"},
    "MIDDLE": {"system": "middle"},
    "REFL": {"system": "refl"},
    "HierFAVG": {"system": "hierfavg"},
}
ABLATION = OPTIONS | {
    "`least_charge` 0.3": {"least_charge": "0.3"},
    "0.5": {"least_charge": "0.5"},
    "`most_epochs` 10": {"most_epochs": "10"},
    "two epochs for all": {"local_epochs": "2"},
    "`int8` up": {"codec_up": "int8", "code_by_joules": "false"},
    "and `code_by_joules`": {"codec_up": "int8", "code_by_joules": "true"},
    "`least_chance` 0.3, `share` 0.4, `least_charge` 0.3, `most_epochs` 10": {
        "least_chance": "0.3",
        "share": "0.4",
        "least_charge": "0.3",
        "most_epochs": "10",
    },
}


@pytest.mark.parametrize(
    ("section", "file", "settings"),
    [
        ("`city`, 200 devices", "frontier-city.csv", SYSTEMS),
        ("A month of check-ins", "frontier-checkins.csv", SYSTEMS),
        ("## Each option alone", "ablation.csv", ABLATION),
    ],
)
def test_every_row_of_the_page_follows_from_the_runs_kept_beside_it(
    section: str, file: str, settings: dict[str, dict[str, str]]
) -> None:
    shown, plain = rows_of(PAGE, section), runs_of(file, USUAL[file])
    assert shown.keys() == settings.keys()
    for name, wanted in settings.items():
        these = runs_of(file, USUAL[file] | wanted)
        assert these.keys() == plain.keys() == {"42", "43", "44", "45", "46"}
        rounds = column(these, "rounds_to_threshold")
        reached = "no run" if not rounds else f"{mean(rounds):.0f}"
        reached += f" ± {stdev(rounds):.0f}" if len(rounds) > 1 else ""
        expected = [reached if len(rounds) in (0, 5) else f"{reached}, {len(rounds)} of 5"]
        for metric in ("consumed_j", "wasted_j"):
            pairs = [
                (float(row[metric]), float(plain[seed][metric]))
                for seed, row in these.items()
                if row["rounds_to_threshold"] and plain[seed]["rounds_to_threshold"]
            ]
            expected.append(with_sd(column(these, metric), 1))
            expected.append("100" if not wanted else factor(pairs))
        if "died_trainings" in plain["42"]:
            expected.append(with_sd(column(these, "died_trainings"), 0))
        assert shown[name] == expected, name
