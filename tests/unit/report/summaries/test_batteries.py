"""Charge over time and devices that went off, as a report has them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from roambench.contract.phases import Outcome
from roambench.report.summaries.batteries import Death, battery_summary
from roambench.report.summaries.evidence import read_runs
from roambench.report.summaries.run import summarise
from roambench.report.tables.batteries import battery_tables
from roambench.rounds.records import BatteriesSeen, OutcomeDecided, StepClosed
from roambench.runs.event_log import EventLog

NAMES = ("pi-01", "pi-02")


def _seen(step: int, charges: tuple[float, float], off: tuple[int, ...]) -> BatteriesSeen:
    return BatteriesSeen(step, charges, (0.0, 0.0), (0.0, 0.0), (), off)


LOG = [
    _seen(0, (1.0, 0.5), ()),
    StepClosed(0, 0, (0, 1), (), None, None),
    _seen(1, (0.8, 0.0), (1,)),
    OutcomeDecided(1, 1, "r/0/1/train", Outcome.WASTED, "absent"),
    _seen(2, (0.0, 0.1), (0, 1)),
    _seen(3, (0.0, 0.4), (0,)),
]


def test_deaths_have_their_steps_and_what_became_of_their_models() -> None:
    found = battery_summary(EventLog.of(LOG), NAMES)
    assert found is not None
    assert found.deaths == (
        Death(1, "pi-02", 3, held=True, lost=True),
        Death(2, "pi-01", None, held=False, lost=False),
    )
    assert (found.count, found.lost, found.lowest_charge, found.dead_share) == (2, 1, 0.0, 0.5)
    assert found.mean_charges == (0.75, 0.4, 0.05, 0.2)
    assert found.lowest_charges == (0.5, 0.0, 0.0, 0.0)
    assert battery_summary(EventLog.of(LOG[1:2]), NAMES) is None


def test_a_report_has_a_table_of_charges_and_one_of_deaths(hand_made: Callable[..., Path]) -> None:
    extra = [record for record in LOG if isinstance(record, BatteriesSeen)]
    run = summarise(read_runs([hand_made(extra=extra)])[0])
    charges, deaths = battery_tables(run)
    assert charges.rows[0] == ("0", "75.0 %", "50.0 %")
    assert charges.rows[-1] == ("3", "20.0 %", "0.0 %")
    assert [row[:3] for row in deaths.rows] == [
        ("1", run.info.device_names[1], "3"),
        ("2", run.info.device_names[0], "–"),
    ]
    assert battery_tables(summarise(read_runs([hand_made("other")])[0])) == []
