"""Trainings that failed: beside those that were wasted, with their joules, their cause and the remedy."""

from __future__ import annotations

import pytest

from roambench.contract.phases import Outcome
from roambench.experiment.sections import Experiment
from roambench.report.report import report
from roambench.report.summaries.evidence import read_runs
from roambench.report.summaries.failures import failure_flags
from roambench.report.summaries.orders import order_summary
from roambench.report.summaries.run import RunSummary, summarise
from roambench.rounds.records import OrderAnswered, OrderGiven, OutcomeDecided
from roambench.runs.learning import training_summary

#: The second board's training of step 0, which the hand-made run calls wasted; what was decided last counts.
TRAINING = "r/0/1/train"


def failed(reason: str, device: int = 1, training: str = TRAINING) -> OutcomeDecided:
    return OutcomeDecided(1, device, training, Outcome.FAILED, reason)


def summary_of(hand_made, *extra, **changes) -> RunSummary:
    (found,) = read_runs([hand_made(extra=extra, **changes)])
    return summarise(found)


def test_joules_of_failed_trainings_are_consumed_and_not_wasted(hand_made):
    run = summary_of(hand_made, failed("timeout: no answer within 120 s"))
    assert run.measured is not None
    table = run.measured.gross
    assert table.cumulative_failed.joules == pytest.approx(48.0)
    assert table.cumulative_wasted.joules == 0.0
    assert table.cumulative_consumed.joules == pytest.approx(104.0)
    assert [board.failed.joules for board in run.measured.boards] == [0.0, pytest.approx(48.0)]
    trainings = run.trainings
    assert (trainings.wasted, trainings.failed, trainings.pending) == (0, 1, 0)
    assert (trainings.wasted_share, trainings.failed_share) == (0.0, 0.5)
    assert trainings.failed_reasons == {"timeout: no answer within 120 s": 1}


@pytest.mark.parametrize(
    ("reason", "remedy"),
    [
        ("timeout: no answer within 120 s", "set fleet.deadline_s = 300, or give devices fewer images"),
        ("upload timeout", "set fleet.deadline_s = 300"),
        ("refused: training diverged after 5 steps: the model holds NaN", "learning.learning_rate below"),
        ("refused: Expected more than 1 value per channel when training", "learning.images_per_device"),
        ("failed: the trainer died (signal SIGKILL)", "a smaller learning.batch_size"),
        ("lost: no session within 120 s", "look at the power, the network"),
    ],
)
def test_a_doubt_names_the_cause_and_the_key_that_cures_it(hand_made, reason, remedy):
    flag = summary_of(hand_made, failed(reason)).flags[0]
    cure, told, _ = flag.partition("1 of 2 trainings ")
    assert told
    assert remedy in cure


def test_trainings_that_timed_out_are_one_doubt_with_the_deadline_and_the_time_that_they_take(hand_made):
    """Two trainings of 20 s; orders may take 12 s. One was late to be answered, the other to be uploaded."""
    extra = [failed("timeout: no answer within 12 s"), failed("upload timeout", 0, "r/0/0/train")]
    run = summary_of(hand_made, *extra, config={"fleet": {"deadline_s": 12.0}})
    late, *others = [flag for flag in run.flags if "deadline_s" in flag]
    assert not others
    assert late.startswith("set fleet.deadline_s = 50, or give devices fewer images")
    assert late.endswith(
        ": all 2 trainings timed out, where an order may take 12 s, and a training took up to 20 s"
    )
    assert run.flags[0] == late


def test_a_device_that_never_trained_is_named():
    """The first has a late training behind it, and one whose loss is known: it did train."""
    records = [
        OrderGiven(0, 0, "a", "train", 0),
        OrderAnswered(0, 0, "a", "timeout", "late"),
        failed("timeout: late", 0, "a"),
        OrderGiven(1, 0, "b", "train", 0),
        OrderAnswered(1, 0, "b", "done", samples=8, mean_loss=0.5),
        OutcomeDecided(1, 0, "b", Outcome.WASTED, "absent"),
        OrderGiven(1, 1, "c", "train", 0),
        OrderAnswered(1, 1, "c", "refused", "one image", train_s=4.0, mean_loss=None),
        failed("refused: one image", 1, "c"),
        OrderGiven(2, 1, "d", "train", 0),  # put off until its model is asked for, which never was
        OrderAnswered(2, 1, "d", "done", samples=1, mean_loss=None),
        OutcomeDecided(2, 1, "d", Outcome.WASTED, "absent"),
    ]
    trainings = training_summary(records)
    assert trainings.never == {1: "refused: one image"}
    flags = failure_flags(trainings, ["pi-01", "pi-02"], Experiment())
    assert flags[-1].sentence == "never trained: pi-02 (refused: one image)"


@pytest.mark.parametrize("status", ["timeout", "lost", "refused", "failed", "garbage"])
def test_a_run_in_which_no_training_was_done_was_fruitless_whatever_it_failed_by(status):
    records = [
        record
        for device in (0, 1)
        for record in (
            OrderGiven(0, device, f"{device}", "train", 0),
            OrderAnswered(0, device, f"{device}", status, "scripted"),
        )
    ]
    told = f"none of 2 train orders was done, the first {status}: scripted"
    assert order_summary(records, ["a", "b"]).fruitless == told
    one_done = [*records[:-1], OrderAnswered(0, 1, "1", "done")]
    assert order_summary(one_done, ["a", "b"]).fruitless == ""


def test_every_form_of_a_report_tells_failed_trainings(hand_made):
    path = hand_made(extra=[failed("timeout: no answer within 120 s")])
    made = report([path])
    assert '"failed": 1' in made.json()
    assert '"failed_j": 48' in made.json()
    page = made.html()
    assert "failed: timeout: no answer within 120 s" in page
    assert "cumulative, in trainings that failed" in page


def test_a_run_of_an_older_version_keeps_the_outcomes_that_it_wrote_down(hand_made):
    run = summary_of(hand_made, reason="timeout: no answer within 120 s")
    assert (run.trainings.wasted, run.trainings.failed) == (1, 0)
    assert run.trainings.reasons == {"timeout: no answer within 120 s": 1}
