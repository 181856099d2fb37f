"""A doubt that all boards share is one line: how many they are, what it means, what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from roambench.energy.attribution.steadiness import NoClock
from roambench.report.summaries.evidence import RunEvidence, read_runs
from roambench.report.summaries.flags import flags_of
from roambench.report.summaries.run import summarise
from roambench.report.summaries.truth_checks import TruthCheck

NAMES = tuple(f"pi-{number:02d}" for number in range(1, 9))
TRUE = TruthCheck(1, 1, 9.0, 0.1, 9.0)


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
    (found,) = (one for one in flags if one.startswith(begins))
    return found


@pytest.mark.parametrize(
    ("restless", "boards"),
    [
        (dict.fromkeys(NAMES, ("idle",)), "on all 8 boards (idle): "),
        (
            dict.fromkeys(NAMES[:7], ("idle",)),
            "on 7 of 8 boards (pi-01, pi-02, pi-03, pi-04 and 3 more (idle)): ",
        ),
        (dict.fromkeys(NAMES[2:4], ("idle", "wait")), "on pi-03 (idle, wait), pi-04 (idle, wait): "),
        ({"pi-02": ("idle",), "pi-05": ("wait",)}, "on pi-02 (idle), pi-05 (wait): "),
        (
            {**dict.fromkeys(NAMES, ("idle",)), "pi-01": ("wait",)},
            "on all 8 boards (pi-01 (wait), pi-02 (idle), pi-03 (idle), pi-04 (idle) and 4 more): ",
        ),
    ],
)
def test_boards_are_counted_where_they_are_many(evidence, restless, boards):
    told = flag(
        evidence, "power is restless", {name: {"restless": levels} for name, levels in restless.items()}
    )
    assert told.startswith(f"power is restless {boards}")


@pytest.mark.parametrize(("truth", "told"), [(None, "quiet the board"), (TRUE, "nothing is wrong")])
def test_emulated_boards_are_restless_on_purpose(evidence, truth, told):
    assert told in flag(evidence, "power is restless", {}, restless=("idle",), truth=truth)


def test_why_no_clock_was_found_is_told_once_for_all(evidence):
    told = flag(evidence, "nothing bears out", {}, no_clock=NoClock.FASTER)
    assert "on all 8 boards: the meter looks at part of the time only" in told
    assert told.endswith("Run in real time (local.time_scale = 1), or with a meter that prints every 100 ms")
