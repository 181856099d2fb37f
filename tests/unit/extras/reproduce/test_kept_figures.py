"""The claims' figures that docs/results keeps, computed again from its rows of runs and settings."""

from __future__ import annotations

import csv
import math
import re
import tomllib
from collections import defaultdict
from itertools import combinations
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from scipy import stats

from raw_runs import lead_interval

ROOT = Path(__file__).parents[4]
KEPT = ROOT / "docs" / "results"
#: Columns of the papers' own pages; other pages have a key's last part, and a metric's name without "_".
COLUMNS = {
    "systems": ("systems", "system", "mixing"),
    "rounds.cloud_every_steps": ("cloud_every_steps", "k2"),
    "learning.alpha": ("alpha", "data", "α"),
    "decentralised.alpha": ("mixing α",),
    "mobility.model": ("mobility",),
    "mobility.fast_share": ("p",),
    "mobility.reach": ("R_m",),
    "contacts.radius": ("R_c",),
    "final_accuracy": ("final accuracy (%)", "last (%)", "accuracy (%)"),
    "distance_km": ("distance km", "km"),
    "communication_j_per_client": ("communication j per client", "J per client"),
    "mobility_gap": ("high - low",),
    "rounds_to_0.8": ("rounds to 0.8", "rounds"),
}
#: What those pages call a value.
SPELLED = {"100.0": "IID", "0.1": "non-IID", "0.0": "∞"}
#: Its claims are of the best accuracy, which no row has.
NO_ROWS = {"dam-figures"}
Row = dict[str, str]
#: A seed, "" for the mean over them; ours and theirs.
Pair = tuple[str, tuple[float, float]]


def rows_of(path: Path) -> list[Row]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def leaves(table: dict[str, Any], before: str = "") -> dict[str, str]:
    """{"fleet.aps": "20"} of {"fleet": {"aps": 20}}."""
    found: dict[str, str] = {}
    for key, value in table.items():
        spelled = str(value).lower() if isinstance(value, bool) else str(value)
        found |= leaves(value, f"{before}{key}.") if isinstance(value, dict) else {f"{before}{key}": spelled}
    return found


def column_of(name: str, row: Row) -> str | None:
    names = COLUMNS.get(
        name, (name.rpartition(".")[2], name.replace("_", " "), f"{name.replace('_', ' ')} (%)")
    )
    return next((column for column in names if column in row), None)


def has(row: Row, wanted: dict[str, str]) -> bool:
    for key, value in wanted.items():
        column = column_of(key, row)
        if column is None:
            continue  # all rows have it
        spelled = {value, SPELLED.get(value, value), value.removesuffix(".0")}
        unsaid = row[column] == "" and key == "decentralised.alpha"  # of systems that do not use it
        if row[column] not in spelled and not unsaid:
            return False
    return True


def keys_of(rows: list[Row], named: set[str]) -> list[str]:
    """Columns that tell settings and seeds apart, without those that both sides of a claim name."""
    columns = list(rows[0])
    end = columns.index("seed") + 1 if "seed" in columns else columns.index("seeds")
    apart = {column_of(name, rows[0]) for name in named}
    return [column for column in columns[:end] if column not in apart]


def pairs_of(claim: dict[str, Any], rival: dict[str, str], rows: list[Row]) -> list[Pair]:
    """(seed, ours, theirs) of each pair of rows; none where a figure is missing or only a bound."""
    ours = leaves(claim["of"])
    keys = keys_of(rows, ours.keys() & rival.keys())
    cells: dict[tuple[str, ...], list[list[Row]]] = defaultdict(lambda: [[], []])
    for row in rows:
        for side, wanted in enumerate((ours, rival)):
            if has(row, wanted):
                cells[tuple(row[key] for key in keys)][side].append(row)
    column = column_of(claim["metric"], rows[0])
    by_setting: dict[tuple[str, ...], list[Pair]] = defaultdict(list)
    seeded = "seed" in rows[0]
    for cell, (mine, theirs) in cells.items():
        if not mine or not theirs:
            continue
        assert len(mine) == len(theirs) == 1, claim["says"]
        both = (mine[0], theirs[0])
        whole = not any(one.get(f"{column} note") or one.get(f"{column} bound") for one in both)
        if column is None or not whole or not all(one[column] for one in both):
            return []
        seed = mine[0].get("seed", "")
        setting = tuple(value for key, value in zip(keys, cell, strict=True) if not seeded or key != "seed")
        by_setting[setting].append((seed, (float(both[0][column]), float(both[1][column]))))
    return whole_block(by_setting)


def whole_block(by_setting: dict[tuple[str, ...], list[Pair]]) -> list[Pair]:
    """The pairs of some seeds in all settings that have these, those with the shortest interval to expect of
    their numbers: of a sweep that has not ended, in which a setting may lack a seed."""
    seeds = sorted({seed for pairs in by_setting.values() for seed, _ in pairs})
    best: tuple[float, list[Pair]] = (math.inf, [])
    for count in range(min(2, len(seeds)), len(seeds) + 1):
        for some in combinations(seeds, count):
            has_all = [pairs for pairs in by_setting.values() if {seed for seed, _ in pairs} >= set(some)]
            block = [pair for pairs in has_all for pair in pairs if pair[0] in some]
            if block:
                student = stats.t(count - 1).isf(0.025) if count > 1 else 1e9
                width = student / math.sqrt(len(block))
                best = min(best, (width, block), key=lambda one: one[0])
    return best[1]


