"""Finished runs of MOHAWK's MNIST grid that docs/results keeps: another machine goes on behind them."""

from __future__ import annotations

import csv
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from roambench.study.sweep.sweep_folder import read_outcome

KEPT = Path(__file__).parents[4] / "docs" / "results"


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    base = tmp_path_factory.mktemp("kept")
    with tarfile.open(KEPT / "mohawk-medium.tar.xz") as archive:
        archive.extractall(base, filter="data")
    return sorted((base / "mohawk-medium" / "points").iterdir())


def described(folder: Path) -> tuple[Any, dict[str, Any]]:
    point = json.loads((folder / "point.json").read_text())
    outcome = read_outcome(folder, point["key"])
    assert outcome is not None
    assert outcome.finished
    return outcome.figures, point["config"]


def test_each_kept_run_is_a_row_of_the_page(points):
    with (KEPT / "mohawk-medium.csv").open(newline="") as file:
        rows = {(row["system"], row["data"], row["k2"], row["seed"]): row for row in csv.DictReader(file)}
    for folder in points:
        figures, config = described(folder)
        data = {100.0: "IID", 0.1: "non-IID"}[config["learning"]["alpha"]]
        k2 = str(config["rounds"]["cloud_every_steps"])
        row = rows.pop((*config["systems"], data, k2, str(config["seed"])))
        assert row["rounds"] == f"{figures['rounds_to_threshold']:.0f}"
        assert row["last (%)"] == f"{100.0 * figures['final_accuracy']:.2f}"
        assert row["J per client"] == f"{figures['communication_j_per_client']:.2f}"
    assert all(row.get("rounds note") == "so far" for row in rows.values())


def test_no_kept_run_names_a_place_on_a_machine(points):
    for folder in points:
        _, config = described(folder)
        assert (config["trace"]["file"], config["learning"]["data_path"]) == ("nyc.parquet", "")
        assert '"/' not in (folder / "result.json").read_text()
