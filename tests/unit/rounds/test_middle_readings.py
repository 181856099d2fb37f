"""The unclear readings of MIDDLE's family, each followed by hand on a trace of a few steps."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from roambench.contract.orders import SyncOrder, TrainOrder
from roambench.rounds.records import CloudAggregated, OrderAnswered, OrderGiven
from roambench.systems.catalogue import make_system
from roambench.systems.options import SystemOptions


def edge(run, step, ap):
    """An AP's model after a step."""
    state = run.states[step]
    return state.models[state.ap_digests[ap]].tolist()


@pytest.fixture
def moved(world):
    """Device 0 moves from AP 0 to AP 1 at t = 1, device 1 stays at AP 1 and does not come back.

    t = 0: AP 0 has (1, 1), AP 1 has (2, 0).
    """

    def run(system, **readings):
        return world.run(
            system,
            world.drawn_trace("0 1000", "1000 -"),
            initial=world.vector(1, 0),
            increments={(0, 0): world.vector(0, 1), (1, 0): world.vector(1, 0)},
            options=SystemOptions(k1=1, k2=9, **readings),
        )

    return run


@pytest.mark.parametrize("system", ["fedmes", "ensemble"])
def test_the_previous_edges_present_model_can_be_mixed_in_instead_of_the_devices_own(world, system):
    # Devices 0 and 1 train at AP 0: (1, 1) and (5, 1), the edge has (3, 1); AP 1 has (1, 0) still.
    run = world.run(
        system,
        world.drawn_trace("0 1000", "0 -"),
        initial=world.vector(1, 0),
        increments={(0, 0): world.vector(0, 1), (1, 0): world.vector(4, 1)},
        options=SystemOptions(k1=1, k2=9, previous_edge="edge_pair"),
    )
    (order,) = [order for order in run.fleet.seen if isinstance(order, TrainOrder) and order.step == 1]
    before = run.states[0]
    assert (order.start_digest, order.previous_digest) == (before.ap_digests[1], before.ap_digests[0])
    assert edge(run, 1, 1) == [2.0, 0.5]  # 1/2 ((1, 0) + (3, 1)), not 1/2 ((1, 0) + (1, 1))
    own = world.run(
        system,
        world.drawn_trace("0 1000", "0 -"),
        initial=world.vector(1, 0),
        increments={(0, 0): world.vector(0, 1), (1, 0): world.vector(4, 1)},
        options=SystemOptions(k1=1, k2=9),
    )
    assert edge(own, 1, 1) == [1.0, 0.5]


def test_a_second_model_is_not_ordered_where_there_is_none_or_it_is_the_same(world):
    run = world.run(
        "fedmes",
        # Device 0 stays, 1 was away, 2 moves between APs that share the first global model.
        world.drawn_trace("0 0", "- 1000", "2000 3000", aps_x_m=(0.0, 1000.0, 2000.0, 3000.0)),
        options=SystemOptions(k1=1, k2=9, previous_edge="edge_pair"),
    )
    orders = [order for order in run.fleet.seen if isinstance(order, TrainOrder) and order.step == 1]
    assert [(order.device, order.training.start_rule, order.previous_digest) for order in orders] == [
        (0, "ap", ""),
        (1, "edge_pair", ""),
        (2, "edge_pair", ""),
    ]


@pytest.mark.parametrize(
    ("fresh_uses_ap", "start"),
    [(False, ((3 + 1 * 0.6) / 1.6, 4 / 1.6)), (True, (3.0, 4.0))],
)
def test_a_moved_device_that_never_trained_mixes_the_global_model_or_takes_the_aps(
    world, fresh_uses_ap, start
):
    # Device 0 is alone at AP 1 and trains (2, 4) there; device 1 comes at t = 1, when 0 is gone, and holds
    # the first global model (1, 0): its cosine with AP 1's (3, 4) is 3/5.
    run = world.run(
        "middle",
        world.drawn_trace("1000 -", "- 1000"),
        initial=world.vector(1, 0),
        increments={(0, 0): world.vector(2, 4)},
        options=SystemOptions(k1=1, k2=9, per_ap=1, fresh_uses_ap=fresh_uses_ap),
    )
    assert edge(run, 0, 1) == [3, 4]
    assert edge(run, 1, 1) == pytest.approx(list(start), rel=1e-6)


def test_a_moved_device_that_trained_mixes_its_own_model_whatever_fresh_ones_do(moved):
    u = math.sqrt(0.5)  # cos((1, 1), (2, 0))
    expected = [(2 + u) / (1 + u), u / (1 + u)]
    for fresh_uses_ap in (False, True):
        assert edge(moved("middle", fresh_uses_ap=fresh_uses_ap), 1, 1) == pytest.approx(expected, rel=1e-6)
    assert edge(moved("greedy", fresh_uses_ap=True), 1, 1) == [1, 1]


