"""`roambench results --paper dam` on the points of the project's own experiments, with made-up accuracies."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from roambench.experiment.sections import Experiment
from roambench.extras.papers.peer_page import peer_page
from roambench.extras.papers.results_page import ResultsPage
from roambench.report.table import ReportTable
from roambench.study.sweep.metrics import METRICS
from roambench.study.sweep.points import Point, points_of
from roambench.study.sweep.results import table_of
from roambench.study.sweep.results_files import write_results
from roambench.study.sweep.sweep_file import read_sweep
from roambench.study.sweep.sweep_folder import PointEnd, SweepFolder, write_outcome

EXPERIMENTS = Path(__file__).parents[4] / "experiments"
BEST = {"static": 0.3, "random": 0.4, "dam": 0.5, "dcm": 0.55}


def accuracy_of(run: Experiment) -> float:
    """Rises with every setting that helps; 80 % where everybody is connected."""
    if tuple(run.systems) == ("fully_connected",):
        return 0.8
    moves = run.mobility.model != "static"
    reach = min(run.mobility.reach or math.inf, 10.0)
    return (
        BEST[run.mobility.model]
        + 0.03 * run.contacts.radius
        + (0.02 * run.mobility.mobile + 0.005 * reach if moves else 0.0)
        + (0.02 if run.learning.alpha > 0.05 else 0.0)
        + 0.002 * (run.seed - 42)
    )


def page_of(name: str, out: Path, seeds: Iterable[int], paper: str = "dam") -> ResultsPage:
    """Of the file's runs as a sweep leaves them."""
    sweep = read_sweep(EXPERIMENTS / f"{name}.toml")
    points: list[Point] = [point for point in points_of(sweep) if point.seed in seeds]
    folder = SweepFolder(out)
    outcomes = []
    for point in points:
        best = accuracy_of(point.experiment)
        figures = dict.fromkeys(METRICS) | {
            "steps": 200.0,
            "final_accuracy": best - 0.1,
            "best_accuracy": best,
        }
        outcomes.append(PointEnd(point.key, figures))
        write_outcome(folder.prepare(point, 1), outcomes[-1])
    write_results(folder, table_of(points, outcomes, sweep.metrics), points, outcomes)
    return peer_page([out], paper, title="t", curves_name="t.svg")


def row_of(table: ReportTable, **told: str) -> dict[str, str]:
    rows = [dict(zip(table.head, row, strict=True)) for row in table.rows]
    (found,) = [row for row in rows if all(row[name] == value for name, value in told.items())]
    return found


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ReportTable]:
    page = page_of("dam_dcm_figures", tmp_path_factory.mktemp("journal"), (42,))
    return {table.key: table for table in page.tables}


def test_table_2_is_made_from_its_own_setting_alone(journal: dict[str, ReportTable]) -> None:
    """20 clients on 18 x 18 points, three of them mobile, R_c = 3, R_m = 5, at α = 0.05."""
    found = journal["dam-accuracy"]
    assert "20 clients on 18 x 18 points, 3 mobile, R_c = 3, R_m = 5" in found.caption
    assert "of one seed" in found.caption
    # 0.55 + 0.03 * 3 + 0.02 * 3 + 0.005 * 5 - 0.1
    assert found.rows[0][1:4] == ("DCM", "62.50 %", "80.83 %")
    assert found.rows[3][1:4] == ("Static", "29.00 %", "47.50 %")
    assert {row[0] for row in found.rows} == {"metropolis_hastings"}


