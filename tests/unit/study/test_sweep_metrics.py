"""What a sweep's table can tell of a run beyond a fixed list: rounds to any accuracy."""

import json
from pathlib import Path

import pytest

from roambench.contract.phases import Outcome
from roambench.experiment.sections import Experiment
from roambench.report.quantities import number_of
from roambench.report.report import report
from roambench.report.spread import Spread
from roambench.rounds.records import (
    CloudAggregated,
    EdgeAggregated,
    MixingPlanned,
    ModelsExchanged,
    ModelsScored,
    OrderAnswered,
    OrderGiven,
    OutcomeDecided,
    StepClosed,
    StepOpened,
)
from roambench.runs.folder import RunFolder
from roambench.study.sweep.metrics import METRICS, accuracy_in, figures, metric_of, rounds_to, scored
from roambench.study.sweep.results_files import cell
from roambench.study.sweep.sweep_folder import PointEnd, read_outcome, write_outcome

CURVE = ((3, 0.5), (5, 0.9), (7, 0.85), (9, 0.97))


@pytest.mark.parametrize(
    ("name", "accuracy"),
    [
        ("rounds_to_0.9", 0.9),
        ("rounds_to_.97", 0.97),
        ("rounds_to_1", 1.0),
        ("rounds_to_1.0", 1.0),
        ("rounds_to_0", None),
        ("rounds_to_1.5", None),
        ("rounds_to_-0.5", None),
        ("rounds_to_nan", None),
        ("rounds_to_0.9x", None),
        ("rounds_to_threshold", None),
        ("final_accuracy", None),
    ],
)
def test_an_accuracy_above_nothing_and_up_to_one_names_a_metric(name: str, accuracy: float | None) -> None:
    assert accuracy_in(name) == accuracy
    assert (metric_of(name) is None) == (accuracy is None and name not in METRICS)


def test_rounds_count_to_the_first_model_that_was_good_enough() -> None:
    assert [rounds_to(accuracy, CURVE) for accuracy in (0.4, 0.86, 0.9, 0.91, 0.98)] == [3, 5, 5, 9, None]


def test_an_outcome_tells_rounds_to_accuracies_nobody_asked_for_when_it_ran(tmp_path: Path) -> None:
    figures = dict.fromkeys(METRICS, 1.5)
    write_outcome(tmp_path, PointEnd("k", figures, scored=CURVE))
    found = read_outcome(tmp_path, "k")
    assert found == PointEnd("k", figures, scored=CURVE)
    assert (found.figure("rounds_to_0.95"), found.figure("trainings")) == (9.0, 1.5)


def test_a_result_of_another_run_is_no_result(tmp_path: Path) -> None:
    write_outcome(tmp_path, PointEnd("k", dict.fromkeys(METRICS, 1.5)))
    assert read_outcome(tmp_path, "another") is None


def test_figures_of_a_decentralised_run_by_hand(tmp_path: Path) -> None:
    """A device trains alone in steps 0 and 1 for 20 s at 2 W idle and 1 W more: 60 J each."""
    power = {"idle_w": 2.0, "train_w": 1.0, "power_spread": 0.0}
    experiment = Experiment.model_validate(
        {"seed": 1, "simulated": power, "rounds": {"accuracy_threshold": 0.4}}
    )
    with RunFolder.create(
        tmp_path / "run", experiment, run_id="r", system="d_psgd", trace_hash="ab",
        fleet="simulated", device_names=["pi-01"],
    ) as folder:  # fmt: skip
        for step, accuracy in enumerate((0.3, 0.5)):
            order = f"r/{step}/0/exchange"
            folder.journal.extend(
                [
                    StepOpened(step, (0,), (0,), (0.0,)),
                    MixingPlanned(step, (1,), (0,), (1.0,), None, None),
                    OrderGiven(step, 0, order, "exchange", -1, link="wifi"),
                    OrderAnswered(step, 0, order, "done", "", 0, 0.0, 20.0, 60, 1.5),
                    ModelsExchanged(step, 0, order, (), (), 0, 0, 0.0, 0, 0.0, ""),
                    OutcomeDecided(step, 0, order, Outcome.AGGREGATED),
                    ModelsScored(step, (0,), (accuracy,), (1.0,), ("a",), accuracy, 1.0),
                    StepClosed(step, 1, (), (), accuracy, 1.0),
                ]
            )
    (summary,) = report([tmp_path / "run"]).summaries
    found = figures(summary)
    assert (found["rounds_to_threshold"], found["final_accuracy"], found["neighbours"]) == (2.0, 0.5, 0.0)
    assert number_of(found["consumed_j"]) == pytest.approx(120.0)
    assert number_of(found["joules_per_point"]) == pytest.approx(120.0 / 50.0)
    assert scored(summary) == ((1, 0.3), (2, 0.5))


@pytest.mark.parametrize(
    ("trained", "aggregated", "rounds"), [(0, 2, (2.0, 2.0)), (1, 2, (2.0, 2.0)), (2, 2, (3.0, 3.0))]
)
def test_rounds_are_t_which_begins_with_0_where_models_go_up_a_step_later(
    trained: int, aggregated: int, rounds: tuple[float, float], tmp_path: Path
) -> None:
    """MOHAWK's t = 0 only trains; MIDDLE trains and aggregates in one step and counts from 1."""
    with RunFolder.create(
        tmp_path / "run", Experiment.model_validate({"seed": 1, "rounds": {"accuracy_threshold": 0.4}}),
        run_id="r", system="mohawk", trace_hash="ab", fleet="simulated", device_names=["pi-01"],
    ) as folder:  # fmt: skip
        for step in range(3):
            folder.journal.append(StepOpened(step, (0,), (0,), (0.0,)))
            if step == trained:
                folder.journal.append(OrderGiven(step, 0, "train", "train", 0))
            if step == aggregated:
                folder.journal.append(OrderGiven(step, 0, "up", "upload", 0, train_order_id="train"))
                folder.journal.append(EdgeAggregated(step, 0, (0,), ("train",), (1.0,), "a"))
                folder.journal.append(CloudAggregated(step, (0,), (1.0,), "a"))
            accuracy = 0.5 if step == aggregated else 0.1
            folder.journal.append(StepClosed(step, int(step == aggregated), (), (), accuracy, 1.0))
    (summary,) = report([tmp_path / "run"]).summaries
    found = figures(summary)
    assert (found["rounds_to_threshold"], found["rounds"], found["steps"]) == (*rounds, 3.0)
    assert scored(summary) == ((int(rounds[0]), 0.5),)


@pytest.mark.parametrize("curve", [None, 3, [[1]], [[1, "a"]], [[1.5, 0.5]], [{"a": 1}]])
def test_a_result_whose_curve_cannot_be_read_is_no_result(tmp_path: Path, curve: object) -> None:
    values = {"key": "k", "figures": dict.fromkeys(METRICS, 1.0), "reason": "", "scored": curve}
    (tmp_path / "result.json").write_text(json.dumps(values))
    assert read_outcome(tmp_path, "k") is None


def test_a_cell_of_rounds_is_written_like_every_other() -> None:
    assert cell("rounds_to_0.9", Spread(12.0, 1.5, 2), 3) == "12.0 ± 1.5 (2 of 3)"
    metric = metric_of("rounds_to_0.9")
    assert metric is not None
    assert metric.title == "rounds to 90 %"