def test_fresh_devices_of_every_system_take_the_aps_model_or_its_base():
    options = SystemOptions(fresh_uses_ap=True, stayed_model="own")
    rules = {
        name: make_system(name, options).start_model.moved
        for name in ("middle", "middle_plus", "greedy", "fedmes", "ensemble", "oort")
    }
    assert rules == {
        "middle": "similarity_mix|ap",
        "middle_plus": "base_mix|own_head",
        "greedy": "own|ap",
        "fedmes": "average|ap",
        "ensemble": "average|ap",
        "oort": "ap",
    }


def test_a_device_that_stayed_can_go_on_with_its_own_model_as_algorithm_1_prints(world):
    # Devices 0 and 1 stay at AP 0, which has their mean (2, 0) after t = 0; only device 0 is back.
    def run(stayed):
        return world.run(
            "middle",
            world.drawn_trace("0 0", "0 -"),
            initial=world.vector(1, 0),
            increments={(1, 0): world.vector(2, 0)},
            options=SystemOptions(k1=1, k2=9, stayed_model=stayed),
        )

    assert edge(run("ap"), 1, 0) == [2, 0]
    assert edge(run("own"), 1, 0) == [1, 0]


def test_a_free_synchronisation_is_ordered_so_and_never_paced(world):
    def syncs(reading):
        run = world.run(
            "middle",
            world.drawn_trace("0 0"),
            pace_links=True,
            options=SystemOptions(k1=1, k2=1, sync_download=reading),
        )
        return [(o.free, o.download_mbit_s) for o in run.fleet.seen if isinstance(o, SyncOrder)]

    assert syncs("free") == [(True, 0.0)] * 3
    assert syncs("charged") == [(False, 200.0)] * 3


def test_equation_7_counts_the_step_of_the_last_synchronisation_once_more_if_printed(world):
    # k2 = 2. Device 0 (1 sample) trains at AP 0 in every step, device 1 (3 samples) at AP 1 at t = 1 only.
    def run(reading):
        return world.run(
            "middle",
            world.drawn_trace("0 0 0 0", "- 1000 - -"),
            samples=(1, 3),
            initial=world.vector(1, 0),
            increments={(1, 1): world.vector(0, 4), (0, 2): world.vector(8, 0)},
            options=SystemOptions(k1=1, k2=2, cloud_counts=reading),
        )

    printed, usual = run("printed"), run("since_sync")
    # First sync, t = 1: 1 + 1 samples at AP 0, 3 at AP 1: 2/5 (1, 0) + 3/5 (1, 4) = (1, 2.4).
    for told in (printed, usual):
        (first, second) = told.of(CloudAggregated)
        assert (first.aps, first.weights) == ((0, 1), pytest.approx((0.4, 0.6)))
        assert told.states[1].global_model.tolist() == pytest.approx([1, 2.4])
    # Second sync, t = 3: AP 0 has (9, 2.4) of 2 samples since then, and 1 at t = 1; AP 1 nothing, and 3.
    assert (second.aps, second.weights) == ((0,), (1.0,))
    assert usual.result.model.tolist() == pytest.approx([9, 2.4])
    second = printed.of(CloudAggregated)[1]
    assert (second.aps, second.weights) == ((0, 1), pytest.approx((0.5, 0.5)))
    assert printed.result.model.tolist() == pytest.approx([5, 2.4])


def test_sgd_steps_instead_of_epochs_reach_every_train_order(world):
    run = world.run("mohawk", world.drawn_trace("0 0"), options=SystemOptions(k1=4, k2=9, local_steps=10))
    orders = [order for order in run.fleet.seen if isinstance(order, TrainOrder)]
    assert [(order.training.epochs, order.training.steps) for order in orders] == [(4, 10)]


def test_the_family_can_follow_the_edges_that_the_trace_recorded(world):
    trace = dataclasses.replace(world.drawn_trace("0 1000", "0 0"), ap=np.array([1, 0, 0, 1], np.int32))
    recorded = world.run("middle", trace, options=SystemOptions(k1=1, k2=9, association="trace"))
    assert [recorded.orders("train", step) for step in (0, 1)] == [[(0, 1), (1, 0)], [(0, 0), (1, 1)]]
    nearest = world.run("middle", trace, options=SystemOptions(k1=1, k2=9))
    assert [nearest.orders("train", step) for step in (0, 1)] == [[(0, 0), (1, 0)], [(0, 1), (1, 0)]]
    assert {record.kind for record in recorded.of(OrderGiven)} >= {"train", "upload"}
    assert {answer.status for answer in recorded.of(OrderAnswered)} == {"done"}