def kept() -> list[tuple[str, str]]:
    claims = rows_of(KEPT / "claims.csv")
    return sorted({(row["study"], row["scale"]) for row in claims} - {(name, "small") for name in NO_ROWS})


@pytest.mark.parametrize(("study", "scale"), kept())
def test_three_figures_of_each_page_follow_from_the_rows_kept_beside_it(study: str, scale: str) -> None:
    catalogue = tomllib.loads((ROOT / "experiments" / "reproduction.toml").read_text("utf-8"))
    (known,) = [one for one in catalogue["study"] if one["name"] == study]
    # A run that goes on has figures so far, which no claim is of.
    rows = [row for row in rows_of(KEPT / f"{study}-{scale}.csv") if "so far" not in row.values()]
    compared = 0
    for row in rows_of(KEPT / "claims.csv"):
        if (row["study"], row["scale"]) != (study, scale):
            continue
        (claim,) = [one for one in known["claim"] if one["says"] == row["claim"]]
        rivals = [leaves(one) for one in claim.get("against", [])]
        for rival in rivals:
            if ", ".join(rival.values()) != row["beside whom"]:
                continue
            pairs = pairs_of(claim, rival, rows)
            if not pairs:
                continue
            sign = 1.0 if claim["better"] == "more" else -1.0
            step = 10.0 ** -len(row["ours"].partition(".")[2])
            means = [mean(figures[side] for _, figures in pairs) for side in (0, 1)]
            lead = sign * (means[0] - means[1])
            found = [float(row[name]) for name in ("ours", "beside", "lead")]
            assert found == pytest.approx([*means, lead], abs=1.6 * step), row["claim"]
            compared += 3
            seeds = {seed for seed, _ in pairs} - {""}
            if len(seeds) == 1 or row["lead bound"]:
                assert row["lead ±"] == "", row["claim"]
            elif seeds:
                sides = (
                    [mean(figures[side] for one, figures in pairs if one == seed) for seed in sorted(seeds)]
                    for side in (0, 1)
                )
                _, half = lead_interval(*sides)
                if lead < 0.0 < half:  # one of k rivals is tested at 2.5 % / k
                    t = stats.t(len(seeds) - 1)
                    half *= t.isf(0.025 / len(rivals)) / t.isf(0.025)
                assert float(row["lead ±"]) == pytest.approx(half, abs=1.6 * step), row["claim"]
                compared += 1
    figures = [row for row in rows_of(KEPT / "claims.csv") if (row["study"], row["scale"]) == (study, scale)]
    assert compared >= 3 or not any(row["lead"] for row in figures)


def test_the_table_at_the_papers_local_work_has_each_run_of_its_cells() -> None:
    """Beside the paper's Table 4, typed again."""
    table4 = {
        "IID": {"2": (12, 46, 42), "5": (20, 50, 45), "10": (30, 70, 50)},
        "non-IID": {"2": (40, 162, 142), "5": (75, 185, 165), "10": (110, 210, 180)},
    }
    cells: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for run in rows_of(KEPT / "mohawk-medium.csv"):
        cells[f"{run['data']}, {run['k2']}", run["system"]].append(run)
    expected = {}
    for (place, system), runs in cells.items():
        data, _, k2 = place.partition(", ")
        paper = table4[data][k2][("mohawk", "hierfavg", "macfl").index(system)]
        names = ("rounds bound", "rounds", "rounds note")
        found = (" ".join(part for name in names if (part := run.get(name))) for run in runs)
        expected[place, system] = f"{', '.join(found)} ({paper})"
    page = (KEPT / "README.md").read_text("utf-8").partition("| mnist: data, k2 |")[2].partition("\n\n")[0]
    shown = [[cell.strip() for cell in line.strip("| ").split("|")] for line in page.splitlines()[2:]]
    assert {(place, system): rounds for place, system, rounds, _, _ in shown} == expected
    for place, system, _, joules, accuracy in shown:
        ended = [run for run in cells[place, system] if run.get("rounds note") != "so far"]
        assert joules.partition(" ")[0] == (
            f"{mean(float(run['J per client']) for run in ended):.1f}" if ended else "–"
        )
        last = mean(float(run["last (%)"]) for run in ended or cells[place, system])
        assert float(accuracy) == pytest.approx(last, abs=0.006)


def test_a_page_says_how_many_of_its_runs_have_ended() -> None:
    page = (KEPT / "README.md").read_text("utf-8")
    for row in rows_of(KEPT / "ran.csv"):
        option = "" if row["scale"] == "small" else f" --scale {row['scale']}"
        (said,) = re.findall(
            rf"^`roambench reproduce {row['study']}{option}(?: --trace nyc.parquet)?`([^:\n]*)",
            page,
            re.MULTILINE,
        ) or [""]
        assert said.rstrip().endswith(f", {row['runs']} of {row['of']} runs") == (row["runs"] != row["of"])
