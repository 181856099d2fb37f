"""Waste: none when everybody is always there, less with MOHAWK than with HierFAVG otherwise."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from scipy import stats

from rehearsed import rehearse
from roambench.contract.phases import Outcome
from roambench.mobility.statistics import aggregated_at_next_step, aggregated_dynamically
from roambench.rounds.local_updates import local_updates, reached_cloud
from roambench.rounds.records import (
    CloudAggregated,
    EdgeAggregated,
    OrderGiven,
    OutcomeDecided,
    StepOpened,
)
from roambench.systems.catalogue import make_system
from roambench.systems.options import SystemOptions
from samples import sampled
from tally import tally

pytestmark = pytest.mark.lengthy


def rehearsed(name, trace, seed=0, **options):
    return asyncio.run(rehearse(make_system(name, SystemOptions(**options)), trace, seed))


def counted(name, trace, seed=0, **options):
    return tally(rehearsed(name, trace, seed, **options))


@pytest.mark.parametrize("k2", [1, 2, 3, 5, 7])
def test_when_everybody_is_always_present_both_systems_waste_the_same_nothing(world, k2):
    """Uploads of step t come before its cloud aggregation and its trainings after it, so whatever k2 is,
    a training of t is aggregated at t + 1; the last step does not train."""
    always = world.drawn_trace(*["0 400 1000 600 0 0 300 1000"] * 4)
    mohawk, hierfavg = counted("mohawk", always, k2=k2), counted("hierfavg", always, k2=k2)
    for count in (mohawk, hierfavg):
        assert (count.trainings, count.uploads, count.aggregated, count.wasted) == (28, 28, 28, 0)
    assert mohawk.aggregated_by_step == hierfavg.aggregated_by_step == (0, *[4] * 7)


def test_one_absence_is_what_tells_the_systems_apart(world):
    once_away = world.drawn_trace("0 0 0 0 0 0", "0 0 - 0 0 0")
    assert counted("hierfavg", once_away, k2=5).reasons == {"absent": 1}
    assert counted("mohawk", once_away, k2=5).wasted == 0
    assert counted("mohawk", once_away, k2=2).reasons == {"cloud aggregation": 1}  # due at t = 2


@pytest.mark.parametrize("k2", sampled([5], [2, 5, 10]))
def test_mohawk_wastes_a_smaller_share_with_95_percent_confidence_over_8_seeds(world, k2):
    differences = []
    for seed in range(8):
        trace = world.random_trace(seed, devices=30, steps=60)
        hierfavg, mohawk = counted("hierfavg", trace, seed, k2=k2), counted("mohawk", trace, seed, k2=k2)
        assert hierfavg.trainings == mohawk.trainings > 300
        differences.append(hierfavg.wasted_share - mohawk.wasted_share)
    spread = stats.sem(differences)
    low, high = stats.t.interval(0.95, len(differences) - 1, np.mean(differences), spread)
    assert 0 < low < high < 1


def test_the_longer_between_cloud_aggregations_the_less_mohawk_wastes(world):
    trace = world.random_trace(1, devices=30, steps=60)
    shares = [counted("mohawk", trace, k2=k2).wasted_share for k2 in (1, 2, 5, 10)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == counted("hierfavg", trace, k2=1).wasted_share  # Tr lives one step, as in HierFAVG


@pytest.mark.parametrize("k2", [2, 5, 10])
def test_the_loop_agrees_with_counting_on_the_trace_alone(world, k2):
    """Two independent ways: the round loop with its orders, and set arithmetic on presence."""
    trace = world.random_trace(4, devices=40, steps=80)
    for name, expected in (
        ("hierfavg", aggregated_at_next_step(trace)),
        ("mohawk", aggregated_dynamically(trace, k2)),
    ):
        count = counted(name, trace, k2=k2)
        assert count.aggregated_per_step == pytest.approx(expected.per_step, abs=1e-12)
        assert count.wasted_share == pytest.approx(expected.wasted_share, abs=1e-12)
        assert count.trainings == expected.trainings


def test_a_rehearsal_repeats_itself_and_depends_on_its_seed(world):
    trace = world.random_trace(2)
    one, two, other = (rehearsed("mohawk", trace, seed, k2=3) for seed in (1, 1, 2))
    assert one == two
    assert aggregated(one).isdisjoint(aggregated(other))
    still = asyncio.run(rehearse(make_system("mohawk", SystemOptions()), trace, 1, spread=0.0))
    assert len(aggregated(still)) == 1


def aggregated(records):
    """The digests of all models that access points made."""
    return {record.digest for record in records if isinstance(record, EdgeAggregated)}


class TestOutcomes:
    def trained(self, step, device):
        order = f"r/{step}/{device}"
        return [
            StepOpened(step, (device,), (0,), (0.0,)),
            OrderGiven(step, device, order, "train", 0),
        ]

    def test_a_training_without_a_decision_is_pending(self):
        (update,) = local_updates(self.trained(0, 0)).values()
        assert (update.outcome, update.decided_step, update.reappeared) == (Outcome.PENDING, -1, False)

    def test_only_presence_after_the_training_counts_as_reappearing(self):
        records = [*self.trained(0, 0), *self.trained(1, 1), StepOpened(2, (0,), (0,), (0.0,))]
        assert {order: one.reappeared for order, one in local_updates(records).items()} == {
            "r/0/0": True,
            "r/1/1": False,
        }

    def test_a_decision_keeps_its_step_and_reason(self):
        records = [*self.trained(0, 0), OutcomeDecided(3, 0, "r/0/0", Outcome.WASTED, "absent")]
        (update,) = local_updates(records).values()
        assert (update.device, update.step, update.decided_step, update.reason) == (0, 0, 3, "absent")

    def edge(self, step, ap, *orders):
        return EdgeAggregated(step, ap, tuple(range(len(orders))), orders, (1.0,) * len(orders), "")

    def test_a_model_reaches_the_cloud_with_the_next_aggregation_that_its_ap_takes_part_in(self):
        records = [
            self.edge(1, 0, "a"),
            self.edge(2, 0, "b"),
            self.edge(2, 1, "c"),
            CloudAggregated(2, (0,), (1.0,), ""),
            self.edge(3, 1, "d"),
            CloudAggregated(4, (0, 1), (0.5, 0.5), ""),
            self.edge(5, 0, "e"),
        ]
        # AP 1's model with c in it was replaced by the global one; e came after the last one.
        assert reached_cloud(records) == {"a", "b", "d"}

    def test_a_cloud_aggregation_without_aps_changes_nothing(self):
        records = [self.edge(1, 0, "a"), CloudAggregated(2, (), (), ""), CloudAggregated(4, (0,), (1.0,), "")]
        assert reached_cloud(records) == {"a"}


def test_mohawk_wastes_less_once_it_has_learned_who_comes_back(world):
    """Four devices are always there; eight come every ninth step, never twice between cloud aggregations."""
    rare = [" ".join("0" if step % 9 == device else "-" for step in range(90)) for device in range(8)]
    trace = world.drawn_trace(*[" ".join(["1000"] * 90)] * 4, *rare)
    all_train, spared = (
        tally(asyncio.run(rehearse(make_system("mohawk", SystemOptions(k2=3), numbers), trace, 0)))
        for numbers in ({}, {"least_chance": 0.6, "period_steps": 1})
    )
    assert all_train.wasted > 70
    assert spared.wasted < 0.25 * all_train.wasted
    assert spared.aggregated > 0.95 * all_train.aggregated
