"""Runs that end before their trace, and global models that are not all scored."""

from __future__ import annotations

import pytest

from roambench.contract.errors import ConfigError
from roambench.contract.phases import Outcome
from roambench.rounds.checkpoint import state_from_json, state_to_json
from roambench.rounds.records import OutcomeDecided, RunEnded, StepClosed
from roambench.rounds.run import RunSettings
from roambench.systems.options import SystemOptions


def climbing(world, **settings):
    """Device 0 stays at AP 0 for eight steps and its training of step t gives the model t + 2 (the first
    parameter is the accuracy); the cloud aggregates at t = 2, 4 and 6."""
    return world.run(
        "mohawk",
        world.drawn_trace("0 0 0 0 0 0 0 0"),
        initial=world.vector(1.0, 0.0),
        increments={(0, step): world.vector(1.0, 0.0) for step in range(8)},
        options=SystemOptions(k1=1, k2=2),
        evaluator=world.CountingEvaluator(),
        **settings,
    )


def accuracies(run):
    return [closed.accuracy for closed in run.of(StepClosed)]


def test_a_run_ends_at_the_first_cloud_aggregation_whose_model_is_good_enough(world):
    whole = climbing(world)
    assert accuracies(whole) == [1, 1, 3, 3, 5, 5, 7, 7]
    stopped = climbing(world, stop_at=5.0)
    assert accuracies(stopped) == [1, 1, 3, 3, 5]
    assert stopped.result.steps == 5
    (ended,) = stopped.of(RunEnded)
    assert (ended.step, ended.reason) == (4, "accuracy 5.0000 reached the threshold of 5")
    assert whole.of(RunEnded) == []


def test_what_was_outstanding_when_a_run_ends_early_is_wasted_as_at_the_end_of_a_trace(world):
    stopped = climbing(world, stop_at=5.0)
    last = [
        (f.device, f.outcome, f.reason) for f in stopped.of(OutcomeDecided, 4) if f.outcome is Outcome.WASTED
    ]
    assert last == [(0, Outcome.WASTED, "end of run")]
    assert stopped.closed(4).outstanding == ()
    assert stopped.states[-1].outstanding == {}


def test_up_to_its_end_a_stopped_run_is_the_run_to_the_end_of_the_trace(world):
    """So what it took to reach the threshold does not depend on whether the run went on."""
    whole, stopped = climbing(world), climbing(world, stop_at=3.0)
    (ended,) = stopped.of(RunEnded)
    same = [r for r in whole.records if r.step < ended.step]
    assert [r for r in stopped.records if r.step < ended.step] == same
    assert stopped.orders("train", 2) == whole.orders("train", 2) == [(0, 0)]


def test_a_threshold_met_in_the_last_step_is_the_end_of_the_trace(world):
    run = world.run(
        "mohawk",
        world.drawn_trace("0 0 0"),
        increments={(0, step): world.vector(1.0, 0.0) for step in range(3)},
        options=SystemOptions(k1=1, k2=2),
        evaluator=world.CountingEvaluator(),
        stop_at=3.0,
    )
    assert accuracies(run) == [1, 1, 3]
    assert run.of(RunEnded) == []


def test_every_nth_cloud_aggregation_is_scored_and_the_last_one_too(world):
    run = climbing(world, evaluate_every=2)
    # Aggregations at 2, 4, 6: the second is scored, and the last. A model without a score has none.
    assert accuracies(run) == [1, 1, None, None, 5, 5, 7, 7]
    assert climbing(world).result.digest == run.result.digest


def test_a_run_continued_where_the_model_has_no_score_goes_on_the_same(world):
    whole = climbing(world, evaluate_every=2)
    state = state_from_json(state_to_json(whole.states[3]), whole.states[3].models)
    whole.fleet.kept = whole.kept_then[3]
    rest = climbing(world, evaluate_every=2, state=state, fleet=whole.fleet)
    assert accuracies(rest) == [5, 5, 7, 7]


def test_scoring_every_zeroth_is_refused():
    with pytest.raises(ConfigError, match="evaluate_every = 0: expected at least 1"):
        RunSettings("r", 1, 2, 1, (1,), evaluate_every=0)


def test_a_run_that_ended_early_stays_ended_when_it_is_continued(world):
    whole = climbing(world, stop_at=3)
    last = whole.states[-1]
    assert last.ended
    state = state_from_json(state_to_json(last), last.models)
    rest = climbing(world, stop_at=3, state=state, fleet=whole.fleet)
    assert rest.records == []
    assert rest.result.digest == whole.result.digest
