"""A doubt that all boards share is one line: how many they are, what it means, what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from roambench.contract.phases import Phase
from roambench.energy.account import Method, Split
from roambench.energy.rest_checks import EarlyCause, RestChecks, Tail
from roambench.report.documents.energy import energy_document
from roambench.report.summaries.evidence import RunEvidence, read_runs
from roambench.report.summaries.flags import flags_of
from roambench.report.summaries.run import summarise

NAMES = tuple(f"pi-{number:02d}" for number in range(1, 9))


@pytest.fixture
def evidence(hand_made) -> RunEvidence:
    (found,) = read_runs([hand_made()])
    return found


def flag(evidence: RunEvidence, begins: str, doubts: Mapping[str, Mapping[str, Any]], **of_all: Any) -> str:
    """The one that begins so, of a run of eight boards with these doubts about some of them."""
    summary = summarise(evidence)
    assert summary.energy is not None
    board = replace(summary.energy.boards[0], **of_all)
    boards = tuple(replace(board, device=name, **doubts.get(name, {})) for name in NAMES)
    flags = flags_of(evidence, summary.orders, replace(summary.energy, boards=boards))
    (found,) = (one.sentence for one in flags if one.sentence.startswith(begins))
    return found


def tailing(*phases: Phase, rest_s: float = 8.0) -> Split:
    """A board that still draws 0.25 W when the guard behind these phases is over."""
    tails = {phase: Tail(0.25, 9.0, rest_s) for phase in phases}
    return Split(Method.RESTS, 4.0, 2.6, 2.0, {}, RestChecks(tails))


@pytest.mark.parametrize(
    ("tails", "boards"),
    [
        (dict.fromkeys(NAMES, (Phase.UPLOAD,)), "on all 8 boards (upload 0.25 W) "),
        (
            dict.fromkeys(NAMES[:7], (Phase.UPLOAD,)),
            "on 7 of 8 boards (pi-01, pi-02, pi-03, pi-04 and 3 more (upload 0.25 W)) ",
        ),
        (
            dict.fromkeys(NAMES[2:4], (Phase.DOWNLOAD, Phase.UPLOAD)),
            "on pi-03 (download 0.25 W, upload 0.25 W), pi-04 (download 0.25 W, upload 0.25 W) ",
        ),
        (
            {"pi-02": (Phase.DOWNLOAD,), "pi-05": (Phase.UPLOAD,)},
            "on pi-02 (download 0.25 W), pi-05 (upload 0.25 W) ",
        ),
        (
            {**dict.fromkeys(NAMES, (Phase.UPLOAD,)), "pi-01": (Phase.TRAIN,)},
            "on all 8 boards (pi-01 (train 0.25 W), pi-02 (upload 0.25 W), pi-03 (upload 0.25 W), "
            "pi-04 (upload 0.25 W) and 4 more) ",
        ),
    ],
)
def test_boards_are_counted_where_they_are_many(evidence, tails, boards):
    doubts = {name: {"split": tailing(*phases)} for name, phases in tails.items()}
    told = flag(evidence, "set rounds.rest_s = ", doubts, split=tailing())
    assert told.startswith(f"set rounds.rest_s = 8: {boards}power had not fallen back to idle")


def test_the_rest_that_is_asked_for_outlasts_the_longest_tail(evidence):
    doubts = {name: {"split": tailing(Phase.UPLOAD, rest_s=10.0 + n)} for n, name in enumerate(NAMES)}
    assert flag(evidence, "set rounds.rest_s = 17: on all 8 boards", doubts)


def test_phases_that_touch_are_flagged_once_and_whole_runs_are_said_to_hold(evidence):
    told = flag(evidence, "set rounds.rest_s to measure phases by themselves", {})
    assert told.endswith(
        "on all 8 boards they touch, so a model of constant powers separated them; boards in all "
        "are not affected"
    )


def test_rests_that_are_shorter_than_the_meter_needs_are_named_with_those_it_needs(evidence):
    short = Split(Method.RESTS, 2.0, 1.3, 2.0, {}, RestChecks())
    told = flag(evidence, "set rounds.rest_s = 4: ", {"pi-02": {"split": short}}, split=tailing())
    assert "on pi-02 (2.0 s) rests were shorter than what this meter averages over" in told


def test_phases_that_begin_at_one_instant_of_the_meters_period_are_named(evidence):
    locked = replace(tailing(), checks=RestChecks(locked=(Phase.DOWNLOAD,)))
    told = flag(evidence, "set rounds.dither_s to half the meter's period", {"pi-03": {"split": locked}})
    assert "on pi-03 (download) phases began at one instant of that period every time" in told


@pytest.mark.parametrize(
    ("cause", "remedy"),
    [
        (EarlyCause.CLOCK, "set the clock of the meter's host by NTP"),
        (EarlyCause.TRANSFER, "begin transfers later or keep the radio awake"),
    ],
)
def test_power_before_a_phase_is_named_with_its_cause(evidence, cause, remedy):
    early = replace(tailing(), checks=RestChecks(early_w={Phase.DOWNLOAD: 0.35}, early_cause=cause))
    told = flag(evidence, remedy, {"pi-03": {"split": early}}, split=tailing())
    assert "on pi-03 (download 0.35 W) power rose before" in told


def test_lines_that_are_lost_under_load_are_named(evidence):
    lost = replace(tailing(), checks=RestChecks(lost_share=0.2))
    told = flag(evidence, "make the meter's host less busy", {"pi-03": {"split": lost}}, split=tailing())
    assert "on pi-03 (20% of lines) lines were lost" in told


def test_a_split_that_nothing_speaks_against_has_no_flag(evidence):
    summary = summarise(evidence)
    assert summary.energy is not None
    boards = tuple(replace(board, split=tailing()) for board in summary.energy.boards)
    flags = flags_of(evidence, summary.orders, replace(summary.energy, boards=boards))
    assert not [one for one in flags if one.sentence.startswith("set rounds.")]


def test_json_has_how_each_board_was_split_and_what_speaks_against_it(evidence):
    summary = summarise(evidence)
    assert summary.energy is not None
    split = replace(
        tailing(Phase.UPLOAD), checks=RestChecks({Phase.UPLOAD: Tail(0.25, 9.0, 8.0)}, (Phase.DOWNLOAD,))
    )
    boards = tuple(replace(board, split=split) for board in summary.energy.boards)
    found = energy_document(replace(summary.energy, boards=boards))
    assert found is not None
    assert found["boards"][0]["split"] == {
        "method": "rests",
        "rest_s": 4.0,
        "guard_s": 2.6,
        "tails": {"upload": {"watts": 0.25, "z": 9.0, "rest_s": 8.0}},
        "locked": ["download"],
        "early_w": {},
        "early_cause": None,
        "lost_share": 0.0,
    }
