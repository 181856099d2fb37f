"""Uploads taken as they arrive: every order of arrival gives the same bits, and no model is kept."""

from __future__ import annotations

import gc
import itertools
import math
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from roambench.contract.orders import Answer, AnswerStatus, TrainReply, UploadOrder, UploadReply, Vector
from roambench.rounds.intake import Intake
from roambench.rounds.settle import Uploads, answers_by_order
from roambench.rounds.state import RoundState, initial_state
from roambench.systems.catalogue import make_system
from roambench.systems.options import SystemOptions
from roambench.systems.system import System, Training

SAMPLES = {3: 100, 5: 300, 8: 200, 9: 400, 4: 50}
APS = {3: 0, 5: 0, 8: 0, 9: 0, 4: 1}
DISTANCES_M = dict.fromkeys(APS, 50.0)


def vector(*values: float) -> Vector:
    return np.array(values, dtype=np.float32)


def system(name: str) -> System:
    return make_system(name, SystemOptions(sigma=0.8))


def state(size: int = 2) -> RoundState:
    """Two APs with the model (1, 0, 0, ...), and one finished training of every device."""
    model = np.zeros(size, np.float32)
    model[0] = 1.0
    trainings = {
        device: Training(device, 0, APS[device], f"{device}/train", samples)
        for device, samples in SAMPLES.items()
    }
    return replace(initial_state(model, "global", 2), outstanding=trainings)


def orders(*devices: int) -> list[UploadOrder]:
    return [UploadOrder(f"{device}/up", device, 1, APS[device], f"{device}/train") for device in devices]


def sent(device: int, model: Vector) -> Answer:
    return Answer(f"{device}/up", device, 1, AnswerStatus.DONE, reply=UploadReply(model, "", 8, 0.5))


def failed(device: int, status: AnswerStatus) -> Answer:
    return Answer(f"{device}/up", device, 1, status, "scripted")


def taken(
    name: str, given: Sequence[UploadOrder], answers: Sequence[Answer], before: RoundState | None = None
) -> Uploads:
    intake = Intake(system(name), given, before or state(), DISTANCES_M)
    kept = [intake.take(answer) for answer in answers]
    return intake.settled(answers_by_order(given, kept))


def bits(uploads: Uploads) -> Mapping[int, tuple[object, ...]]:
    return {
        ap: (edge.members, edge.model.tobytes(), edge.weights.tobytes()) for ap, edge in uploads.edges.items()
    }


def test_models_are_weighed_by_data_size_ap_by_ap():
    answers = [sent(3, vector(4, 0)), sent(5, vector(0, 8)), sent(4, vector(7, 7))]
    uploads = taken("hierfavg", orders(3, 4, 5), answers)
    assert uploads.edges[0].model.tolist() == [1.0, 6.0]  # (100 x 4) / 400 and (300 x 8) / 400
    assert uploads.edges[0].weights.tolist() == [0.25, 0.75]
    assert uploads.edges[0].members == (3, 5)
    assert uploads.edges[1].model.tolist() == [7.0, 7.0]
    assert [arrival.training.device for arrival in uploads.arrived[0]] == [3, 5]
    assert (uploads.given_up, uploads.failed) == ((), {})


def test_models_are_weighed_by_their_cosine_with_the_model_of_their_ap():
    # cos = 1 and 0 with (1, 0): weights e^-0.8 and 1 over their sum.
    uploads = taken("mohawk", orders(3, 5), [sent(5, vector(0, 2)), sent(3, vector(3, 0))])
    like = math.exp(-0.8) / (1 + math.exp(-0.8))
    assert uploads.edges[0].weights.tolist() == pytest.approx([like, 1 - like], abs=1e-12)
    assert uploads.edges[0].model.tolist() == pytest.approx([3 * like, 2 * (1 - like)], rel=1e-6)


@pytest.mark.parametrize("name", ["hierfavg", "mohawk", "middle"])
def test_no_order_of_arrival_changes_a_bit(name: str):
    draws = np.random.default_rng(6)
    models = {device: draws.standard_normal(3000).astype(np.float32) for device in (3, 5, 9, 4)}
    answers = [*(sent(*pair) for pair in models.items()), failed(8, AnswerStatus.TIMEOUT)]
    before = state(3000)
    told = [
        taken(name, orders(3, 4, 5, 8, 9), arrival, before) for arrival in itertools.permutations(answers)
    ]
    assert len(told) == 120
    assert all(bits(uploads) == bits(told[0]) for uploads in told)
    assert all(uploads.arrived == told[0].arrived for uploads in told)
    assert told[0].edges[0].members == (3, 5, 9)
    # A sum in another order would show: these models do not add up to the same bits then.
    backwards = models[9] * np.float32(4) + models[5] * np.float32(3) + models[3]
    forwards = models[3] + models[5] * np.float32(3) + models[9] * np.float32(4)
    assert backwards.tobytes() != forwards.tobytes()


