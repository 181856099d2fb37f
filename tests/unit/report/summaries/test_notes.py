"""What agents note about themselves and their meters is counted beside the joules that it may spoil."""

from __future__ import annotations

import json

import pytest
from rich.console import Console

from roambench.contract.events import EventKind
from roambench.contract.records import AgentEvent
from roambench.report.console import print_brief
from roambench.report.report import report
from roambench.report.summaries.notes import SENTENCES
from roambench.rounds.records import FleetEvent

S = 1_000_000_000
#: The hand-made run's begin.
START = 100 * S

#: Kinds that no figure of a board rests on, or that the report tells in another way.
ELSEWHERE = {
    "an order's life, from which its phases come": {
        EventKind.DOWNLOAD_STARTED,
        EventKind.TRAIN_STARTED,
        EventKind.TRAIN_FINISHED,
        EventKind.EVALUATE_STARTED,
        EventKind.EVALUATE_FINISHED,
        EventKind.UPLOAD_STARTED,
        EventKind.EXCHANGE_STARTED,
        EventKind.EXCHANGE_FINISHED,
    },
    "incidents of the journal": {
        EventKind.TRANSFER_BROKE_OFF,
        EventKind.PEER_REFUSED,
        EventKind.NO_PEER_PORT,
        EventKind.CANNOT_RESUME,
        EventKind.TRAINER_NOT_READY,
        EventKind.DUTY_REFUSED,
        EventKind.CERTIFICATE_RENEWED,
    },
    "the run's begin and end, its clocks and what its records are of": {
        EventKind.AGENT_STOPPING,
        EventKind.DUTY_BEGAN,
        EventKind.RECORD_CONTEXT_BEGINS,
        EventKind.FETCHING_DATA,
        EventKind.TRAINER_READY,
        EventKind.PEER_PORT_OPEN,
    },
    "the table of meters, the state of spools, the end of what was counted": {
        EventKind.METER_DESCRIBED,
        EventKind.METER_OK,
        EventKind.SPOOL_STATE,
        EventKind.STORE_RECOVERED,
    },
    "readings that are missing or left out are counted as such": {EventKind.METER_LINE_COUNTS},
    "seen by the controller": {
        EventKind.BOARD_TAKEN,
        EventKind.SESSION_OPENED,
        EventKind.SESSION_CLOSED,
        EventKind.LEFT_IN_SPOOL,
        EventKind.SESSION_LOST,
        EventKind.SESSION_REFUSED,
        EventKind.SESSION_CUT_OFF,
        EventKind.FRAMES_SLOWED,
        EventKind.FRAME_IGNORED,
        EventKind.ANSWER_IGNORED,
        EventKind.CLOCK_OFFSET,
        EventKind.CLOCK_NOT_PROBED,
        EventKind.CALL_FAILED,
        EventKind.CALL_REFUSED,
        EventKind.CONNECTION_REFUSED,
        EventKind.DOWNLOAD_REFUSED,
        EventKind.DRAIN_REFUSED,
        EventKind.IDENTITY_REFUSED,
        EventKind.PORT_REPLACED,
        EventKind.UPLOAD_BROKE_OFF,
        EventKind.UPLOAD_REFUSED,
    },
}


def test_every_kind_of_event_is_counted_or_told_elsewhere():
    elsewhere = set[EventKind]().union(*ELSEWHERE.values())
    assert elsewhere | set(SENTENCES) == set(EventKind)
    assert not elsewhere & set(SENTENCES)


def noted(*events: tuple[EventKind, int, str]) -> list[AgentEvent]:
    return [AgentEvent(kind, START + at_s * S, detail) for kind, at_s, detail in events]


def test_phases_that_carried_an_agents_own_records_are_counted_with_their_joules(hand_made):
    """Download from 10 to 14 s, training from 14 to 34 s, upload from 50 to 54 s."""
    carries = "records were still on their way after 5 s: the phase that begins carries them"
    events = noted(
        (EventKind.NOT_QUIET, 1, "records were still on their way after 5 s: the idle baseline carries them"),
        (EventKind.NOT_QUIET, 9, carries),
        (EventKind.NOT_QUIET, 13, carries),
    )
    made = report([hand_made(own_events={"pi-01": events})])
    (run,) = made.summaries
    (note,) = run.boards[0].notes
    assert (note.kind, note.count, note.phases) == (EventKind.NOT_QUIET, 3, 2)
    assert 0.0 < note.joules < note.of_joules
    (flag,) = [flag for flag in run.flags if flag.startswith("not quiet on pi-01 (2 phases, ")]
    assert f"{note.joules:,.1f} of {note.of_joules:,.1f} J" in flag
    console = Console(width=200, record=True, file=None, force_terminal=False)
    with console.capture() as shown:
        print_brief(made.summaries, console)
    assert "not quiet on pi-01" in shown.get()
    assert "not quiet: 2 phases" in made.html()
    (board, other) = json.loads(made.json())["runs"][0]["board_states"]
    assert other["noted"] == []
    assert board["noted"][0]["count"] == 3
    assert board["noted"][0]["joules"] == pytest.approx(note.joules)


def test_what_meters_and_stores_did_is_counted_board_by_board(hand_made):
    events = noted(
        (EventKind.METER_OFF, -5, "before the run"),
        (EventKind.SPOOL_DAMAGED, -5, "before the run, and its records are gone"),
        (EventKind.METER_LOST, 20, "/dev/ttyUSB0\x1b[2J" + "x" * 1000),
        (EventKind.METER_LOST, 40, ""),
        (EventKind.METER_ALARM, 41, "none"),
        (EventKind.STORE_SLOW, 45, "influxdb: 12 s to store 500 records"),
        (EventKind.STORE_RECOVERED, 50, "influxdb"),
    )
    (run,) = report([hand_made(own_events={"pi-02": events})]).summaries
    assert run.boards[0].notes == ()
    notes = run.boards[1].notes
    assert {note.kind: note.count for note in notes} == {
        EventKind.STORE_SLOW: 1,
        EventKind.SPOOL_DAMAGED: 1,
        EventKind.METER_LOST: 2,
    }
    assert all(note.first.isprintable() and len(note.first) < 320 for note in notes)
    lost = "the meter was lost in mid-run on pi-02 (2 times: /dev/ttyUSB0 "
    assert any(flag.startswith(lost) for flag in run.flags)
    assert any(flag.startswith("a store was slow to take records on pi-02 (once)") for flag in run.flags)


def test_a_meter_that_was_not_open_when_the_run_began_says_why(hand_made):
    reason = "meter ina219: cannot be opened (1-0040/1: the kernel reckons with a shunt of 10000 uohm)"
    refused = (EventKind.METER_UNAVAILABLE, -9, reason)
    (run,) = report([hand_made("refused", own_events={"pi-01": noted(refused)})]).summaries
    assert f"the meter could not be opened on pi-01 (once: {reason})" in run.flags
    opened = noted(refused, (EventKind.METER_OK, -5, ""))
    (run,) = report([hand_made("opened", own_events={"pi-01": opened})]).summaries
    assert run.boards[0].notes == ()


def test_a_run_in_which_nothing_was_noted_says_nothing_of_it(hand_made):
    opened = FleetEvent(0, 0, "pi-01", EventKind.SESSION_OPENED)
    (run,) = report([hand_made(extra=[opened])]).summaries
    begins = tuple(sentence.partition("{on}")[0] for sentence in SENTENCES.values())
    assert not [flag for flag in run.flags if flag.startswith(begins)]
