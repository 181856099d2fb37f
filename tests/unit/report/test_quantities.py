"""The one table of a run's figures: every row has its figure where a run has one, and says what it is of."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from roambench.contract.phases import Phase
from roambench.energy.energy_value import Energy
from roambench.report.quantities import QUANTITIES, figures_of, number_of
from roambench.report.report import report
from roambench.report.summaries.run import RunSummary
from roambench.runs.export import export_run
from roambench.runs.folder import RunFolder
from small_runs import measured, simulated


def summed(make: Callable[[Path], None], path: Path) -> RunSummary:
    make(path)
    (summary,) = report([path]).summaries
    return summary


@pytest.mark.parametrize("make", [measured, simulated])
def test_the_figures_are_those_of_the_reports_json(make: Callable[[Path], None], tmp_path: Path) -> None:
    run = summed(make, tmp_path / "run")
    found = {name: number_of(figure) for name, figure in figures_of(run).items()}
    document = json.loads(report([tmp_path / "run"]).json())["runs"][0]
    basis, key = ("energy", "joules") if make is measured else ("energy_modelled", "modelled_j")
    assert run.basis == ("measured" if make is measured else "modelled")
    for kind, net in (("gross", ""), ("net", "_net")):
        for name in ("consumed", "wasted", "failed"):
            there = document[basis]["table10"][kind][f"cumulative_{name}"][key]
            assert found[f"{name}{net}_j"] == there
            assert document[f"{name}{net}_j"] == (there if make is measured else None)
        for phase in Phase:
            there = document[basis]["phases"].get(phase.value)
            assert found.get(f"{phase.value}{net}_j") == (None if there is None else there[kind][key])
    learning, trainings = document["learning"], document["trainings"]
    assert found.get("final_accuracy") == learning["final_accuracy"]
    assert found["trainings"] == trainings["ordered"]
    assert found.get("wasted_share") == trainings["wasted_share"]


def test_the_summary_of_a_run_on_virtual_devices_has_the_reports_figures(tmp_path: Path) -> None:
    run = summed(simulated, tmp_path / "run")
    with RunFolder.open(tmp_path / "run") as folder:
        export_run(folder)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    found = figures_of(run)
    for name in ("final_accuracy", "best_accuracy", "final_loss", "threshold_step", "steps", "trainings"):
        assert summary[name] == found.get(name), name
    assert (summary["wasted"], summary["failed"]) == (found["wasted_trainings"], found["failed_trainings"])
    assert summary["aggregated_per_step"] == found["aggregated_per_step"] == 1.0
    assert summary["modelled"]["total"]["gross_j"] == number_of(found["consumed_j"])


def test_energies_keep_what_they_share(hand_made: Callable[..., Path]) -> None:
    """1 % of the gain of each board, 56 J and 48 J, is one error of whatever it measures."""
    (run,) = report([hand_made()]).summaries
    figures = figures_of(run)
    for name in ("consumed_j", "train_j", "to_threshold_j", "whole_run_j"):
        energy = figures[name]
        assert isinstance(energy, Energy)
        gains = {source: u for part, source, u in energy.terms if part == "gain"}
        assert gains.keys() == {"pi-01", "pi-02"}
        assert sum(gains.values()) == pytest.approx(0.01 * energy.joules)


def test_a_board_left_out_of_the_sums_leaves_no_measured_joules_to_compare(tmp_path: Path) -> None:
    run = summed(measured, tmp_path / "run")
    assert run.measured is not None
    fewer = replace(run, energy=replace(run.measured, without={"pi-02": "its clock was refused"}))
    gone = figures_of(run).keys() - figures_of(fewer).keys()
    assert gone == {name for name in figures_of(run) if QUANTITIES[name].unit == "J" and name != "modelled_j"}
    assert gone >= {"consumed_j", "whole_run_j", "train_j"}


def test_a_heading_says_basis_and_unit() -> None:
    wasted = QUANTITIES["wasted_j"]
    assert wasted.heading("modelled") == "wasted (modelled), J"
    assert wasted.heading() == "wasted, J"
    assert QUANTITIES["final_accuracy"].heading() == "final accuracy"
    assert wasted.basis_in("modelled") == "modelled"
    assert QUANTITIES["modelled_j"].basis_in("measured") == "modelled"
    assert QUANTITIES["trainings"].basis_in("measured") is None


def test_joules_have_a_basis_and_nothing_else_has_one() -> None:
    of_joules = {name for name, row in QUANTITIES.items() if row.unit == "J"}
    assert {name for name, row in QUANTITIES.items() if row.basis} == of_joules - {"emulator_true_j"}
