"""Decentralised runs summed up from hand-made logs."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from roambench.contract.metric import Metric
from roambench.report.documents.peers import peer_document
from roambench.report.summaries.peers import peer_summary
from roambench.rounds.records import (
    CloudAggregated,
    MetricsScored,
    MixingPlanned,
    ModelsExchanged,
    ModelsScored,
    PeersDescribed,
    RoundRecord,
)


def exchanged(step: int, device: int, *missing: int) -> ModelsExchanged:
    reasons = tuple(f"late: {n} s" for n in missing)
    return ModelsExchanged(step, device, f"r/{step}/{device}", missing, reasons, 10, 6, 1.0, 0, 0.0, "")


#: Three devices, 0 of high mobility. Step 0: 0-1; step 1: 1-2; together they connect everybody.
LOG: list[RoundRecord] = [
    PeersDescribed(0, (0,), (5.0, 0.0, 0.0)),
    MixingPlanned(0, (2, 2, 1), (0, 1, 0, 1, 2), (0.5, 0.5, 0.5, 0.5, 1.0), 0.25, 0.2),
    exchanged(0, 0),
    exchanged(0, 1),
    exchanged(0, 2),
    ModelsScored(0, (0, 1, 2), (0.5, 0.3, 0.1), (1.0, 2.0, 3.0), ("a", "b", "c"), 0.4, 1.5),
    MixingPlanned(1, (1, 2, 2), (0, 1, 2, 1, 2), (1.0, 0.5, 0.5, 0.5, 0.5), None, 0.4),
    exchanged(1, 1, 2),
    ModelsScored(1, (0, 1, 2), (0.8, 0.7, 0.6), (1.0, 2.0, 3.0), ("a", "b", "c"), 0.9, 0.5),
]


def test_a_run_of_a_system_with_a_server_has_no_such_summary() -> None:
    assert peer_summary([CloudAggregated(0, (), (), "d")]) is None
    assert peer_document(None) is None


def test_accuracies_are_told_over_the_devices_by_mobility_and_of_the_mean_model() -> None:
    peers = peer_summary(LOG)
    assert peers is not None
    first, last = peers.points
    assert (first.worst, first.best, first.high, first.average) == (0.1, 0.5, 0.5, 0.4)
    assert first.mean == pytest.approx(0.3)
    assert first.gap == pytest.approx(0.3)  # 0.5 - (0.3 + 0.1) / 2
    assert peers.mean_gap == pytest.approx((0.3 + 0.15) / 2)
    assert last.mean == pytest.approx(0.7)
    assert peers.final_average == 0.9


def test_of_a_task_without_classes_the_best_device_is_the_best_by_its_own_metric() -> None:
    """The same log with errors of 50, 30 and 10, then 80, 70 and 60, in accuracies' place."""
    of_rmse: list[RoundRecord] = []
    for record in LOG:
        if isinstance(record, ModelsScored):
            scores = tuple(100.0 * score for score in record.scores)
            record = replace(record, scores=scores, average_score=100.0 * record.average_score)
            mean = sum(scores) / len(scores)
            of_rmse += [record, MetricsScored(record.step, ("rmse",), (mean,), ("lower",))]
        else:
            of_rmse.append(record)
    peers = peer_summary(of_rmse)
    assert peers is not None
    assert peers.metric == Metric("rmse", "lower")
    first, last = peers.points
    assert (first.best, first.worst, last.best, last.worst) == pytest.approx((10.0, 50.0, 60.0, 80.0))
    assert peers.mean_gap == pytest.approx((30.0 + 15.0) / 2)
    assert peers.joules_per_point(140.0) is None
    document = peer_document(peers)
    assert document is not None
    assert (document["metric"], document["better"]) == ("rmse", "lower")
    assert document["final_mean_score"] == pytest.approx(70.0)


def test_a_scoring_with_a_value_that_is_none_is_left_out() -> None:
    (scored,) = (record for record in LOG[:6] if isinstance(record, ModelsScored))
    peers = peer_summary([*LOG[:5], replace(scored, scores=(0.5, math.nan, 0.1)), *LOG[6:]])
    assert peers is not None
    assert [point.step for point in peers.points] == [1]


def test_the_network_is_summed_up_from_what_was_ordered() -> None:
    peers = peer_summary(LOG)
    assert peers is not None
    assert (peers.exchanges, peers.mean_neighbours) == (4, pytest.approx(4 / 6))
    assert peers.neighbours.tolist() == [[1.0, 0.5], [1.0, 1.5]]
    assert peers.connected_within == 2
    assert peers.mean_spectral_gap == 0.25
    assert math.isnan(peers.spectral_gaps[1])
    assert peers.mean_distribution_distance == pytest.approx(0.3)
    assert (peers.left_out, peers.left_out_models) == ({"late": 1}, 1)
    assert (peers.sent_bytes, peers.received_bytes) == (40, 24)


def test_joules_per_point_are_by_percentage_points_of_the_mean_accuracy() -> None:
    peers = peer_summary(LOG)
    assert peers is not None
    assert peers.joules_per_point(140.0) == pytest.approx(2.0)
    assert peers.joules_per_point(None) is None


def test_the_document_has_null_where_nothing_is_known() -> None:
    document = peer_document(peer_summary(LOG))
    assert document is not None
    assert document["spectral_gaps"] == [0.25, None]
    assert document["scores"][1]["high_mobility"] == 0.8