def test_what_failed_is_passed_over_and_named():
    answers = [
        failed(3, AnswerStatus.LOST),
        failed(5, AnswerStatus.REFUSED),
        sent(8, vector(math.nan, 0)),
        sent(9, vector(2, 3)),
        Answer("4/up", 4, 1, AnswerStatus.DONE, reply=TrainReply(1, 1, 0.0, 0.0, "")),
    ]
    uploads = taken("hierfavg", orders(3, 4, 5, 8, 9), answers)
    assert uploads.edges[0].members == (9,)
    assert uploads.edges[0].model.tolist() == [2.0, 3.0]
    assert 1 not in uploads.edges
    assert uploads.failed == {3: AnswerStatus.LOST}
    assert [(one.training.device, one.reason) for one in uploads.given_up] == [
        (5, "refused: scripted"),
        (8, "upload garbage: NaN or infinity in the model"),
        (4, "upload garbage: done without a model"),
    ]


def test_an_upload_that_nobody_answers_counts_as_lost():
    uploads = taken("mohawk", orders(3, 5), [sent(5, vector(2, 2))])
    assert uploads.failed == {3: AnswerStatus.LOST}
    assert uploads.edges[0].members == (5,)


def test_answers_that_a_fleet_did_not_hand_on_are_taken_at_the_end():
    given = orders(3, 5)
    intake = Intake(system("hierfavg"), given, state(), DISTANCES_M)
    uploads = intake.settled(answers_by_order(given, [sent(5, vector(8, 0)), sent(3, vector(0, 4))]))
    assert uploads.edges[0].model.tolist() == [6.0, 1.0]


def test_only_the_first_answer_to_an_upload_counts():
    answers = [sent(3, vector(1, 1)), sent(3, vector(9, 9)), failed(3, AnswerStatus.LOST)]
    uploads = taken("hierfavg", orders(3), answers)
    assert uploads.edges[0].model.tolist() == [1.0, 1.0]
    assert uploads.failed == {}
    while_it_waits = [sent(5, vector(4, 4)), sent(5, vector(9, 9)), sent(3, vector(0, 0))]
    assert taken("hierfavg", orders(3, 5), while_it_waits).edges[0].model.tolist() == [3.0, 3.0]


def test_an_answer_is_kept_without_its_model_and_others_as_they_are():
    intake = Intake(system("hierfavg"), orders(3, 5), state(), DISTANCES_M)
    kept = intake.take(sent(5, vector(8, 0)))
    assert isinstance(kept.reply, UploadReply)
    assert (kept.reply.model.size, kept.reply.uploaded_bytes, kept.reply.upload_s) == (0, 8, 0.5)
    other = Answer("7/train", 7, 1, AnswerStatus.DONE, reply=TrainReply(1, 1, 0.0, 0.0, ""))
    assert intake.take(other) is other


def test_the_utility_of_a_training_is_rated_with_its_own_model():
    # U(w_c, w_i - w_c) with w_c = (1, 0): (3, 0) - w_c points like w_c, (1, 5) - w_c at right angles to it.
    uploads = taken("middle", orders(3, 5), [sent(5, vector(1, 5)), sent(3, vector(3, 0))])
    assert [arrival.utility for arrival in uploads.arrived[0]] == [1.0, 0.0]
    without = taken("hierfavg", orders(3), [sent(3, vector(3, 0))])
    assert without.arrived[0][0].utility is None


def alive(models: Sequence[weakref.ref[Vector]]) -> list[bool]:
    gc.collect()
    return [model() is not None for model in models]


def test_a_folded_model_is_gone_and_an_early_one_waits_for_those_before_it():
    intake = Intake(system("hierfavg"), orders(3, 5, 8, 9), state(), DISTANCES_M)
    models = []
    for device in (8, 3, 9):
        model = vector(device, device)
        models.append(weakref.ref(model))
        intake.take(sent(device, model))
        del model
    assert alive(models) == [True, False, True]  # device 5 is not answered yet
    intake.take(failed(5, AnswerStatus.TIMEOUT))
    assert alive(models) == [False, False, False]


def test_models_weighed_together_are_gone_when_their_ap_is_complete():
    intake = Intake(system("mohawk"), orders(3, 5, 4), state(), DISTANCES_M)
    models = []
    for device in (3, 5):
        assert alive(models) == [True] * len(models)
        model = vector(device, device)
        models.append(weakref.ref(model))
        intake.take(sent(device, model))
        del model
    assert alive(models) == [False, False]  # the other AP still waits for device 4
