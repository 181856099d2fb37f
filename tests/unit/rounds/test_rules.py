"""What the rules of a system see of a step, and what they keep from one aggregation to the next."""

from dataclasses import replace

import numpy as np
import pytest

from roambench.contract.errors import PluginError
from roambench.rounds.checkpoint import state_from_json, state_to_json
from roambench.systems.catalogue import make_system
from roambench.systems.options import SystemOptions
from roambench.systems.system import Selected, Selection
from roambench.vectors import weighted_mean


def mohawk(edge=None, cloud=None, k2=2):
    system = make_system("mohawk", SystemOptions(k2=k2))
    return replace(
        system, edge_weights=edge or system.edge_weights, cloud_weights=cloud or system.cloud_weights
    )


def counting(given):
    """A rule that keeps how often it was asked, and moves the mean by that."""
    count = given.memory.get("count", np.zeros(1))
    weights = np.full(len(given.models), 1.0 / len(given.models))
    model = weighted_mean(given.models, weights) + count.astype(np.float32)
    return model, weights, {"count": count + 1.0, "last": given.reference}


def test_an_edge_rule_sees_steps_devices_samples_and_losses(world):
    seen = []

    def rule(edge):
        seen.append(edge)
        weights = np.full(len(edge.models), 1.0 / len(edge.models))
        return weighted_mean(edge.models, weights), weights

    world.run(mohawk(rule, k2=9), world.drawn_trace("0 - 1000 -", "- 0 1000 -"), samples=(3, 5))
    (edge,) = seen
    assert (edge.step, edge.ap) == (2, 1)
    assert [training.device for training in edge.trainings] == [0, 1]
    assert [edge.step - training.step for training in edge.trainings] == [2, 1]
    assert [training.ap for training in edge.trainings] == [0, 0]
    assert [training.samples for training in edge.trainings] == list(edge.samples) == [3, 5]
    assert [training.mean_loss for training in edge.trainings] == [0.5, 0.5]


def test_a_cloud_rule_sees_counts_losses_and_steps_of_what_aps_aggregated(world):
    seen = []

    def rule(cloud):
        seen.append(cloud)
        weights = np.full(len(cloud.models), 1.0 / len(cloud.models))
        return weighted_mean(cloud.models, weights), weights

    world.run(mohawk(cloud=rule, k2=3), world.drawn_trace("0 0 0 0", "0 0 1000 -"), samples=(3, 5))
    (cloud,) = seen
    assert (cloud.step, cloud.last_sync_step, list(cloud.aps)) == (3, -1, [0, 1])
    # AP 0: both at t = 1, device 0 at t = 2 and t = 3; AP 1: device 1 at t = 2.
    assert [(work.models, work.samples, work.last_step) for work in cloud.work] == [(4, 14, 3), (1, 5, 2)]
    assert [work.mean_loss for work in cloud.work] == [0.5, 0.5]
    assert list(cloud.aggregated_samples) == [14, 5]


def test_rules_see_how_far_devices_are_from_their_access_points(world):
    """APs at 0 and 1000 m: both devices train at the first one and upload to the other."""
    offered, edges, clouds = [], [], []

    def choose(candidates):
        offered.append(candidates)
        return candidates.devices

    def noting(seen):
        def rule(given):
            seen.append(given)
            weights = np.full(len(given.models), 1.0 / len(given.models))
            return weighted_mean(given.models, weights), weights

        return rule

    system = replace(mohawk(noting(edges), noting(clouds)), selection=Selection(choose))
    run = world.run(system, world.drawn_trace("20 - 900 - 300", "- 30 700 - -"))
    assert [(one.step, one.devices, one.distances_m) for one in offered] == [
        (0, (0,), (20.0,)), (1, (1,), (30.0,)), (2, (0, 1), (100.0, 300.0)), (3, (), ()),
    ]  # fmt: skip
    now_and_then = [(edge.step, edge.distances_m, [t.distance_m for t in edge.trainings]) for edge in edges]
    assert now_and_then == [(2, [100.0, 300.0], [20.0, 30.0]), (4, [300.0], [100.0])]
    assert [[t.distance_m for t in cloud.work[0].trainings] for cloud in clouds] == [[20.0, 30.0], [100.0]]
    held = run.states[2].outstanding
    assert [training.distance_m for training in held.values()] == [100.0, 300.0]
    assert state_from_json(state_to_json(run.states[2]), run.states[2].models).outstanding == held


def test_what_a_selection_keeps_comes_back_and_outlives_the_controller(world):
    """Devices take turns, by a count that the selection keeps."""

    def in_turn(offered):
        turn = offered.memory.get("turn", np.zeros(1))
        return Selected(offered.devices[int(turn[0]) % len(offered.devices) :][:1], {"turn": turn + 1.0})

    system = replace(mohawk(), selection=Selection(in_turn))
    trace = world.drawn_trace("0 0 0 0 0 0 0 0", "0 0 1000 1000 0 0 1000 1000")
    whole = world.run(system, trace)
    assert [whole.orders("train", step)[0][0] for step in range(7)] == [0, 1, 0, 1, 0, 1, 0]
    state = state_from_json(state_to_json(whole.states[2]), whole.states[2].models)
    disks = world.ScriptedFleet((1, 1), {}, kept=whole.kept_then[2])
    rest = world.run(system, trace, fleet=disks, state=state)
    assert rest.result.digest == whole.result.digest
    assert [rest.orders("train", step)[0][0] for step in range(3, 7)] == [1, 0, 1, 0]


def test_a_selection_that_keeps_what_is_no_vector_is_an_error(world):
    selection = Selection(lambda offered: Selected(offered.devices, {"turn": 1}))
    with pytest.raises(PluginError, match=r"choose at step 0: memory\['turn'\]: expected a flat float32"):
        world.run(replace(mohawk(), selection=selection), world.drawn_trace("0 0", "0 0"))


@pytest.mark.parametrize("where", ["edge", "cloud"])
def test_what_a_rule_keeps_comes_back_and_outlives_the_controller(world, where):
    system = mohawk(**{where: counting})
    trace = world.drawn_trace("0 0 0 0 0 0 0 0", "0 0 1000 1000 0 0 1000 1000")
    whole = world.run(system, trace)
    state = state_from_json(state_to_json(whole.states[3]), whole.states[3].models)
    assert state.memories.keys() == ({"ap 0", "ap 1"} if where == "edge" else {"cloud"})
    disks = world.ScriptedFleet((1, 1), {}, kept=whole.kept_then[3])
    rest = world.run(system, trace, fleet=disks, state=state)
    assert rest.result.digest == whole.result.digest
    plain = world.run(mohawk(**{where: lambda given: counting(given)[:2]}), trace)
    assert plain.result.digest != whole.result.digest


@pytest.mark.parametrize(
    ("memory", "sentence"),
    [
        ([1.0], "expected a memory of named vectors, got list"),
        ({"m": 1.0}, r"memory\['m'\]: expected a flat float32 or float64 vector, got 1.0"),
        ({"m": np.zeros((2, 2))}, r"expected a flat float32 or float64 vector, got float64 of \(2, 2\)"),
        ({"m": np.array([np.nan])}, r"memory\['m'\]: expected finite numbers"),
    ],
)
def test_a_memory_that_cannot_be_kept_is_one_sentence(world, memory, sentence):
    system = mohawk(cloud=lambda cloud: (*counting(cloud)[:2], memory))
    with pytest.raises(PluginError, match=f"cloud_weights at step 2: .*{sentence}"):
        world.run(system, world.drawn_trace("0 0 0", "0 0 0"))
