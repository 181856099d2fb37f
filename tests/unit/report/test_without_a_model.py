"""The estimate without a model of power where people and programs read it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from roambench.contract.phases import Phase
from roambench.energy.attribution.design_based import WithoutModel
from roambench.energy.attribution.steadiness import NoClock
from roambench.energy.energy_value import Energy
from roambench.report.comparison import RunComparisons
from roambench.report.documents.energy import energy_document
from roambench.report.summaries.evidence import RunEvidence, read_runs
from roambench.report.summaries.flags import flags_of
from roambench.report.summaries.run import RunSummary, summarise
from roambench.report.tables.phases import phase_table


@pytest.fixture
def evidence(hand_made) -> RunEvidence:
    (found,) = read_runs([hand_made()])
    return found


@pytest.fixture
def run(evidence) -> RunSummary:
    """A run of 40 uploads of 24 J, of which it is said without a model how sure that is (2 u = 20 %)."""
    summary = summarise(evidence)
    assert summary.energy is not None
    found = WithoutModel(Energy(24.0, 2.4), 40)
    phases = tuple(
        replace(item, without_model=found, by_design=("pi-01",)) if item.phase is Phase.UPLOAD else item
        for item in summary.energy.phases
    )
    return replace(summary, energy=replace(summary.energy, phases=phases))


def test_the_table_has_it_beside_the_split_with_the_number_of_transfers_that_would_do(run):
    table = phase_table([run])
    column = table.head.index("net without a model")
    cells = {row[1]: row[column] for row in table.rows}
    assert cells["upload"] == "24.0 ± 4.8 J (640)"
    assert cells["idle"] == "–"


def test_compare_says_it_in_a_line_and_in_json(run):
    made = RunComparisons((run,), (), None)
    assert (
        "demo-mohawk: upload, without the assumption of constant power while bytes move, printed for pi-01: "
        "24.0 ± 4.8 J net (40 transfers; ± 5 % takes about 640)"
    ) in made.verdicts()
    found = json.loads(made.json())["runs"][0]["design_based"]
    assert (found["upload"]["net"]["joules"], found["upload"]["spans_wanted"]) == (24.0, 640)
    assert found["download"] is None


@pytest.mark.parametrize("why", NoClock)
def test_why_nothing_bears_out_the_split_is_a_flag_with_what_would_tell(evidence, run, why):
    boards = tuple(replace(board, no_clock=why) for board in run.energy.boards)
    energy = replace(run.energy, boards=boards)
    flags = flags_of(evidence, run.orders, energy)
    (flag,) = (flag for flag in flags if flag.startswith("nothing bears out"))
    assert f"the meter looks at part of the time only, and its conversion clock tells nothing ({why})" in flag
    assert "There upload have the estimate without a model" in flag
    assert "100 ms" in flag
    assert energy_document(energy)["boards"][0]["split"]["no_conversion_clock"] == why


def test_phases_that_do_not_add_up_are_a_flag_and_a_figure_in_json(evidence, run):
    boards = tuple(replace(board, closed=False, closure_u=-4.2) for board in run.energy.boards)
    energy = replace(run.energy, boards=boards)
    said = "the phases do not add up to the whole run on pi-01 (-4.2 u)"
    assert any(flag.startswith(said) for flag in flags_of(evidence, run.orders, energy))
    assert energy_document(energy)["boards"][0]["split"]["closure_u"] == -4.2
    assert not any("add up" in flag for flag in flags_of(evidence, run.orders, run.energy))
