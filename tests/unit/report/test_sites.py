"""Joules of a rail are never called joules of boards; sums over meters at different sites say so."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from roambench.contract.events import EventKind
from roambench.contract.records import AgentEvent
from roambench.meters.traits import UNCALIBRATED_RAIL, MeterDescription
from roambench.report.console import print_table
from roambench.report.documents.report import document
from roambench.report.report import report
from roambench.report.tables.brief import brief_table
from roambench.report.tables.energy import board_table
from roambench.report.tables.report import comparison_tables

S = 1_000_000_000
ALARM = "1-0040/1: the shunt's voltage is at the end of the chip's range"


def seen(**sites: str) -> dict[str, list[AgentEvent]]:
    """A kernel's sensor of each board, a look a second which takes 10 ms of a core."""
    row = replace(UNCALIBRATED_RAIL, nominal_s=1.0)
    return {
        name.replace("_", "-"): [
            MeterDescription("hwmon", "ina226", "hwmon", 1.0, own=row, site=site, look_cpu_s=0.01).to_event(
                100 * S
            )
        ]
        for name, site in sites.items()
    }


def test_joules_of_a_rail_are_called_so_in_tables_on_the_page_and_in_the_json(
    hand_made: Callable[..., Path],
) -> None:
    made = report([hand_made("run", own_events=seen(pi_01="CPU rail", pi_02="CPU rail"))])
    screen = io.StringIO()
    console = Console(file=screen, width=240)
    print_table(brief_table(made.summaries), console)
    tables = {table.key: table for table in comparison_tables(made.summaries)}
    print_table(tables["whole-run"], console)
    print_table(tables["table10-gross"], console)
    text = screen.getvalue()
    assert "boards in all" not in text.lower()
    for words in (
        "CPU rail in all, idling too",
        "used for learning, CPU rail",
        "Energy of the CPU rail in all",
    ):
        assert words in text
    for key in ("table10-gross", "table10-net", "whole-run", "phases", "transfers", "communication"):
        assert "run is of the CPU rail, not of whole boards." in tables[key].caption, key
    assert "Energy of the CPU rail in all" in made.html()
    energy = document(made.summaries)["runs"][0]["energy"]
    assert energy["sites"] == {"CPU rail": ["pi-01", "pi-02"]}
    assert [board["site"] for board in energy["boards"]] == ["CPU rail", "CPU rail"]


def test_a_sum_over_a_rail_and_a_whole_board_says_that_it_is_one(hand_made: Callable[..., Path]) -> None:
    (run,) = report([hand_made("run", own_events=seen(pi_01="CPU rail", pi_02=""))]).summaries
    assert run.measured is not None
    assert run.measured.scope_text == ("a sum over different sites (CPU rail of pi-01; whole board of pi-02)")
    assert any("compare boards with boards and rails with rails" in flag for flag in run.flags)
    assert [row[1] for row in board_table(run).rows] == ["CPU rail", "whole board"]


def test_runs_whose_meters_see_different_sites_should_not_be_compared(hand_made: Callable[..., Path]) -> None:
    rails = hand_made("rails", own_events=seen(pi_01="CPU rail", pi_02="CPU rail"))
    boards = hand_made("boards", own_events=seen(pi_01="", pi_02=""))
    told = json.dumps(document(report([rails, boards]).summaries))
    assert "the runs have different sites of meters" in told


def test_what_reading_its_own_sensor_costs_a_board_stands_beside_its_joules(
    hand_made: Callable[..., Path],
) -> None:
    (run,) = report([hand_made("run", own_events=seen(pi_01="", pi_02=""))]).summaries
    assert run.measured is not None
    assert run.measured.reading_w == pytest.approx(0.008)
    (table,) = [table for table in comparison_tables([run]) if table.key == "whole-run"]
    assert "boards read their own sensors, which costs each about 8.0 mW." in table.caption


def test_an_alarm_of_a_meter_is_quoted(hand_made: Callable[..., Path]) -> None:
    events = {"pi-02": [AgentEvent(EventKind.METER_ALARM, 120 * S, ALARM)]}
    (run,) = report([hand_made("run", own_events=events)]).summaries
    assert f"the meter raised an alarm on pi-02 (once: {ALARM})" in run.flags
