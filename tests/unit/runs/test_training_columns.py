"""What became of trainings as columns: hand-made logs, and the same facts as record by record."""

from __future__ import annotations

import pytest

from roambench.contract.phases import Outcome
from roambench.rounds.local_updates import LocalUpdate, local_updates
from roambench.rounds.records import (
    CloudAggregated,
    EdgeAggregated,
    OrderGiven,
    OutcomeDecided,
    RoundRecord,
    StepOpened,
)
from roambench.runs.event_log import EventLog
from roambench.runs.training_columns import TrainingColumns


def log() -> list[RoundRecord]:
    """0 is aggregated and reaches the cloud, 1 is wasted and comes back, 2 is aggregated for nothing and 3
    stays outstanding; an upload is no training."""
    return [
        StepOpened(0, (0, 1, 2), (0, 0, 1), (1.0, 1.0, 1.0)),
        *(OrderGiven(0, device, f"t{device}", "train", 0) for device in (0, 1, 2)),
        StepOpened(1, (0, 1, 3), (0, 0, 1), (1.0, 1.0, 1.0)),
        OrderGiven(1, 0, "u0", "upload", 0, "t0"),
        OrderGiven(1, 3, "t3", "train", 0),
        EdgeAggregated(1, 0, (0,), ("t0",), (1.0,), "aa"),
        EdgeAggregated(1, 1, (2,), ("t2",), (1.0,), "bb"),
        OutcomeDecided(1, 0, "t0", Outcome.AGGREGATED),
        OutcomeDecided(1, 1, "t1", Outcome.PENDING, "not yet"),
        OutcomeDecided(1, 2, "t2", Outcome.AGGREGATED),
        CloudAggregated(1, (0,), (1.0,), "cc"),
        OutcomeDecided(2, 1, "t1", Outcome.WASTED, "absent"),
        OutcomeDecided(2, 9, "t9", Outcome.WASTED, "never ordered"),
    ]


def test_every_training_has_its_facts() -> None:
    trainings = TrainingColumns.of(EventLog.of(log()))
    assert dict(trainings) == {
        "t0": LocalUpdate(0, 0, Outcome.AGGREGATED, "", 1, True, True),
        "t1": LocalUpdate(1, 0, Outcome.WASTED, "absent", 2, True, False),
        "t2": LocalUpdate(2, 0, Outcome.AGGREGATED, "", 1, False, False),
        "t3": LocalUpdate(3, 1, Outcome.PENDING, "", -1, False, False),
    }
    assert list(trainings) == ["t0", "t1", "t2", "t3"]
    assert [outcome.device for outcome in trainings.of_devices([3, 1])] == [1, 3]
    with pytest.raises(KeyError):
        trainings["u0"]


@pytest.mark.parametrize("again", [("t1", 5), ("t0", 3), ("t3", 0)])
def test_they_are_those_found_record_by_record_also_where_an_order_is_given_twice(again) -> None:
    name, device = again
    records = [*log(), StepOpened(2, (device,), (0,), (1.0,)), OrderGiven(2, device, name, "train", 0)]
    for told in (log(), records):
        expected = local_updates(told)
        assert list(TrainingColumns.of(EventLog.of(told)).items()) == list(expected.items())


def test_a_run_without_trainings_has_none() -> None:
    trainings = TrainingColumns.of(EventLog.of([StepOpened(0, (), (), ())]))
    assert (len(trainings), dict(trainings), list(trainings.of_devices([0]))) == (0, {}, [])
