"""What becomes of a training when a device is lost, late, refuses or sends garbage."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from roambench.contract.orders import Answer, AnswerStatus, TrainReply, UploadReply
from roambench.contract.phases import Outcome
from roambench.rounds.records import EdgeAggregated, OrderAnswered, OrderGiven, OutcomeDecided
from roambench.systems.catalogue import make_system
from roambench.systems.options import SystemOptions

LONG = SystemOptions(k1=1, k2=50)  # no cloud aggregation within these runs
MAY_TRY_AGAIN = [AnswerStatus.LOST, AnswerStatus.FAILED, AnswerStatus.TIMEOUT]


def outcomes(run):
    return [(f.step, f.train_order_id, f.outcome.value, f.reason) for f in run.of(OutcomeDecided)]


def discards(run):
    return [(o.step, o.device, o.train_order_id) for o in run.of(OrderGiven) if o.kind == "discard"]


@pytest.mark.parametrize("status", MAY_TRY_AGAIN)
def test_a_failed_upload_leaves_the_device_in_tr_and_the_model_arrives_when_it_is_back(world, status):
    failures = {("upload", 0, 1): status, ("train", 0, 1): AnswerStatus.LOST}
    run = world.run("mohawk", world.drawn_trace("0 0 - 1000 -"), options=LONG, failures=failures)
    assert run.closed(1).outstanding == run.closed(2).outstanding == (0,)
    assert run.closed(1).aggregated == 0
    assert run.orders("upload", 3) == [(0, 1)]
    assert (3, "r/00000/00000/train", "aggregated", "") in outcomes(run)


@pytest.mark.parametrize("status", MAY_TRY_AGAIN)
def test_a_device_whose_upload_failed_delivers_its_model_before_it_trains_again(world, status):
    failures = {("upload", 0, 1): status, ("upload", 0, 2): status}
    run = world.run("mohawk", world.drawn_trace("0 0 0 0 0", "0 0 0 0 0"), options=LONG, failures=failures)
    ours = [outcome for outcome in outcomes(run) if outcome[1].split("/")[2] == "00000"]
    assert ours == [
        (3, "r/00000/00000/train", "aggregated", ""),
        (4, "r/00003/00000/train", "aggregated", ""),
    ]
    assert [run.orders("train", step) for step in range(5)] == [
        [(0, 0), (1, 0)], [(1, 0)], [(1, 0)], [(0, 0), (1, 0)], [],
    ]  # fmt: skip
    assert discards(run) == []


def test_a_training_whose_upload_keeps_failing_until_a_cloud_aggregation_failed(world):
    failures = {("upload", 0, step): AnswerStatus.FAILED for step in (1, 2)}
    run = world.run(
        "mohawk", world.drawn_trace("0 0 0 0 0"), options=SystemOptions(k1=1, k2=2), failures=failures
    )
    assert outcomes(run)[0] == (2, "r/00000/00000/train", "failed", "upload failed")
    assert (run.orders("train", 1), run.orders("train", 2)) == ([], [(0, 0)])


#: A system may have models wait; who trains meanwhile has room for the newest only.
PATIENT = dataclasses.replace(
    make_system("mohawk", LONG), eligible=lambda trained, step, sync: step >= trained + 2
)


def test_a_device_trained_again_before_its_old_model_left_wastes_the_old_one(world):
    run = world.run(PATIENT, world.drawn_trace("0 0 - 0"))
    assert outcomes(run) == [
        (1, "r/00000/00000/train", "wasted", "retrained"),
        (3, "r/00001/00000/train", "aggregated", ""),
    ]
    assert discards(run) == []  # the new model has replaced it


@pytest.mark.parametrize("status", MAY_TRY_AGAIN)
def test_hierfavg_gives_a_failed_upload_no_second_chance(world, status):
    run = world.run("hierfavg", world.drawn_trace("0 0 - 0"), failures={("upload", 0, 1): status})
    assert outcomes(run)[0] == (1, "r/00000/00000/train", "failed", f"upload {status.value}")
    assert run.orders("upload", 3) == []


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (None, "done without a model"),
        (TrainReply(1, 1, 0.0, 0.0, ""), "done without a model"),
        (UploadReply(np.zeros(3, np.float32), ""), "float32 of shape (3,), expected float32 of (2,)"),
        (UploadReply(np.zeros(2), ""), "float64 of shape (2,), expected float32 of (2,)"),
        (UploadReply(np.array([1, np.nan], np.float32), ""), "NaN or infinity in the model"),
        (UploadReply(np.array([1, np.inf], np.float32), ""), "NaN or infinity in the model"),
    ],
)
def test_a_training_whose_model_cannot_be_failed_and_is_never_aggregated(world, reply, why):
    answer = Answer("r/00001/00000/upload", 0, 1, AnswerStatus.DONE, reply=reply)
    run = world.run("mohawk", world.drawn_trace("0 0 -", "0 0 -"), failures={("upload", 0, 1): answer})
    assert (1, "r/00000/00000/train", "failed", f"upload garbage: {why}") in outcomes(run)
    (edge,) = run.of(EdgeAggregated)
    assert edge.devices == (1,)


def test_a_training_whose_upload_has_a_wrong_digest_failed_with_the_fleets_reason(world):
    failures = {("upload", 0, 1): AnswerStatus.GARBAGE, ("train", 0, 1): AnswerStatus.FAILED}
    run = world.run("mohawk", world.drawn_trace("0 0 0"), options=LONG, failures=failures)
    assert outcomes(run)[0] == (1, "r/00000/00000/train", "failed", "upload garbage: scripted")
    assert discards(run) == [(2, 0, "r/00000/00000/train")]
    assert run.orders("upload", 2) == []


def test_a_device_that_no_longer_has_its_model_refuses_and_is_not_asked_again(world):
    failures = {("upload", 0, 1): AnswerStatus.REFUSED, ("train", 0, 1): AnswerStatus.LOST}
    run = world.run("mohawk", world.drawn_trace("0 0 0"), options=LONG, failures=failures)
    assert outcomes(run)[0] == (1, "r/00000/00000/train", "failed", "refused: scripted")
    assert run.orders("upload", 2) == []


@pytest.mark.parametrize("status", [AnswerStatus.LOST, AnswerStatus.FAILED, AnswerStatus.TIMEOUT])
def test_a_training_that_does_not_end_failed_and_its_device_is_not_in_tr(world, status):
    run = world.run("mohawk", world.drawn_trace("0 0 -", "0 0 -"), failures={("train", 0, 0): status})
    assert run.closed(0).outstanding == (1,)
    assert outcomes(run)[0] == (0, "r/00000/00000/train", "failed", f"{status.value}: scripted")
    assert run.orders("upload", 1) == [(1, 0)]
    # A lost or late agent may finish after all: it is told that nobody wants the model.
    lingers = status in (AnswerStatus.LOST, AnswerStatus.TIMEOUT)
    assert discards(run) == ([(1, 0, "r/00000/00000/train")] if lingers else [])


def test_a_training_that_made_no_model_failed_when_an_access_point_asks_for_that(world):
    run = world.run("mohawk", world.drawn_trace("0 0 -"), failures={("train", 0, 0): AnswerStatus.REFUSED})
    assert run.closed(0).outstanding == (0,)
    assert outcomes(run)[0] == (1, "r/00000/00000/train", "failed", "refused: scripted")
    assert run.orders("upload", 1) == []
    assert discards(run) == []


def test_a_training_that_made_no_model_is_wasted_where_nobody_asks_for_that(world):
    """As any other: on virtual devices it is not known what it would have made."""
    run = world.run("hierfavg", world.drawn_trace("0 - 0"), failures={("train", 0, 0): AnswerStatus.REFUSED})
    assert outcomes(run)[0] == (1, "r/00000/00000/train", "wasted", "absent")


def test_an_upload_that_failed_before_its_device_went_away_is_why_the_training_failed(world):
    run = world.run("mohawk", world.drawn_trace("0 0 - -"), failures={("upload", 0, 1): AnswerStatus.TIMEOUT})
    assert outcomes(run)[0][2:] == ("failed", "upload timeout")


def test_a_refused_retraining_takes_the_place_of_the_older_model(world):
    run = world.run(PATIENT, world.drawn_trace("0 0 0 0"), failures={("train", 0, 1): AnswerStatus.REFUSED})
    assert outcomes(run)[:2] == [
        (1, "r/00000/00000/train", "wasted", "retrained"),
        (2, "r/00001/00000/train", "wasted", "retrained"),
    ]
    assert discards(run)[0] == (2, 0, "r/00000/00000/train")


@pytest.mark.parametrize("reply", [None, TrainReply(0, 1, 0.0, 0.0, "")])
def test_a_training_without_a_usable_report_is_garbage(world, reply):
    answer = Answer("r/00000/00000/train", 0, 0, AnswerStatus.DONE, reply=reply)
    run = world.run("hierfavg", world.drawn_trace("0 0"), failures={("train", 0, 0): answer})
    assert outcomes(run) == [
        (0, "r/00000/00000/train", "failed", "garbage: done without a report of at least one sample")
    ]


def test_a_lost_retraining_does_not_cost_the_older_model(world):
    run = world.run(PATIENT, world.drawn_trace("0 0 0"), failures={("train", 0, 1): AnswerStatus.FAILED})
    assert outcomes(run) == [
        (1, "r/00001/00000/train", "failed", "failed: scripted"),
        (2, "r/00000/00000/train", "aggregated", ""),
    ]


def test_a_discard_that_did_not_arrive_is_given_again(world):
    failures = {
        ("discard", 0, 2): AnswerStatus.LOST,
        ("train", 0, 2): AnswerStatus.LOST,
        ("train", 0, 3): AnswerStatus.FAILED,
    }
    run = world.run("hierfavg", world.drawn_trace("0 - 0 0 0 0"), failures=failures)
    # Its lost training of t = 2 is the newest that it may hold when it is told the next time.
    assert discards(run) == [(2, 0, "r/00000/00000/train"), (3, 0, "r/00002/00000/train")]


def test_a_new_training_replaces_the_model_that_was_to_be_discarded(world):
    run = world.run(
        "hierfavg", world.drawn_trace("0 - 0 0"), failures={("discard", 0, 2): AnswerStatus.TIMEOUT}
    )
    assert discards(run) == [(2, 0, "r/00000/00000/train")]


def test_an_order_that_the_fleet_forgets_counts_as_lost(world):
    run = world.run("mohawk", world.drawn_trace("0 0"), failures={("train", 0, 0): None})
    assert outcomes(run) == [(0, "r/00000/00000/train", "failed", "lost: the fleet gave no answer")]
    (answer,) = [a for a in run.of(OrderAnswered) if a.order_id == "r/00000/00000/train"]
    assert (answer.status, answer.reason) == ("lost", "the fleet gave no answer")


def test_what_is_outstanding_when_the_run_ends_is_wasted(world):
    run = world.run("mohawk", world.drawn_trace("0 - -"), options=LONG)
    assert outcomes(run) == [(2, "r/00000/00000/train", "wasted", "end of run")]
    assert run.closed(2).outstanding == ()


@pytest.mark.parametrize("name", ["mohawk", "hierfavg"])
def test_whatever_fails_every_training_has_one_outcome_and_the_run_ends(world, name):
    """Every third order fails in some way, for 30 steps."""
    statuses = [s for s in AnswerStatus if s is not AnswerStatus.DONE]
    keys = [(kind, d, t) for kind in ("train", "upload", "discard") for d in range(12) for t in range(30)]
    failures = {key: statuses[index % 5] for index, key in enumerate(keys) if index % 3 == 0}
    run = world.run(name, world.random_trace(11, back=0.7), failures=failures)
    ordered = [o.order_id for o in run.of(OrderGiven) if o.kind == "train"]
    decided = [f.train_order_id for f in run.of(OutcomeDecided)]
    assert sorted(decided) == sorted(ordered)
    assert len(run.states) == 30
    aggregated = {f.train_order_id for f in run.of(OutcomeDecided) if f.outcome is Outcome.AGGREGATED}
    assert 10 < len(aggregated) < len(ordered) / 2
    assert aggregated == {order for edge in run.of(EdgeAggregated) for order in edge.train_order_ids}