def test_the_journals_figures_stand_as_tables_with_its_thresholds(journal: dict[str, ReportTable]) -> None:
    radius = journal["dam-over-radius"]
    at = {"clients": "20", "grid": "18", "α": "0.05", "mobile": "3", "R_m": "5"}
    dcm, random = (row_of(radius, **at, movement=name) for name in ("DCM", "Random"))
    assert [dcm[f"R_c = {value}"] for value in range(1, 7)] == [
        "66.5",
        "69.5",
        "72.5",
        "75.5",
        "78.5",
        "81.5",
    ]
    assert (dcm["everybody connected"], dcm["90 % of it from"], dcm["paper"]) == ("80.0", "3", "4")
    assert (random["R_c = 6"], random["90 % of it from"], random["paper"]) == ("66.5", "none", "5")
    static = row_of(radius, **at, movement="Static")
    assert (static["R_c = 1"], static["R_c = 6"], static["paper"]) == ("33.0", "48.0", "–")
    more = row_of(radius, **{**at, "mobile": "5"}, movement="DCM")
    assert (more["R_c = 3"], more["paper"]) == ("76.5", "3")
    larger = row_of(radius, clients="50", grid="35", movement="DCM")
    assert (larger["R_c = 1"], larger["R_c = 3"], larger["everybody connected"]) == ("–", "76.5", "80.0")

    mobile = journal["dam-over-mobile"]
    at = {"clients": "20", "grid": "18", "α": "0.05", "R_c": "3", "R_m": "5"}
    dcm, random = (row_of(mobile, **at, movement=name) for name in ("DCM", "Random"))
    assert [dcm[f"mobile clients = {value}"] for value in (1, 3, 6)] == ["68.5", "72.5", "78.5"]
    assert (dcm["90 % of it from"], dcm["paper"]) == ("3", "4")
    assert (random["90 % of it from"], random["paper"]) == ("none", "none")
    assert row_of(mobile, clients="35", movement="DCM")["mobile clients = 1"] == "71.5"

    reach = row_of(journal["dam-over-reach"], mobile="5", R_c="4", movement="DAM")
    assert [reach[f"R_m = {value}"] for value in ("2", "5", "∞")] == ["73.0", "74.5", "77.0"]
    alpha = row_of(journal["dam-over-dirichlet"], mobile="5", R_c="3", movement="Static")
    assert (alpha["α = 0.05"], alpha["α = 0.1"]) == ("39.0", "41.0")


def test_every_run_of_the_figures_is_listed_with_its_place(journal: dict[str, ReportTable]) -> None:
    points = journal["peer-points"]
    assert len(points.rows) == 205
    assert row_of(points, clients="50", R_c="5", mobile="6", mobility="dcm")["G"] == "35"


def test_the_workshops_experiment_makes_a_page_of_means_over_seeds(tmp_path: Path) -> None:
    page = page_of("dam_dcm_workshop_full", tmp_path, (42, 43), "workshop")
    tables = {table.key: table for table in page.tables}
    alpha = row_of(tables["dam-over-dirichlet"], R_m="∞", movement="DAM")
    # 0.5 + 0.09 + 0.1 + 0.05, and 0.2 % more with the other seed.
    assert (alpha["α = 0.05"], alpha["α = 0.1"]) == ("74.1 ± 0.1", "76.1 ± 0.1")
    assert "mean ± sd over the seeds" in tables["dam-over-dirichlet"].caption
    radius = row_of(tables["dam-over-radius"], mobile="3", movement="DCM")
    assert (radius["R_c = 1"], radius["everybody connected"], radius["paper"]) == ("66.6 ± 0.1", "–", "–")


def test_beside_the_workshops_runs_stands_what_the_workshop_paper_prints(tmp_path: Path) -> None:
    """Its settings and mean leads, and no figure of the journal's Table II, with three mobile clients."""
    page = page_of("small/workshop", tmp_path, (42, 43), "workshop")
    rows = dict(re.findall(r"^\| ([^|]+) \| [^|]+ \| ([^|]*) \|$", page.text, re.MULTILINE))
    assert (rows["mixing"], rows["step size"], rows["mobile clients"]) == ("data size", "0.3", "5")
    tables = {table.key: table for table in page.tables}
    accuracy = tables["dam-accuracy"]
    assert accuracy.head == ("mixing", "movement", "α = 0.05", "α = 0.1")
    assert "5 mobile, R_c = 3, R_m = 5" in accuracy.caption
    # 0.55 + 0.03 * 3 + 0.02 * 5 + 0.005 * 5 - 0.1, and 0.2 % more with the other seed.
    assert accuracy.rows[0][1:3] == ("DCM", "66.60 ± 0.14 %")
    order = {row[1]: row[2:] for row in tables["dam-order"].rows}
    ours, beside = order["DAM - Random"][::2], order["DAM - Random"][1::2]
    assert ours == ("10.00 ± 0.00 (2 of 2)",) * 2
    assert beside == ("about +8 (mean of both)", "about +3 (mean of both)")
    assert (order["DCM - DAM"][1], order["Random - Static"][3]) == ("–", "–")
    assert not re.search(r"80\.83|89\.65|47\.50", page.text)
    still = [row for row in tables["peer-points"].rows if row[1] == "static"]
    assert len(still) == 2 * 2  # of every α and seed once
