"""The loop around the algorithms: order of arrival, scoring, links, resuming, same-step systems."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from roambench.aggregation import data_size_weights
from roambench.contract.draws import generator
from roambench.contract.errors import PluginError, RunError
from roambench.contract.orders import AnswerStatus, TrainOrder
from roambench.mobility.association import NearestAp
from roambench.rounds.checkpoint import state_from_json, state_to_json
from roambench.rounds.loop import run_rounds
from roambench.rounds.ports import Score
from roambench.rounds.records import CloudAggregated, EdgeAggregated, OrderAnswered, OrderGiven, StepClosed
from roambench.rounds.rehearsal import MemoryJournal, RehearsalFleet
from roambench.rounds.run import RunSettings, StepSummary
from roambench.systems import choices
from roambench.systems.catalogue import make_system
from roambench.systems.options import SystemOptions
from roambench.systems.system import (
    Participants,
    Selected,
    Selection,
    StartModel,
    UploadRule,
)
from roambench.vectors import weighted_mean


class UnrulyFleet(RehearsalFleet):
    """Carries orders out, and answers them, in the order in which random sleeps end."""

    disorder = 0

    async def perform(self, orders, on_answer):
        finished = []

        async def carry_out(index, order):
            delay = generator(self.seed + 1, "delay", index, order.step).random()
            await asyncio.sleep(0.002 * delay)
            (answer,) = await RehearsalFleet.perform(self, [order], on_answer)
            finished.append((index, answer))

        await asyncio.gather(*(carry_out(index, order) for index, order in enumerate(orders)))
        indices = [index for index, _ in finished]
        self.disorder += indices != sorted(indices)
        return [answer for _, answer in finished]


class ReversedFleet(RehearsalFleet):
    async def perform(self, orders, on_answer):
        return await super().perform(orders[::-1], on_answer)


class ReadingFleet(RehearsalFleet):
    """Looks into the journal whenever it is given orders, as a restarted controller would."""

    journal: MemoryJournal
    asked = 0

    async def perform(self, orders, on_answer):
        given = [record.order_id for record in self.journal.records if isinstance(record, OrderGiven)]
        assert given[-len(orders) :] == [order.order_id for order in orders]
        self.asked += len(orders)
        return await super().perform(orders, on_answer)


@pytest.mark.parametrize("name", ["mohawk", "middle"])
def test_orders_are_on_record_before_the_fleet_hears_of_them(world, name):
    trace = world.random_trace(3, devices=20, steps=6, back=0.7)
    system = make_system(name, SystemOptions(k1=1, k2=3))
    fleet, journal = ReadingFleet(3, (1,) * 20), MemoryJournal()
    fleet.journal = journal
    settings = RunSettings("r", 3, trace.steps, len(trace.ap_names), (1,) * 20)
    asyncio.run(
        run_rounds(
            settings,
            system,
            system.association(trace, 3),
            fleet,
            journal,
            np.ones(4, dtype=np.float32),
            throughput=lambda distance_m, direction: 1.0,
        )
    )
    assert fleet.asked == sum(isinstance(record, OrderGiven) for record in journal.records) > 100


@pytest.mark.parametrize("name", ["mohawk", "hierfavg"])
def test_the_order_of_arrival_changes_neither_records_nor_the_final_model(world, name):
    trace = world.random_trace(3, devices=20, steps=24, back=0.7)
    samples = tuple(range(1, 21))
    runs = [
        world.run(name, trace, samples=samples, fleet=fleet, initial=world.vector(*range(1, 40)))
        for fleet in (
            RehearsalFleet(1, samples, spread=0.3),
            UnrulyFleet(1, samples, spread=0.3),
            ReversedFleet(1, samples, spread=0.3),
        )
    ]
    assert runs[1].fleet.disorder > 10
    assert runs[0].records == runs[1].records == runs[2].records
    assert runs[0].result.digest == runs[1].result.digest == runs[2].result.digest
    assert max(len(edge.devices) for edge in runs[0].of(EdgeAggregated)) >= 4


def test_aps_aggregate_in_their_order_whoever_comes_first(world):
    run = world.run("mohawk", world.drawn_trace("1000 1000", "0 0", "1000 1000"))
    assert [(edge.ap, edge.devices) for edge in run.of(EdgeAggregated)] == [(0, (1,)), (1, (0, 2))]


def test_another_seed_of_the_same_fleet_gives_another_final_model(world):
    trace = world.random_trace(3)
    one = world.run("mohawk", trace, fleet=RehearsalFleet(1, (1,) * 12))
    two = world.run("mohawk", trace, fleet=RehearsalFleet(2, (1,) * 12))
    assert one.result.digest != two.result.digest


def test_a_train_order_carries_its_own_keyed_seed_and_the_local_epochs(world):
    run = world.run("mohawk", world.drawn_trace("0 0 0", "0 0 0"), options=SystemOptions(k1=4, k2=2))
    orders = [order for order in run.fleet.seen if isinstance(order, TrainOrder)]
    assert len({order.training.seed for order in orders}) == len(orders) == 4
    assert {order.training.epochs for order in orders} == {4}
    assert {(order.training.start_rule, order.training.objective) for order in orders} == {("ap", "ce")}


def test_the_global_model_is_scored_at_the_start_and_when_it_changed(world):
    evaluator = world.CountingEvaluator()
    increments = {(0, step): world.vector(1, 0) for step in range(7)}
    run = world.run(
        "hierfavg", world.drawn_trace("0 0 0 0 0 0 0"), evaluator=evaluator, increments=increments
    )
    # Device 0 adds 1 per step; the cloud aggregates at t = 3 and 6 (k2 = 3): 1, then 1 + 3, then 1 + 6.
    assert [float(model[0]) for model in evaluator.asked] == [1.0, 4.0, 7.0]
    assert [closed.accuracy for closed in run.of(StepClosed)] == [1, 1, 1, 4, 4, 4, 7]
    assert [closed.loss for closed in run.of(StepClosed)] == [-1, -1, -1, -4, -4, -4, -7]


def test_a_cloud_aggregation_without_anything_leaves_the_model_and_its_score(world):
    evaluator = world.CountingEvaluator()
    run = world.run("mohawk", world.drawn_trace("- - - - -"), evaluator=evaluator)
    (cloud,) = run.of(CloudAggregated)
    assert (cloud.step, cloud.aps, cloud.weights, cloud.digest) == (3, (), (), run.result.digest)
    assert len(evaluator.asked) == 1
    assert len(run.of(StepClosed)) == 5  # empty steps are rounds too


@pytest.mark.parametrize(("clears", "outcomes"), [(True, 0), (False, 1)])
def test_a_due_but_empty_cloud_aggregation_empties_tr_unless_told_otherwise(world, clears, outcomes):
    options = SystemOptions(k1=1, k2=2, empty_sync_clears=clears)
    run = world.run("mohawk", world.drawn_trace("0 - - 0 -"), options=options)
    assert run.closed(2).outstanding == (() if clears else (0,))
    assert run.closed(3).aggregated == outcomes


def test_without_an_evaluator_no_score_is_invented(world):
    run = world.run("mohawk", world.drawn_trace("0 0"))
    assert [(closed.accuracy, closed.loss) for closed in run.of(StepClosed)] == [(None, None)] * 2


@pytest.mark.parametrize("paced", [False, True])
def test_the_journal_knows_the_link_and_orders_are_paced_only_if_asked(world, paced):
    run = world.run("mohawk", world.drawn_trace("100 101"), pace_links=paced)
    train, upload = (o for o in run.of(OrderGiven) if o.kind in ("train", "upload"))
    assert (train.distance_m, train.link, train.throughput_mbit_s) == (100.0, "wifi", 300.0)
    assert (upload.distance_m, upload.link, upload.throughput_mbit_s) == (101.0, "lte", 100.0)
    rates = [getattr(o, "download_mbit_s", getattr(o, "upload_mbit_s", None)) for o in run.fleet.seen]
    assert [rate for rate in rates if rate is not None] == ([300.0, 100.0] if paced else [0.0, 0.0])
    assert (train.paced_mbit_s, upload.paced_mbit_s) == ((300.0, 100.0) if paced else (0.0, 0.0))
    answered = {o.order_id: o for o in run.of(OrderAnswered)}
    assert (answered[train.order_id].transferred_bytes, answered[train.order_id].transfer_s) == (8, 2.0)
    assert (answered[upload.order_id].transferred_bytes, answered[upload.order_id].transfer_s) == (9, 3.0)


def test_a_modelled_rate_above_the_ports_is_clipped_and_recorded(world):
    run = world.run("mohawk", world.drawn_trace("100 101"), pace_links=True, port_mbit_s=95.0)
    train, upload = (o for o in run.of(OrderGiven) if o.kind in ("train", "upload"))
    assert (train.throughput_mbit_s, train.paced_mbit_s) == (300.0, 95.0)
    assert (upload.throughput_mbit_s, upload.paced_mbit_s) == (100.0, 95.0)
    rates = [getattr(o, "download_mbit_s", getattr(o, "upload_mbit_s", None)) for o in run.fleet.seen]
    assert [rate for rate in rates if rate is not None] == [95.0, 95.0]


def test_every_closed_step_is_summed_up_for_live_progress(world):
    evaluator = world.CountingEvaluator()
    failures = {("upload", 1, 1): AnswerStatus.LOST}
    trace = world.drawn_trace("0 0 0", "0 0 -", "- 0 -")
    run = world.run("mohawk", trace, failures=failures, evaluator=evaluator)
    score = Score(1.0, -1.0)
    assert run.summaries == [
        # step, present, orders, of these done, aggregated, outstanding
        StepSummary(0, 2, 2, 2, 0, 2, score, 0.0),
        StepSummary(1, 3, 4, 3, 1, 3, score, 0.0),  # 2 uploads, 2 trainings; device 1 keeps its model
        StepSummary(2, 1, 1, 1, 1, 0, score, 0.0),  # the end of the run: nothing stays outstanding
    ]


def test_absent_devices_need_not_be_told(world):
    run = world.run("mohawk", world.drawn_trace("0 - 0", "- - -"), orders_to_absent=False)
    assert [(o.step, o.device) for o in run.of(OrderGiven) if o.kind == "idle"] == [(0, 0)]


@pytest.mark.parametrize("name", ["mohawk", "hierfavg"])
def test_a_run_continued_from_a_written_checkpoint_ends_in_the_same_model(world, name):
    trace = world.random_trace(5, devices=15, steps=16, back=0.6)
    draw = generator(9, "increments")
    increments = {(d, s): world.vector(*draw.normal(size=2)) for d in range(15) for s in range(16)}
    whole = world.run(name, trace, increments=increments)
    text = state_to_json(whole.states[9])
    restored = state_from_json(text, whole.states[9].models)
    assert restored == whole.states[9]
    assert restored.outstanding
    disks = world.ScriptedFleet((1,) * 15, increments, kept=whole.kept_then[9])
    rest = world.run(name, trace, fleet=disks, state=restored)
    assert rest.result.digest == whole.result.digest
    assert rest.records == [record for record in whole.records if record.step > 9]


def test_a_checkpoint_that_lacks_a_model_or_is_not_one_says_so(world):
    run = world.run("mohawk", world.drawn_trace("0 0"))
    with pytest.raises(RunError, match="lacks 1 of its models"):
        state_from_json(state_to_json(run.states[0]), {})
    with pytest.raises(RunError, match="not readable"):
        state_from_json("[]", {})


def test_a_system_that_selects_somebody_who_is_away_is_an_error(world):
    system = replace(make_system("mohawk", SystemOptions()), selection=Selection(lambda offered: (1,)))
    with pytest.raises(PluginError, match="step 0: expected devices that are offered to it, got device 1"):
        world.run(system, world.drawn_trace("0 0", "- 0"))


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        ([0], "expected a Selected, got list"),
        (Selected(["all"], {}), r"expected numbers of devices, got \['all'\]"),
        (Selected([7], {}), "expected devices that are offered to it, got device 7"),
    ],
)
def test_what_is_no_choice_of_plain_uploads_is_an_error(world, answer, wrong):
    system = replace(make_system("mohawk", SystemOptions()), plain_uploads=lambda offered: answer)
    with pytest.raises(PluginError, match=f"system 'mohawk': plain_uploads at step 0: {wrong}"):
        world.run(system, world.drawn_trace("0 0", "0 0"))


class Elsewhere(NearestAp):
    def placement(self, step):
        found = super().placement(step)
        return replace(found, aps=found.aps + step * 1000)


def test_a_placement_at_an_access_point_that_is_none_is_an_error(world):
    made = make_system("mohawk", SystemOptions())
    system = replace(made, association=lambda trace, seed: Elsewhere(trace))
    with pytest.raises(
        PluginError, match=r"placement at step 1: expected access points in 0\.\.\d, got 100\d"
    ):
        world.run(system, world.drawn_trace("0 0", "0 0"))


class TestSameStep:
    """A tiny system of the MIDDLE family's shape: the device with the highest utility per AP trains and
    uploads within the step; utility is the first parameter of its last model, unknown counts as infinite."""

    @pytest.fixture
    def system(self):
        def choose(offered):
            best = {}
            for device, ap in zip(offered.devices, offered.aps, strict=True):
                past = offered.past.get(device)
                utility = np.inf if past is None else past.utility
                if ap not in best or utility > best[ap][0]:
                    best[ap] = (utility, device)
            return [device for _, device in best.values()]

        def by_aggregated_samples(cloud):
            weights = data_size_weights(cloud.aggregated_samples)
            return weighted_mean(cloud.models, weights), weights

        return replace(
            make_system("mohawk", SystemOptions(k1=1, k2=2)),
            name="tiny",
            selection=Selection(choose, rate=lambda training, model, reference: float(model[0])),
            start_model=StartModel(stayed="ap", moved="mixed"),
            upload=UploadRule.SAME_STEP,
            eligible=choices.trained_this_step,
            edge_weights=choices.edge_data_size,
            cloud_participants=Participants.AGGREGATED,
            cloud_weights=by_aggregated_samples,
        )

    @pytest.fixture
    def run(self, world, system):
        trace = world.drawn_trace("0 0 1000 0", "0 0 0 -", "1000 1000 - 0")
        increments = {(d, t): world.vector(10**t * (d + 1), 0) for d in range(3) for t in range(4)}
        return world.run(system, trace, samples=(1, 2, 3), initial=world.vector(0, 0), increments=increments)

    def test_the_selected_upload_in_their_own_step_and_nothing_is_left(self, run):
        for step in range(4):
            assert run.orders("train", step) == run.orders("upload", step)
            assert run.closed(step).outstanding == ()
        assert [run.closed(step).aggregated for step in range(4)] == [2, 2, 2, 1]

    def test_selection_sees_the_utility_of_earlier_trainings(self, run):
        assert run.orders("train", 0) == [(0, 0), (2, 1)]
        # Device 1 is unknown, so it comes before device 0 (utility 1).
        assert run.orders("train", 1) == [(1, 0), (2, 1)]
        # At t = 3, AP 0 has device 0 (100·1 + ...) and device 2 (30 + 3 + ...): 0 trained last at t = 2.
        assert run.orders("train", 2) == [(0, 1), (1, 0)]
        assert run.orders("train", 3) == [(0, 0)]

    def test_the_cloud_counts_steps_from_one_and_samples_since_the_last_sync(self, run):
        clouds = run.of(CloudAggregated)
        assert [(cloud.step, cloud.aps) for cloud in clouds] == [(1, (0, 1)), (3, (0, 1))]
        # AP 0 aggregated devices 0 and 1 (1 + 2 samples), AP 1 device 2 twice (3 + 3).
        assert clouds[0].weights == pytest.approx((3 / 9, 6 / 9))
        # AP 0: 1, then 1 + 20; AP 1: 3, then 3 + 30.
        # The second time AP 0 aggregated devices 1 and 0 (2 + 1), AP 1 device 0 (1).
        assert clouds[1].weights == pytest.approx((3 / 4, 1 / 4))
        first = (21 * 3 + 33 * 6) / 9  # 29
        ap_0, ap_1 = first + 200 + 1000, first + 100
        assert run.result.model[0] == pytest.approx(0.75 * ap_0 + 0.25 * ap_1)

    def test_who_moved_starts_by_the_other_rule(self, run):
        rules = {
            (o.device, o.step): o.training.start_rule for o in run.fleet.seen if isinstance(o, TrainOrder)
        }
        assert rules == {
            (0, 0): "ap",  # at the first step nobody has moved
            (2, 0): "ap",
            (1, 1): "ap",  # was here at t = 0, though it did not train
            (2, 1): "ap",
            (0, 2): "mixed",
            (1, 2): "ap",
            (0, 3): "mixed",
        }

    def test_who_was_away_at_the_step_before_counts_as_moved(self, world, system):
        run = world.run(system, world.drawn_trace("0 - 0 0"), initial=world.vector(0))
        rules = {o.step: o.training.start_rule for o in run.fleet.seen if isinstance(o, TrainOrder)}
        assert rules == {0: "ap", 2: "mixed", 3: "ap"}


class TestLookahead:
    def test_hierfavg_trains_only_who_is_there_at_the_next_step(self, world):
        trace = world.drawn_trace("0 0 - 0", "0 - 0 0")
        run = world.run("hierfavg", trace, options=SystemOptions(k2=3, lookahead=True))
        assert [device for device, _ in run.orders("train", 0)] == [0]
        assert [device for device, _ in run.orders("train", 1)] == [0]  # nobody comes back: all of them
        assert [device for device, _ in run.orders("train", 2)] == [1]

    def test_mohawk_trains_only_who_is_seen_again_up_to_the_next_cloud_aggregation(self, world):
        trace = world.drawn_trace("0 - 0 - -", "0 - - 0 -", "0 - - - 0")
        run = world.run("mohawk", trace, options=SystemOptions(k2=3, lookahead=True))
        assert [device for device, _ in run.orders("train", 0)] == [0, 1]  # device 2: only after t = 3
