"""MIDDLE's round (Algorithm 1) followed by hand: same-step uploads, own models, synchronised devices."""

from __future__ import annotations

import math

import pytest

from roambench.contract.orders import AnswerStatus
from roambench.rounds.records import CloudAggregated, EdgeAggregated, OrderGiven, OutcomeDecided
from roambench.systems.catalogue import make_system
from roambench.systems.options import SystemOptions

U = math.sqrt(0.5)  # cos((1, 1), (2, 0))


@pytest.fixture
def run(world):
    """Device 0 moves from AP 0 to AP 1 at t = 1; device 1 stays at AP 1 and is away at t = 2."""
    trace = world.drawn_trace("0 1000 1000 0", "1000 1000 - 0")
    increments = {(0, 0): world.vector(0, 1), (1, 0): world.vector(1, 0), (0, 2): world.vector(0, 4)}
    return world.run(
        "middle",
        trace,
        samples=(1, 3),
        initial=world.vector(1, 0),
        increments=increments,
        options=SystemOptions(k1=1, k2=2, per_ap=5),
    )


def test_a_device_that_moved_mixes_its_own_model_in_by_similarity(run):
    # t = 0: AP 0 has (1, 1), AP 1 (2, 0). t = 1: device 0 starts from ((2, 0) + U (1, 1)) / (1 + U).
    mixed = ((2 + U) / (1 + U), U / (1 + U))
    state = run.states[1]
    # AP 1 weighs by samples 1 : 3; device 1 stayed and trained nothing new: (2, 0).
    ap_1 = [0.25 * mixed[0] + 0.75 * 2, 0.25 * mixed[1]]
    # The cloud counts samples since the last sync: AP 0 has 1, AP 1 has 3 + 1 + 3.
    expected = [(1 * 1 + 7 * ap_1[0]) / 8, (1 * 1 + 7 * ap_1[1]) / 8]
    assert state.global_model.tolist() == pytest.approx(expected, rel=1e-6)
    (cloud,) = run.of(CloudAggregated, 1)
    assert cloud.weights == pytest.approx((1 / 8, 7 / 8))


def test_devices_are_synchronised_where_they_are_when_the_cloud_aggregates(run):
    assert run.orders("sync", 1) == [(0, 1), (1, 1)]
    assert run.states[1].unsynced == frozenset()
    # Before the first cloud aggregation they fetch the first global model.
    assert run.orders("sync", 0) == [(0, 0), (1, 1)]
    assert run.orders("sync", 2) == []


def test_training_goes_on_from_the_global_model_after_a_synchronisation(run):
    # t = 2: device 0 stayed at AP 1, whose model is the global one now; it adds (0, 4).
    before = run.states[1].global_model
    state = run.states[2]
    assert state.models[state.ap_digests[1]].tolist() == pytest.approx([before[0], before[1] + 4.0])
    assert state.models[state.ap_digests[0]].tolist() == before.tolist()


def test_a_device_that_was_away_counts_as_moved_and_mixes_the_last_global_model(run):
    # t = 3: both are at AP 0, which still has the global model g of t = 1. Device 1 was away: own model g,
    # U = 1, so (g + g) / 2 = g. Device 0 moved with w = g + (0, 4).
    g = [float(value) for value in run.states[1].global_model]
    w = [g[0], g[1] + 4]
    similarity = (g[0] * w[0] + g[1] * w[1]) / (math.hypot(*g) * math.hypot(*w))
    mixed = [(a + similarity * b) / (1 + similarity) for a, b in zip(g, w, strict=True)]
    ap_0 = [(1 * m + 3 * a) / 4 for m, a in zip(mixed, g, strict=True)]
    (record,) = run.of(EdgeAggregated, 3)
    assert (record.ap, record.devices) == (0, (0, 1))
    # The cloud follows in the same step: AP 1 (w, one sample at t = 2) and AP 0 (four samples).
    expected = [(1 * a + 4 * b) / 5 for a, b in zip(w, ap_0, strict=True)]
    assert run.result.model.tolist() == pytest.approx(expected, rel=1e-5)


def test_every_model_is_aggregated_in_its_own_step_and_none_is_wasted(run):
    assert [run.closed(step).aggregated for step in range(4)] == [2, 2, 1, 2]
    assert {record.reason for record in run.of(OutcomeDecided)} == {""}


def test_a_device_that_is_away_at_a_cloud_aggregation_is_synchronised_when_it_comes(world):
    run = world.run(
        "middle", world.drawn_trace("0 0 0", "0 - 0"), options=SystemOptions(k1=1, k2=2, per_ap=5)
    )
    assert run.orders("sync", 1) == [(0, 0)]
    assert run.states[1].unsynced == frozenset({1})
    assert run.orders("sync", 2) == [(1, 0)]
    (order,) = [record for record in run.of(OrderGiven, 2) if record.kind == "sync"]
    assert order.start_digest == run.states[1].global_digest


def test_a_synchronisation_that_fails_is_tried_again_at_the_next_step(world):
    run = world.run(
        "middle",
        world.drawn_trace("0 0 0"),
        failures={("sync", 0, 0): AnswerStatus.TIMEOUT},
        options=SystemOptions(k1=1, k2=9),
    )
    assert [run.orders("sync", step) for step in range(3)] == [[(0, 0)], [(0, 0)], []]


def test_a_model_whose_upload_failed_stays_the_devices_own(world):
    trace = world.drawn_trace("0 1000")
    run = world.run(
        "greedy",
        trace,
        initial=world.vector(1, 0),
        increments={(0, 0): world.vector(0, 5)},
        failures={("upload", 0, 0): AnswerStatus.TIMEOUT},
        options=SystemOptions(k1=1, k2=9),
    )
    # Wasted, but still what greedy goes on from at its new AP.
    state = run.states[1]
    assert state.models[state.ap_digests[1]].tolist() == [1, 5]
    assert [record.reason for record in run.of(OutcomeDecided, 0)] == ["upload timeout"]


@pytest.mark.parametrize(
    ("name", "start"),
    [("oort", (2, 0)), ("fedmes", (1.5, 0.5)), ("greedy", (1, 1)), ("ensemble", (1.5, 0.5))],
)
def test_each_baseline_starts_a_moved_device_in_its_own_way(world, name, start):
    trace = world.drawn_trace("0 1000", "1000 -")
    run = world.run(
        name,
        trace,
        initial=world.vector(1, 0),
        increments={(0, 0): world.vector(0, 1), (1, 0): world.vector(1, 0)},
        options=SystemOptions(k1=1, k2=9),
    )
    state = run.states[1]
    assert state.models[state.ap_digests[1]].tolist() == pytest.approx(list(start))


def test_the_rest_of_the_family_is_middle():
    middle = make_system("middle", SystemOptions())
    for name in ("middle_plus", "oort", "fedmes", "greedy", "ensemble", "macfl_same_step"):
        system = make_system(name, SystemOptions())
        for choice in ("upload", "eligible", "cloud_participants", "cloud_weights", "sync", "k2"):
            assert getattr(system, choice) == getattr(middle, choice), (name, choice)
    plus = make_system("middle_plus", SystemOptions(lambda1=0.5, lambda2=0.25))
    assert plus.training.objective == "middle_plus:lambda1=0.5,lambda2=0.25"
    assert (plus.start_model.stayed, plus.start_model.moved) == ("own_head", "base_mix")
