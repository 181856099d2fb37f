"""Decentralised runs beside their papers' tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from roambench.extras.papers.dam import dam_tables
from roambench.extras.papers.de_heredia import AWARE_GAIN, GAIN, GAP, de_heredia_tables
from roambench.extras.papers.peer_runs import PeerRun
from roambench.report.table import ReportTable

RUN = PeerRun(
    system="metropolis_hastings", mobility="dcm", partition="dirichlet_split", dirichlet=0.05, fast_share=0.2,
    mixing_alpha=0.4, seed=1, clients=20, grid=18, mobile=3, radius=3.0, reach=5.0,
    figures={
        "final_accuracy": 0.8, "average_accuracy": 0.9, "mobility_gap": 0.02, "neighbours": 1.5,
        "connected_within": 20.0, "distribution_distance": 0.5, "consumed_j": 1000.0,
        "joules_per_point": 12.5, "best_accuracy": 0.85,
    },
)  # fmt: skip


def like(run: PeerRun, figures: dict[str, float | None], **setting: Any) -> PeerRun:
    """The run with other figures and another setting."""
    return replace(run, figures={**run.figures, **figures}, **setting)


def cells(table: ReportTable, *begins: str) -> tuple[str, ...]:
    (row,) = [row for row in table.rows if row[: len(begins)] == begins]
    return row[len(begins) :]


def test_movements_stand_beside_the_journals_table_with_their_order_seed_by_seed() -> None:
    runs = [
        RUN,
        like(RUN, {"final_accuracy": 0.6}, seed=2),
        like(RUN, {"final_accuracy": 0.7}, mobility="dam"),
        like(RUN, {"final_accuracy": 0.65}, mobility="dam", seed=2),
    ]
    accuracy, order, energy, network = dam_tables(runs)
    # 80 and 60: mean 70, sd 14.14; the paper's 80.83
    assert cells(accuracy, "metropolis_hastings", "DCM") == ("70.00 ± 14.14 %", "80.83 %")
    assert cells(accuracy, "metropolis_hastings", "DAM")[1] == "79.85 %"
    # +10 and -5
    assert cells(order, "metropolis_hastings", "DCM - DAM") == ("2.50 ± 10.61 (1 of 2)", "+0.98")
    assert cells(order, "metropolis_hastings", "DAM - Random")[0] == "–"
    assert cells(energy, "metropolis_hastings", "0.05", "DCM")[0] == "1,000 ± 0 J"
    assert cells(network, "metropolis_hastings", "0.05", "DCM")[1] == "20 ± 0 (2 of 2)"


def test_a_sweep_without_the_papers_movements_has_no_such_tables() -> None:
    assert dam_tables([replace(RUN, mobility="trace")]) == []
    assert de_heredia_tables([RUN]) == []


def test_shares_of_fast_clients_stand_beside_de_heredias_tables() -> None:
    walk = replace(RUN, system="d_psgd", mobility="reflected_walk", partition="label_shards", fast_share=0.0)
    runs = [
        like(walk, {"final_accuracy": 0.5, "mobility_gap": None}),
        like(walk, {"final_accuracy": 0.53, "mobility_gap": 0.04}, fast_share=0.05),
        like(walk, {"final_accuracy": 0.52, "mobility_gap": 0.03}, fast_share=0.05, system="mobility_aware"),
        like(walk, {"final_accuracy": 0.9, "mobility_gap": 0.01}, partition="iid", fast_share=0.05),
    ]
    plain, aware, iid = de_heredia_tables(runs)
    assert cells(plain, "5 %") == ("53.00 %", "+3.00", "+2.73", "+4.00", "+4.81")
    assert cells(plain, "0 %") == ("50.00 %", "–", "–", "–", "–")
    assert cells(aware, "0.4", "5 %") == ("52.00 %", "-1.00", "-1.40", "+3.00", "+3.16")
    assert cells(iid, "5 %") == ("90.00 %", "–", "+0.07", "+1.00", "+1.57")


def test_the_papers_figures_are_those_that_it_prints() -> None:
    assert GAIN[False][1.0] == 8.97
    assert GAP[True][0.8] == 0.60
    assert AWARE_GAIN[False][1.0][0.2] == -5.11
    assert AWARE_GAIN[True][0.3][1.0] == -0.03
