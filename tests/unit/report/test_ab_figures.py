"""What a comparison takes of a run, from run folders whose joules can be summed in the head."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from roambench.energy.energy_value import UncertaintyPart
from roambench.report.report import report
from roambench.report.summaries.run import RunSummary
from roambench.rounds.records import MetricsScored
from roambench.study.ab.ab_figures import figures_of, with_flags
from roambench.study.ab.ab_results import ab_table
from roambench.study.sweep.sweep_folder import PointEnd, read_outcome, write_outcome


def ended(summary: RunSummary) -> PointEnd:
    return PointEnd.of("", summary)


def test_the_joules_of_a_run_come_with_what_its_meters_have_wrong(hand_made: Callable[..., Path]) -> None:
    (summary,) = report([hand_made()]).summaries
    found = figures_of(ended(summary))
    # Each board: 4 s download, 20 s training, the first also 4 s upload, all at 2 W.
    assert found["consumed_j"].value == pytest.approx(104.0)
    assert found["wasted_j"].value == pytest.approx(48.0)
    assert found["train_j"].value == pytest.approx(80.0)
    assert found["upload_j"].value == pytest.approx(8.0)
    assert found["whole_run_j"].value == pytest.approx(400.0)
    assert found["duration_s"].value == pytest.approx(100.0)
    assert found["final_accuracy"].value == 0.85
    assert found["rounds_to_threshold"].value == 1.0  # t, whose step 0 only trains
    assert found["to_threshold_j"].value == pytest.approx(104.0)
    gains = {source: u for part, source, u in found["consumed_j"].terms if part is UncertaintyPart.GAIN}
    assert gains == {"pi-01": pytest.approx(0.56), "pi-02": pytest.approx(0.48)}  # 1 % of 56 J and of 48 J


def test_what_was_consumed_up_to_the_threshold_has_its_share_of_the_meters_error(
    hand_made: Callable[..., Path],
) -> None:
    (summary,) = report([hand_made()]).summaries
    assert summary.measured is not None
    by_step = {0: 60.0, 1: 20.0, 2: 24.0}  # 104 J in all, 80 J up to and with step 1
    summary = replace(summary, energy=replace(summary.measured, consumed_by_step=by_step))
    found = figures_of(ended(summary))
    assert found["to_threshold_j"].value == 80.0
    whole = found["consumed_j"].lasting()
    part = found["to_threshold_j"].lasting()
    assert part == {key: pytest.approx(u * 80.0 / 104.0) for key, u in whole.items()}
    never = replace(summary, learning=replace(summary.learning, threshold_step=None))
    assert "to_threshold_j" not in figures_of(ended(never))


def test_the_same_boards_gain_cancels_between_two_runs(hand_made: Callable[..., Path]) -> None:
    one, other = (report([hand_made(f"r{watts}", watts=watts)]).summaries[0] for watts in (2.0, 3.0))
    a, b = ended(one), ended(other)
    table = ab_table(2, {("A", 1): a, ("B", 1): b, ("A", 2): a, ("B", 2): b})
    row = table.row("consumed_j").found
    assert row.factor == pytest.approx(1.5)
    assert row.u_meter == pytest.approx(0.0, abs=1e-12)
    assert row.a.u == pytest.approx(math.hypot(0.56, 0.48))


def test_a_pair_of_which_a_run_is_missing_does_not_count(hand_made: Callable[..., Path]) -> None:
    a = ended(report([hand_made()]).summaries[0])
    table = ab_table(3, {("A", 1): a, ("B", 1): a, ("A", 2): a})
    assert (table.pairs, table.whole_pairs) == (3, 1)
    assert table.row("consumed_j").found.pairs == 1


def test_modelled_joules_stand_in_no_row_of_measured_ones(hand_made: Callable[..., Path]) -> None:
    virtual = hand_made(fleet="simulated", readings=False, phases=False)
    found = figures_of(ended(report([virtual]).summaries[0]))
    assert found["modelled_consumed_j"].value > 0.0
    assert not {"consumed_j", "wasted_j"} & found.keys()


def test_a_figure_that_some_pairs_lack_says_so(hand_made: Callable[..., Path]) -> None:
    a = ended(report([hand_made()]).summaries[0])
    never = replace(a, figures={n: found for n, found in a.figures.items() if n != "to_threshold_j"})
    table = ab_table(2, {("A", 1): a, ("B", 1): a, ("A", 2): never, ("B", 2): a})
    assert table.row("to_threshold_j").found.pairs == 1
    assert table.partly == (("used for learning up to the threshold, J", 1),)


def test_what_it_took_to_a_threshold_that_a_run_never_reached_is_not_compared(
    hand_made: Callable[..., Path],
) -> None:
    a = ended(report([hand_made()]).summaries[0])
    never = replace(a, figures={n: found for n, found in a.figures.items() if "threshold" not in n})
    table = ab_table(2, {("A", 1): a, ("B", 1): a, ("A", 2): never, ("B", 2): a})
    names = {row.compared.name for row in table.rows}
    assert not {name for name in names if "to_threshold" in name or "communication_j_per" in name}
    assert "final_accuracy" in names
    assert ("rounds to threshold", 1) in table.partly


def test_metrics_of_a_tasks_own_stand_in_accuracys_place_each_better_in_its_own_direction(
    hand_made: Callable[..., Path], tmp_path: Path
) -> None:
    """A is 60 then 50 off, and 0.1 then 0.3 explained; B 55 then 75, and 0.2 then 0.15."""
    scores = {"A": ((60.0, 0.1), (50.0, 0.3)), "B": ((55.0, 0.2), (75.0, 0.15))}
    runs = {}
    for arm, found in scores.items():
        (tmp_path / arm / "runs").mkdir(parents=True)
        names, better = ("rmse", "R2"), ("lower", "higher")
        own = [MetricsScored(step, names, values, better) for step, values in enumerate(found)]
        hand_made(f"{arm}/runs/demo", extra=own, accuracies=(None, None))
        runs[arm] = ended(report([tmp_path / arm / "runs/demo"]).summaries[0])
    table = ab_table(1, {("A", 1): runs["A"], ("B", 1): runs["B"]})
    rows = {row.compared.title: row.found for row in table.rows}
    assert rows["final rmse (lower is better)"].factor == pytest.approx(75.0 / 50.0)
    assert rows["best rmse (lower is better)"].factor == pytest.approx(55.0 / 50.0)
    assert rows["final R2 (higher is better)"].factor == pytest.approx(0.3 / 0.15)
    assert rows["best R2 (higher is better)"].factor == pytest.approx(0.3 / 0.2)
    titles = list(rows)
    assert titles.index("final rmse (lower is better)") < titles.index("trainings wasted")
    assert "final accuracy" not in titles


def test_a_point_that_an_older_version_ran_gets_the_flags_of_its_run_once(
    hand_made: Callable[..., Path], tmp_path: Path
) -> None:
    point = tmp_path / "point"
    (point / "runs").mkdir(parents=True)
    whole = ended(report([hand_made("point/runs/demo", stall_s=(20.0, 4.0))]).summaries[0])
    old = replace(whole, began="", flags=(), wall_s=3.0)
    found = with_flags(old, point)
    assert found == replace(whole, wall_s=3.0)
    assert any("coverage" in flag or "gap" in flag for flag in found.flags)
    assert read_outcome(point, "") == found
    assert with_flags(old, tmp_path) == old  # its run is gone
    write_outcome(tmp_path, whole)
    assert read_outcome(tmp_path, "") == whole  # terms and all
