"""Runs that differ in the seed alone: means by hand, pairs of a seed, and their page, figures and tables."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from page_data import page_data
from roambench.cli.main import app
from roambench.report.figures.settings import settings_charts
from roambench.report.pages.page import footer_of
from roambench.report.quantities import QUANTITIES
from roambench.report.report import report
from roambench.report.settings import RepeatedSetting, _best, settings_of
from roambench.report.summaries.report_flags import shared_flags
from roambench.report.table import ReportTable
from roambench.report.tables.settings import latex, pairs_table, settings_csv, settings_table
from roambench.rounds.records import MixingPlanned, ModelsScored, PeersDescribed
from roambench.runs.groups import run_labels, runs_at
from roambench.runs.info import RunState

ACCURACIES = {0.1: (0.50, 0.52, 0.54), 0.5: (0.80, 0.83, 0.84), 0.9: (0.79, 0.84, 0.85)}


@pytest.fixture
def grid(hand_made: Callable[..., Path], tmp_path: Path) -> Path:
    """Three values of learning.alpha, three seeds; and a fourth seed of the first that was interrupted."""
    for alpha, accuracies in ACCURACIES.items():
        for seed, accuracy in enumerate(accuracies, start=1):
            point(hand_made, tmp_path, alpha, seed, accuracy)
    point(hand_made, tmp_path, 0.1, 4, 0.99, state=RunState.INTERRUPTED)
    return tmp_path / "grid"


def point(
    hand_made: Callable[..., Path], home: Path, alpha: float, seed: int, accuracy: float, **changes: object
) -> None:
    folder = f"grid/points/mohawk-seed{seed}-{alpha}/runs"
    (home / folder).mkdir(parents=True)
    config = {"seed": seed, "learning": {"alpha": alpha}, "rounds": {"cloud_every_steps": 1}}
    hand_made(f"{folder}/mohawk", config=config, accuracies=(0.1, accuracy), **changes)


def test_the_footer_of_many_runs_has_the_first_and_the_last_beginning(grid: Path) -> None:
    runs = report(runs_at([grid])).summaries
    dated = [
        replace(run, info=replace(run.info, created_utc=f"2026-11-{day:02d}"))
        for day, run in zip(range(20, 20 + len(runs)), reversed(runs), strict=True)
    ]
    assert footer_of(dated).startswith(f"Runs of 2026-11-20 to 2026-11-{19 + len(runs)}. ")
    assert footer_of(dated[:2]).startswith("Runs of 2026-11-20, 2026-11-21. ")


def test_a_setting_has_the_means_of_its_seeds_and_the_best_is_found_by_pairs(grid: Path) -> None:
    runs = runs_at([grid])
    assert sorted(run_labels(runs))[0] == "mohawk alpha=0.1 seed=1"
    found = settings_of(report(runs).summaries)
    assert found.repeated
    assert [row.name for row in found.rows] == ["alpha=0.1", "alpha=0.5", "alpha=0.9"]
    assert found.notes == ("alpha=0.1: in no mean, as not finished or not fit: mohawk alpha=0.1 seed=4",)
    mean = found.rows[0].spread(QUANTITIES["final_accuracy"])
    assert mean.interval is not None
    # t of 2 degrees of freedom is 4.3027; the deviation 0.02.
    assert (mean.mean, mean.interval.half) == (
        pytest.approx(0.52),
        pytest.approx(4.3027 * 0.02 / 3**0.5, rel=1e-4),
    )
    accuracy = found.best[0]
    document = json.loads(report(runs).json())["settings"]
    assert next(row["figures"]["final_accuracy"]["interval"] for row in document["settings"]) == [
        pytest.approx(0.52 - mean.interval.half),
        pytest.approx(0.52 + mean.interval.half),
    ]
    assert [(best["setting"], best["sentence"]) for best in document["best"]] == [
        (best.setting.name, best.sentence) for best in found.best
    ]
    assert [pair["difference"] for pair in document["best"][0]["beside"]] == [
        pair.difference for _, pair in accuracy.beside
    ]
    assert accuracy.sentence == (
        "Final accuracy: alpha=0.9 is best with 82.7 ± 8.0 %; surely better than 1 of the 2 other settings, "
        "not resolved from alpha=0.5."
    )
    beside = {row.name: improvement for row, improvement in accuracy.beside}
    assert beside["alpha=0.5"].pairs == 3
    wasted = next(best for best in found.best if best.quantity.name == "wasted_share")
    assert wasted.sentence == "Trainings wasted: all settings have the same mean, 50 ± 0 %."


@pytest.mark.parametrize(("fleet", "counted"), [("local", 2), ("simulated", 1), ("rehearsal", 1)])
def test_of_runs_of_one_seed_without_agents_the_last_counts(
    hand_made: Callable[..., Path], tmp_path: Path, fleet: str, counted: int
) -> None:
    for name in ("mohawk", "again"):
        hand_made(name, config={"seed": 1}, fleet=fleet, readings=fleet == "local", phases=fleet == "local")
    found = settings_of(report(runs_at([tmp_path])).summaries)
    (row,) = found.rows
    assert (len(row.runs), row.runs_in_all) == (counted, 2)
    assert len(found.notes) == 2 - counted
    for note in found.notes:
        assert note.startswith("mohawk: in no mean, as another run has the same seed: ")


def test_of_settings_that_never_reach_a_threshold_nothing_is_said(grid: Path) -> None:
    """Two reach it, one of them in two seeds of three."""
    found = settings_of(report(runs_at([grid])).summaries)
    assert "rounds_to_threshold" not in {best.quantity.name for best in found.best}


def test_a_setting_that_seldom_reaches_a_threshold_is_not_the_fastest(grid: Path) -> None:
    """The second is there after one round in two seeds, and never in the third."""
    runs = settings_of(report(runs_at([grid])).summaries).rows[1].runs
    rounds = {"a": (2.0, 2.0, 3.0), "b": (1.0, 1.0, None), "c": (7.0, 7.0, 9.0)}
    rows = [
        RepeatedSetting(
            name,
            {},
            runs,
            3,
            tuple({} if value is None else {"rounds_to_threshold": value} for value in found),
        )
        for name, found in rounds.items()
    ]
    best = _best(QUANTITIES["rounds_to_threshold"], rows)
    assert best is not None
    assert best.sentence == (
        "Rounds to threshold: a is best with 2.3 ± 1.4; surely better than the other setting; "
        "not every run of 1 more setting reached it."
    )
    for found, sentence in (
        (
            (2.0, 2.0, 2.0),
            "2 settings have the same mean, 2.0 ± 0.0; not every run of 1 more setting reached it.",
        ),
        (
            (2.0, 2.0, 2.5),
            "not resolved; c has the best mean, 2.17 ± 0.72; not every run of 1 more setting reached it.",
        ),
    ):
        last = replace(rows[2], figures=tuple({"rounds_to_threshold": value} for value in found))
        same = replace(
            rows[0],
            figures=({"rounds_to_threshold": 2.0},) * 2 + ({"rounds_to_threshold": 2.0 + (found[2] > 2.0)},),
        )
        best = _best(QUANTITIES["rounds_to_threshold"], [same, rows[1], last])
        assert best is not None
        assert best.sentence == f"Rounds to threshold: {sentence}"
    alike = [
        replace(row, figures=({"rounds_to_threshold": value},) * 3)
        for row, value in zip(rows[:2], (2.0, 3.0), strict=True)
    ]
    best = _best(QUANTITIES["rounds_to_threshold"], alike)
    assert best is not None
    assert best.sentence == (
        "Rounds to threshold: the same in every pair, no claim; a has the best mean, 2.0 ± 0.0."
    )
    ended = replace(rows[1], runs=(), figures=())
    best = _best(QUANTITIES["rounds_to_threshold"], [rows[0], ended, rows[2]])
    assert best is not None
    assert "reached it" not in best.sentence


def test_runs_of_a_sweep_come_by_setting_and_seed_and_a_note_of_all_names_none(grid: Path) -> None:
    runs = report(runs_at([grid])).summaries
    assert [run.label for run in runs][:5] == [
        *(f"mohawk alpha=0.1 seed={seed}" for seed in (1, 2, 3, 4)),
        "mohawk alpha=0.5 seed=1",
    ]
    assert "all 10 runs" in {labels for labels, _ in shared_flags(runs)}


def test_its_tables_are_ready_for_a_paper(grid: Path) -> None:
    found = settings_of(report(runs_at([grid])).summaries)
    table = settings_table(found)
    assert table.rows[0][:3] == ("alpha=0.1", "3 of 4", "52.0 ± 5.0 %")
    pairs = pairs_table(found)
    assert pairs is not None
    assert {row[1:4] for row in pairs.rows if row[0] == "final accuracy"} == {
        ("alpha=0.9", "alpha=0.1", "3"),
        ("alpha=0.9", "alpha=0.5", "3"),
    }
    row = next(csv.DictReader(io.StringIO(settings_csv(found))))
    assert (row["learning.alpha"], row["runs"], row["final_accuracy_n"]) == ("0.1", "3", "3")
    assert float(row["final_accuracy_low"]) == pytest.approx(0.52 - 4.3027 * 0.02 / 3**0.5, rel=1e-3)
    assert float(row["consumed_j_u"]) > 0.0
    odd = latex(ReportTable("t", "", "", ("a_b", "50 %"), (("c\\d", "1 ± 2"), ("~/a^b", "x"))))
    assert [line for line in odd.splitlines() if "&" in line] == [
        r"a\_b & 50 \% \\",
        r"c\textbackslash{}d & 1 $\pm$ 2 \\",
        r"\textasciitilde{}/a\textasciicircum{}b & x \\",
    ]


def test_an_interval_that_two_seeds_leave_open_is_not_printed_in_thirty_digits(
    hand_made: Callable[..., Path], tmp_path: Path
) -> None:
    for alpha, accuracies in {0.1: (0.02, 0.9), 0.5: (0.9, 0.03), 0.9: (0.5, 0.5)}.items():
        for seed, accuracy in enumerate(accuracies, start=1):
            point(hand_made, tmp_path, alpha, seed, accuracy)
    made = report(runs_at([tmp_path / "grid"]))
    pairs = pairs_table(settings_of(made.summaries))
    assert pairs is not None
    intervals = [row[5] for row in pairs.rows]
    assert any(text.endswith("> 10⁶]") for text in intervals)
    assert max(map(len, intervals)) < 25
    single = report([runs_at([tmp_path / "grid"])[0]])
    (aggregated,) = [one for one in page_data(single.html())["figures"] if one["key"] == "aggregated"]
    assert aggregated["layout"]["yaxis"]["dtick"] == 1  # else its ticks are 0, 0, 1, 1


def test_a_sweep_is_reported_and_drawn_by_its_settings(grid: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    said = CliRunner().invoke(app, ["report", str(grid), "-o", str(page)])
    assert said.exit_code == 0, said.output
    assert "Final accuracy: alpha=0.9 is best with" in said.output
    assert f"all tables: roambench report {grid} --full" in said.output
    assert "<h1>Final accuracy: alpha=0.9 is best with" in page.read_text()
    out = tmp_path / "figs"
    drawn = CliRunner().invoke(
        app, ["figures", str(grid), "-o", str(out), "--format", "svg", "--style", "slides"]
    )
    assert drawn.exit_code == 0, drawn.output
    names = ["accuracy.svg", "accuracy-per-joule.svg", "energy.svg", "settings.csv", "settings.tex"]
    assert [Path(line).name for line in drawn.output.splitlines() if line.startswith(str(out))] == names
    svg = (out / "accuracy.svg").read_text()
    assert [place for place in range(4) if f'id="accuracy-{place}"' in svg] == [0, 1, 2]  # a curve a setting
    assert 'width="720pt"' in svg


def test_decentralised_settings_have_the_curves_of_peers_as_means_with_bands(
    hand_made: Callable[..., Path], tmp_path: Path
) -> None:
    for alpha in (0.1, 0.5):
        for seed in (1, 2, 3):
            average = alpha + 0.1 * seed
            mixing = [
                MixingPlanned(step, (2, 2), (0, 1, 0, 1), (0.5,) * 4, 0.25 * seed, 0.2) for step in (0, 1)
            ]
            scored = [
                ModelsScored(step, (0, 1), (average + 0.1, average), (1.0, 1.0), ("a", "b"), average, 1.0)
                for step in (0, 1)
            ]
            extra = [PeersDescribed(0, (0,), (5.0, 0.0)), *mixing, *scored]
            point(hand_made, tmp_path, alpha, seed, average, extra=extra)
    found = settings_of(report(runs_at([tmp_path / "grid"])).summaries)
    charts = {chart.key: chart for chart in settings_charts(found)}
    assert [len(charts[key].series) for key in charts if key.startswith("peer-")] == [2] * 6
    (low, high) = charts["peer-average"].series
    assert (low.name, list(low.x), list(high.y)) == ("alpha=0.1", [0, 1], [pytest.approx(70.0)] * 2)
    # t of 2 degrees of freedom is 4.3027; the deviation 10 points.
    assert low.upper[0] - low.y[0] == pytest.approx(4.3027 * 10.0 / 3**0.5, rel=1e-3)
    assert list(charts["peer-gap"].series[0].y) == [pytest.approx(10.0)] * 2
    assert list(charts["peer-spectral-gap"].series[0].y) == [pytest.approx(0.5)] * 2
    assert list(charts["peer-neighbours-high"].series[0].y) == [1.0, 2.0]
    page = report(runs_at([tmp_path / "grid"])).html()
    assert "Accuracy of the mean model" in page


def test_two_runs_of_two_seeds_stay_side_by_side(hand_made: Callable[..., Path]) -> None:
    runs = [hand_made(f"run-{seed}", config={"seed": seed}) for seed in (1, 2)]
    assert not settings_of(report(runs).summaries).repeated
