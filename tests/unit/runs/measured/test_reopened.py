"""A board's meter is known to be its own until it is opened again, unless something tells it is the same."""

from __future__ import annotations

import json

import pytest

from roambench.contract.events import EventKind
from roambench.contract.records import AgentEvent
from roambench.meters.traits import MeterDescription
from roambench.runs.measured.reopened import reopenings
from roambench.spool.record_context import RecordContext

SERIAL = "usb 10c4:ea60 serial A50285BI"
PLUG = "usb 10c4:ea60 plugged in as 1-7 since boot b007"


def opened(at: int, unit: str = "", serial: str = "") -> AgentEvent:
    return MeterDescription("smartpower2", "/dev/ttyUSB0", "smartpower2", serial=serial, unit=unit).to_event(
        at
    )


def lost(at: int, why: str = "the port has gone") -> AgentEvent:
    return AgentEvent(EventKind.METER_LOST, at, why)


def booted(at: int, boot: str) -> AgentEvent:
    return RecordContext(boot, "0/1.0", 0).to_event(at)


def started(at: int) -> AgentEvent:
    return AgentEvent(EventKind.AGENT_STARTED, at, "0.1")


BOOTED = "its board was booted"
LOST = "its line was lost (the port has gone)"


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([booted(0, "a"), started(0), opened(1), opened(5, "")], []),  # its period became known
        ([opened(1), lost(2), opened(3)], [(3, LOST)]),  # of an older version, or a meter that tells nothing
        ([opened(1, PLUG), lost(2), opened(3, PLUG[:-1])], [(3, LOST)]),
        ([opened(1, SERIAL), lost(2), opened(3, SERIAL)], []),
        ([opened(1, SERIAL), lost(2), opened(3, "usb 10c4:ea60 serial B")], [(3, LOST)]),
        ([opened(1, SERIAL), lost(2), opened(3, "")], [(3, LOST)]),
        ([opened(1, PLUG), started(2), opened(3, PLUG)], []),  # the agent died, its meter was not touched
        ([opened(1, PLUG), started(2), opened(3, "")], [(3, "its agent was started again")]),
        ([booted(0, "a"), opened(1, PLUG), booted(2, "b"), opened(3, PLUG[:-1])], [(3, BOOTED)]),
        ([booted(0, "a"), opened(1, SERIAL), booted(2, "b"), started(2), opened(3, SERIAL)], []),
        ([opened(1, SERIAL), opened(3, PLUG)], [(3, "it is another unit")]),
        ([opened(1, serial="A"), opened(3, serial="B")], [(3, "it is described as another meter")]),
        ([opened(1, ""), opened(2, "mac a"), lost(3), opened(4, "mac a")], []),  # who sends is known by then
        ([lost(1), opened(2, PLUG)], []),
        ([opened(1), lost(2), opened(3), lost(4), opened(5)], [(3, LOST), (5, LOST)]),
        ([opened(1), lost(2, "\x1b" + "y" * 5000), opened(3)], [(3, f"its line was lost ( {'y' * 99})")]),
    ],
)  # fmt: skip
def test_a_meter_that_was_opened_again_is_proven_no_more(
    events: list[AgentEvent], expected: list[tuple[int, str]]
) -> None:
    assert [(found.ns, found.why) for found in reopenings(events)] == expected


def test_the_sentence_has_the_cause_the_consequence_and_the_remedy() -> None:
    (found,) = reopenings([opened(1), lost(2), opened(412 * 10**9)])
    assert found.sentence("pi-07", 12 * 10**9) == (
        "pi-07: 400 s after the run began its meter was opened again, as its line was lost (the port has "
        "gone); nothing shows that it is the same meter, so from there on its joules may be another board's: "
        "roambench fleet identify proves it again"
    )


def test_descriptions_that_are_none_count_for_nothing() -> None:
    broken = AgentEvent(EventKind.METER_DESCRIBED, 2, json.dumps({"driver": 3}))
    assert reopenings([opened(1), broken, AgentEvent(EventKind.RECORD_CONTEXT_BEGINS, 3, "[")]) == []
