"""MOHAWK's Algorithm 1 and HierFAVG, step by step, on three devices and two APs.

            t = 0     1     2     3     4     5        x in metres; the APs stand at 0 and 1000
device 0        0     0  1000     0     -     0
device 1        0     -  1000     -     -  1000
device 2     1000  1000     -     -     0     0
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from roambench.contract.phases import Outcome
from roambench.rounds.local_updates import local_updates
from roambench.rounds.records import CloudAggregated, EdgeAggregated, OrderGiven, OutcomeDecided
from roambench.systems.options import SystemOptions

ROWS = ("0 0 1000 0 - 0", "0 - 1000 - - 1000", "1000 1000 - - 0 0")


@pytest.fixture
def mohawk(world):
    """σ = ln 2 makes exp(-σ·cos) equal to 1/2, 1, 2 for cos = 1, 0, -1: the weights are fractions."""
    increments = {
        (0, 0): world.vector(1, 0),  # (2, 0)
        (1, 0): world.vector(-1, 6),  # (0, 6)
        (2, 0): world.vector(-1, 1),  # (0, 1)
        (0, 1): world.vector(-2, -4),  # (0, -4) from A0's (2, 0)
        (2, 1): world.vector(5, 5),  # never seen again in time
        (0, 2): world.vector(3, 2),  # (3, 0) from A1's (0, -2)
        (1, 2): world.vector(5, 5),  # never seen again in time
        (0, 3): world.vector(0, 0),  # the global model (1, -4/3) again
        (2, 4): world.vector(3, 13 / 3),  # (4, 3), at a right angle to (1, -4/3)
    }
    return world.run(
        "mohawk",
        world.drawn_trace(*ROWS),
        options=SystemOptions(k1=2, k2=3, sigma=math.log(2)),
        increments=increments,
    )


@pytest.fixture
def hierfavg(world):
    """Devices 0 and 1 belong to AP 0, device 2 to AP 1; sample counts 1, 3 and 2."""
    values = {
        (0, 0): 1,
        (1, 0): 2,
        (2, 0): 4,
        (0, 1): 1,
        (2, 1): 8,
        (0, 2): 5,
        (1, 2): 6,
        (0, 3): 1,
        (2, 4): 3,
    }
    return world.run(
        "hierfavg",
        world.drawn_trace(*ROWS),
        options=SystemOptions(k1=2, k2=3),
        samples=(1, 3, 2),
        initial=world.vector(8),
        increments={key: world.vector(value) for key, value in values.items()},
    )


class TestMohawk:
    def test_everyone_present_trains_at_the_nearest_ap_but_not_at_the_last_step(self, mohawk):
        assert mohawk.orders("train", 0) == [(0, 0), (1, 0), (2, 1)]
        assert mohawk.orders("train", 1) == [(0, 0), (2, 1)]
        assert mohawk.orders("train", 2) == [(0, 1), (1, 1)]
        assert mohawk.orders("train", 3) == [(0, 0)]
        assert mohawk.orders("train", 4) == [(2, 0)]
        assert mohawk.orders("train", 5) == []

    def test_a_training_starts_from_what_its_ap_has_then(self, mohawk):
        edges = {(edge.step, edge.ap): edge.digest for edge in mohawk.of(EdgeAggregated)}
        starts = {(o.device, o.step): o.start_digest for o in mohawk.of(OrderGiven) if o.kind == "train"}
        assert starts[0, 0] == starts[2, 0]  # the initial model
        assert starts[0, 1] == edges[1, 0]
        assert starts[2, 1] == edges[1, 1]
        assert starts[0, 2] == starts[1, 2] == edges[2, 1]
        assert starts[0, 3] == starts[2, 4] == mohawk.result.digest  # after the cloud aggregation

    def test_a_model_goes_to_the_ap_where_its_device_is_now(self, mohawk):
        assert mohawk.orders("upload", 1) == [(0, 0), (2, 1)]
        assert mohawk.orders("upload", 2) == [(0, 1), (1, 1)]  # both had downloaded at AP 0
        assert mohawk.orders("upload", 3) == [(0, 0)]
        assert mohawk.orders("upload", 4) == []
        assert mohawk.orders("upload", 5) == [(0, 0), (2, 0)]
        late = [o for o in mohawk.of(OrderGiven, 2) if o.kind == "upload" and o.device == 1]
        assert late[0].train_order_id == "r/00000/00001/train"  # two steps old, from before its absence

    def test_tr_and_the_set_of_participating_aps_after_every_step(self, mohawk):
        closed = [mohawk.closed(step) for step in range(6)]
        assert [c.outstanding for c in closed] == [(0, 1, 2), (0, 1, 2), (0, 1, 2), (0,), (0, 2), ()]
        assert [c.participating_aps for c in closed] == [(), (0, 1), (0, 1), (), (), (0,)]
        assert [c.aggregated for c in closed] == [0, 2, 2, 1, 0, 2]

    def test_edge_weights_are_those_of_equation_5(self, mohawk):
        edges = {(e.step, e.ap): e for e in mohawk.of(EdgeAggregated)}
        assert sorted(edges) == [(1, 0), (1, 1), (2, 1), (3, 0), (5, 0)]
        assert edges[1, 0].weights == (1.0,)
        # AP 1 had (0, 1): cos = -1 for (0, -4), +1 for (0, 6): 2 against 1/2.
        assert edges[2, 1].devices == (0, 1)
        assert edges[2, 1].weights == pytest.approx((4 / 5, 1 / 5), abs=1e-12)
        # AP 0 had (1, -4/3): cos = 1 for itself, 0 for (4, 3): 1/2 against 1.
        assert edges[5, 0].weights == pytest.approx((1 / 3, 2 / 3), abs=1e-7)
        models = mohawk.result.state.models
        np.testing.assert_allclose(models[edges[5, 0].digest], (3, 14 / 9), rtol=1e-6)

    def test_the_cloud_weighs_the_participating_aps_by_equation_6(self, mohawk):
        (cloud,) = mohawk.of(CloudAggregated)
        assert (cloud.step, cloud.aps) == (3, (0, 1))
        # The global model was (1, 0): cos = 1 for AP 0's (3, 0), 0 for AP 1's (0, -2).
        assert cloud.weights == pytest.approx((1 / 3, 2 / 3), abs=1e-12)
        np.testing.assert_allclose(mohawk.result.model, (1, -4 / 3), rtol=1e-7)
        assert cloud.digest == mohawk.result.digest

    def test_what_is_outstanding_at_the_cloud_aggregation_is_wasted(self, mohawk):
        wasted = [f for f in mohawk.of(OutcomeDecided) if f.outcome is Outcome.WASTED]
        assert [(f.step, f.train_order_id, f.reason) for f in wasted] == [
            (3, "r/00002/00001/train", "cloud aggregation"),
            (3, "r/00001/00002/train", "cloud aggregation"),
        ]

    def test_every_training_has_exactly_one_outcome(self, mohawk):
        decided = [f.train_order_id for f in mohawk.of(OutcomeDecided)]
        assert len(decided) == len(set(decided)) == 9
        assert sum(f.outcome is Outcome.AGGREGATED for f in mohawk.of(OutcomeDecided)) == 7

    def test_a_returning_device_is_told_to_discard_its_wasted_model(self, mohawk):
        told = [(o.step, o.device, o.train_order_id) for o in mohawk.of(OrderGiven) if o.kind == "discard"]
        assert told == [(4, 2, "r/00001/00002/train"), (5, 1, "r/00002/00001/train")]

    def test_wasted_devices_reappeared_and_the_last_models_never_reached_the_cloud(self, mohawk):
        updates = local_updates(mohawk.records)
        assert updates["r/00001/00002/train"].reappeared
        reached = {order for order, training in updates.items() if training.reached_cloud}
        assert reached == {f"r/{step:05d}/{device:05d}/train" for device, step in [
            (0, 0), (2, 0), (0, 1), (1, 0), (0, 2)
        ]}  # fmt: skip

    def test_after_a_cloud_aggregation_all_aps_share_one_vector(self, mohawk):
        assert len(mohawk.states[3].models) == 1
        assert set(mohawk.states[3].ap_digests) == {mohawk.result.digest}
        assert len(mohawk.states[2].models) == 3  # the global model and two APs'

    def test_only_versions_that_an_ap_has_stay_published(self, mohawk):
        assert mohawk.fleet.published.keys() == mohawk.result.state.models.keys()

    def test_every_device_is_told_its_background_phase_or_to_upload(self, mohawk):
        for step in range(6):
            idle = [o.device for o in mohawk.of(OrderGiven, step) if o.kind == "idle"]
            uploading = [device for device, _ in mohawk.orders("upload", step)]
            assert sorted(idle + uploading) == [0, 1, 2]
        absent = {(o.device, o.step) for o in mohawk.fleet.seen if getattr(o, "present", None) is False}
        assert absent == {(1, 1), (2, 2), (1, 3), (2, 3), (0, 4), (1, 4)}


class TestHierFavg:
    def test_every_device_keeps_to_its_ap_whatever_the_distance(self, hierfavg):
        assert hierfavg.orders("train", 0) == [(0, 0), (1, 0), (2, 1)]
        assert hierfavg.orders("train", 2) == [(0, 0), (1, 0)]  # both stand next to AP 1
        assert hierfavg.orders("train", 4) == [(2, 1)]  # stands next to AP 0
        assert hierfavg.orders("upload", 2) == [(0, 0)]
        assert hierfavg.orders("upload", 5) == [(2, 1)]

    def test_tr_and_the_aggregated_after_every_step(self, hierfavg):
        closed = [hierfavg.closed(step) for step in range(6)]
        assert [c.outstanding for c in closed] == [(0, 1, 2), (0, 2), (0, 1), (0,), (2,), ()]
        assert [c.aggregated for c in closed] == [0, 2, 1, 1, 0, 1]

    def test_who_is_away_at_the_next_step_is_wasted_at_once(self, hierfavg):
        wasted = [f for f in hierfavg.of(OutcomeDecided) if f.outcome is Outcome.WASTED]
        assert [(f.step, f.train_order_id, f.reason) for f in wasted] == [
            (1, "r/00000/00001/train", "absent"),
            (2, "r/00001/00002/train", "absent"),
            (3, "r/00002/00001/train", "absent"),
            (4, "r/00003/00000/train", "absent"),
        ]

    def test_the_cloud_weighs_all_aps_by_the_data_assigned_to_them(self, hierfavg):
        (cloud,) = hierfavg.of(CloudAggregated)
        assert (cloud.step, cloud.aps) == (3, (0, 1))
        assert cloud.weights == pytest.approx((4 / 6, 2 / 6), abs=1e-15)
        # AP 0: 8 +1, +1, +5 = 15; AP 1: 8 + 4 = 12.
        assert hierfavg.result.model.tolist() == [pytest.approx(14.0)]
        assert hierfavg.result.state.models[hierfavg.result.state.ap_digests[1]].tolist() == [17.0]

    def test_returning_devices_discard_before_they_train(self, hierfavg):
        told = [(o.step, o.device) for o in hierfavg.of(OrderGiven) if o.kind == "discard"]
        assert told == [(2, 1), (4, 2), (5, 0), (5, 1)]
        at_2 = [o.kind for o in hierfavg.of(OrderGiven, 2) if o.device == 1]
        assert at_2 == ["discard", "idle", "train"]
        assert hierfavg.fleet.kept == {}
