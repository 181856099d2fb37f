"""What a sweep's table can tell of a run beyond a fixed list: rounds to any accuracy."""

import json
from pathlib import Path

import pytest

from roambench.controller.sweep.metrics import METRICS, accuracy_in, metric_of, rounds_to
from roambench.controller.sweep.results import Spread
from roambench.controller.sweep.results_files import cell
from roambench.controller.sweep.sweep_folder import Outcome, read_outcome, write_outcome

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
    write_outcome(tmp_path, Outcome("k", figures, scored=CURVE))
    found = read_outcome(tmp_path, "k")
    assert found == Outcome("k", figures, scored=CURVE)
    assert (found.figure("rounds_to_0.95"), found.figure("trainings")) == (9.0, 1.5)


@pytest.mark.parametrize("scored", [None, 3, [[1]], [[1, "a"]], [[1.5, 0.5]], [{"a": 1}]])
def test_a_result_whose_curve_cannot_be_read_is_no_result(tmp_path: Path, scored: object) -> None:
    values = {"key": "k", "figures": dict.fromkeys(METRICS, 1.0), "reason": "", "scored": scored}
    (tmp_path / "result.json").write_text(json.dumps(values))
    assert read_outcome(tmp_path, "k") is None


def test_a_cell_of_rounds_is_written_like_every_other() -> None:
    assert cell("rounds_to_0.9", Spread(12.0, 1.5, 2), 3) == "12.0 ± 1.5 (2 of 3)"
    metric = metric_of("rounds_to_0.9")
    assert metric is not None
    assert metric.title == "rounds to 90 %"
