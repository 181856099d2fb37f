"""The estimate without a model of power where people and programs read it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from roambench.contract.phases import Phase
from roambench.energy.design_based import WithoutModel
from roambench.energy.energy_value import Energy
from roambench.report.comparison import RunComparisons
from roambench.report.evidence import read_runs
from roambench.report.phase_tables import phase_table
from roambench.report.summary import RunSummary, summarise


@pytest.fixture
def run(hand_made) -> RunSummary:
    """A run of 40 uploads of 24 J, of which it is said without a model how sure that is (2 u = 20 %)."""
    (summary,) = (summarise(run) for run in read_runs([hand_made()]))
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
