"""What a model learned, as doubts: accuracy no better than chance, a global model that diverged."""

from __future__ import annotations

import math

import pytest

from roambench.contract.metric import ACCURACY
from roambench.report.summaries.evidence import read_runs
from roambench.report.summaries.report_flags import common_flags
from roambench.report.summaries.run import RunSummary, summarise
from roambench.rounds.records import StepClosed
from roambench.runs.folder import RunFolder


def run_of(
    hand_made, name="demo-mohawk", *, chance: float | None = 0.1, samples=1_000, **changes
) -> RunSummary:
    path = hand_made(name, **changes)
    with RunFolder.open(path, write=True) as folder:
        folder.update(chance_accuracy=chance, test_samples=samples)
    (found,) = read_runs([path])
    return summarise(found)


def at_chance(run: RunSummary) -> list[str]:
    return [flag.sentence for flag in run.doubts if "no better than chance" in flag.sentence]


@pytest.mark.parametrize(
    ("final", "chance", "samples", "said"),
    [
        (0.100, 0.1, 1_000, True),
        (0.118, 0.1, 1_000, True),  # 2 deviations of 1,000 guesses are 1.9 points
        (0.120, 0.1, 1_000, False),
        (0.150, 0.1, 100, True),  # 6 points of 100 guesses
        (0.600, 0.6, 1_000, True),  # one class is most of the test set
        (0.850, 0.1, 1_000, False),
        (0.050, 0.1, 1_000, True),
        (1.000, 0.5, 4, False),  # 2 deviations of 4 guesses are 50 points
        (1.000, 1.0, 4, True),  # all of the test set is one class
        (0.100, None, 1_000, False),  # a folder from before it was noted
    ],
)
def test_an_accuracy_that_guessing_gives_is_a_grave_doubt(hand_made, final, chance, samples, said):
    run = run_of(hand_made, accuracies=(0.1, final), chance=chance, samples=samples)
    assert bool(at_chance(run)) is said
    assert not any(flag.routine for flag in run.doubts if flag.sentence in at_chance(run))


def test_where_no_model_reached_the_cloud_more_training_is_no_advice(hand_made):
    (said,) = at_chance(run_of(hand_made, accuracies=(0.1, 0.1), aggregated=()))
    assert said.startswith(
        "see what became of the trainings: no model reached the cloud, and the one it began"
    )
    assert "learning_rate" not in said


def test_a_model_that_was_better_once_is_said_to_have_been(hand_made):
    (said,) = at_chance(run_of(hand_made, accuracies=(0.6, 0.1)))
    assert said.startswith("train for more steps (trace.steps), or with another learning.learning_rate (")
    assert "at 10.0 % (the best was 60.0 %), where naming the most frequent class always gives 10.0 %" in said


def test_a_global_model_whose_loss_became_no_number_diverged(hand_made):
    run = run_of(hand_made, extra=[StepClosed(2, 1, (), (0,), 0.85, math.nan)])
    (said,) = [flag.sentence for flag in run.doubts if "diverged" in flag.sentence]
    assert said.startswith("try a learning.learning_rate below ")
    assert said.endswith("its loss is no number from step 2 on")


def test_a_threshold_that_no_run_reached_compares_nothing(hand_made):
    low = {"accuracies": (0.1, 0.5)}
    runs = [run_of(hand_made, **low), run_of(hand_made, "demo-hierfavg", system="hierfavg", **low)]
    (missed,) = [flag for flag in common_flags(runs) if "accuracy_threshold" in flag.sentence]
    assert not missed.routine
    assert missed.sentence == (
        "set an easier rounds.accuracy_threshold, or train for more steps (trace.steps): no run has "
        f"{ACCURACY.wanted(0.8)}, the best is 50.0 %, so joules up to it compare nothing"
    )
    (alone,) = [flag for flag in common_flags(runs[:1]) if "accuracy_threshold" in flag.sentence]
    assert alone.routine  # of one run there is nothing to compare
    runs.append(run_of(hand_made, "reached", system="other"))
    assert not [flag for flag in common_flags(runs) if "accuracy_threshold" in flag.sentence]


def test_systems_with_one_seed_each_are_a_routine_note(hand_made):
    runs = [run_of(hand_made), run_of(hand_made, "demo-hierfavg", system="hierfavg")]
    (said,) = [flag for flag in common_flags(runs) if "one seed" in flag.sentence]
    assert said.routine
    assert not common_flags(runs[:1])


def test_routine_flags_are_last_and_marked_in_the_document(hand_made):
    from roambench.report.documents.report import document

    run = run_of(hand_made, fleet="simulated", readings=False, phases=False, accuracies=(0.1, 0.1))
    assert [flag.routine for flag in run.doubts] == sorted(flag.routine for flag in run.doubts)
    (found,) = document([run])["runs"]
    assert set(found["routine"]) < set(found["flags"])
    assert found["routine"] == [flag.sentence for flag in run.doubts if flag.routine]
