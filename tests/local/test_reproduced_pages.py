"""Figures of a reproduced page, computed again from the runs' event logs by code that shares none with it."""

from __future__ import annotations

import json
import re
import sqlite3
import statistics
import subprocess
import sys
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
CLI = [sys.executable, "-m", "roambench.cli.main"]
#: docs/algorithms.md: Eq. 1 of MOHAWK for LTE, W per Mbit/s and W.
ALPHA_UP, ALPHA_DOWN, BETA = 0.43839, 0.05197, 1.28804
#: `[energy]` and `[simulated]` of the experiment: W of a board at rest, and what training adds.
IDLE_W, TRAIN_W = 1.9, 0.8


def events_of(run: Path) -> list[tuple[str, dict[str, Any]]]:
    with closing(sqlite3.connect(f"file:{run / 'events.sqlite'}?mode=ro", uri=True)) as log, log:
        return [
            (kind, json.loads(body)) for kind, body in log.execute("SELECT kind, body FROM event ORDER BY id")
        ]


def shown(cell: str) -> list[float]:
    """The numbers of a cell: 41.5 ± 1.1 % is [41.5, 1.1]."""
    return [float(number) for number in re.findall(r"-?[\d.]+", cell.replace(",", ""))]


def rows_of(page: str, heading: str) -> list[list[str]]:
    table = page.split(f"## {heading}", 1)[1].split("\n\n")[1]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in table.splitlines()[2:]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, dict[int, Path]]]:
    """The page of MOHAWK's Table 10, and its run folders by system and seed."""
    out = tmp_path_factory.mktemp("reproduced")
    words = ["reproduce", "mohawk-boards", "-o", str(out / "runs"), "--pages", str(out), "--jobs", "2"]
    subprocess.run([*CLI, *words], cwd=ROOT, check=True, capture_output=True, timeout=800)
    runs: dict[str, dict[int, Path]] = defaultdict(dict)
    for path in (out / "runs").glob("mohawk-boards-small/points/*/runs/*/experiment.json"):
        experiment = json.loads(path.read_text(encoding="utf-8"))
        if experiment["rounds"]["stop_at_threshold"]:
            continue  # what is computed again are runs of the whole week
        runs[experiment["systems"][0]][experiment["seed"]] = path.parent
    return (out / "mohawk-boards-small.md").read_text(encoding="utf-8"), runs


def test_shares_and_accuracies_of_the_page_are_those_of_the_logs(
    made: tuple[str, dict[str, dict[int, Path]]],
) -> None:
    page, runs = made
    rows = {row[0]: row for row in rows_of(page, "Every setting") if row[1] == "false"}
    assert rows.keys() == runs.keys() == {"mohawk", "hierfavg"}
    for system, of_seed in runs.items():
        shares, accuracies = [], []
        for run in of_seed.values():
            outcomes = [body["outcome"] for kind, body in events_of(run) if kind == "OutcomeDecided"]
            shares.append(100.0 * outcomes.count("wasted") / len(outcomes))
            scored = [body["accuracy"] for kind, body in events_of(run) if kind == "StepClosed"]
            accuracies.append(100.0 * [value for value in scored if value is not None][-1])
        assert rows[system][2] == "5"
        for cell, values in ((rows[system][9], shares), (rows[system][10], accuracies)):
            assert shown(cell) == pytest.approx(
                [statistics.mean(values), statistics.stdev(values)], abs=0.051
            )


def test_the_lead_in_wasted_joules_is_that_of_eq_1_and_the_boards_power(
    made: tuple[str, dict[str, dict[int, Path]]],
) -> None:
    """Transfers by Eq. 1 at the log's rates, trainings by their time; boards' own powers scatter by 3 %."""
    page, runs = made
    leads = []
    for seed in sorted(runs["mohawk"]):
        hierfavg, mohawk = (wasted_j(runs[system][seed]) for system in ("hierfavg", "mohawk"))
        leads.append(hierfavg - mohawk)
    expected = stats.ttest_1samp(leads, 0.0).confidence_interval(0.95)
    (row,) = [
        row
        for row in rows_of(page, "What the paper says, and what came out")
        if "wastes less" in row[0] and "whole week" in row[0]
    ]
    mean, half = shown(row[4])
    assert mean == pytest.approx(statistics.mean(leads), rel=0.02)
    assert half == pytest.approx((expected.high - expected.low) / 2.0, rel=0.1)
    assert row[1] == ("reproduced" if expected.low > 0.0 else "undecided")


def wasted_j(run: Path) -> float:
    """Gross joules of the local updates that no edge aggregation used, every board of the nominal power."""
    given: dict[str, dict[str, Any]] = {}
    wasted, total = set(), 0.0
    for kind, body in events_of(run):
        if kind == "OrderGiven":
            given[body["order_id"]] = body
        elif kind == "OutcomeDecided" and body["outcome"] == "wasted":
            wasted.add(body["train_order_id"])
    for kind, body in events_of(run):
        if kind != "OrderAnswered" or body["status"] != "done":
            continue
        order = given[body["order_id"]]
        cause = order["order_id"] if order["kind"] == "train" else order["train_order_id"]
        if order["kind"] not in ("train", "upload") or cause not in wasted:
            continue
        mbit, rate = body["transferred_bytes"] * 8e-6, order["throughput_mbit_s"]
        if order["link"] == "lte":
            alpha = ALPHA_DOWN if order["kind"] == "train" else ALPHA_UP
            total += (alpha * rate + BETA + IDLE_W) * mbit / rate
        total += (IDLE_W + TRAIN_W) * body["train_s"]
    return total
