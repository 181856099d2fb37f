"""Notes of agents that concern their boards' figures, counted; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from roambench.contract.events import EventKind
from roambench.contract.phases import ACTIVE_PHASES, UNSTAMPED_PHASES, Phase, PhaseSpan
from roambench.contract.records import AgentEvent
from roambench.runs.measured.accounts import DeviceEnergy

#: Characters of a detail, which a board wrote.
_MOST_TEXT: Final = 300
#: Noted before a run begins, and no less true in it.
_AT_ANY_TIME: Final = frozenset({EventKind.SPOOL_DAMAGED, EventKind.AGENT_STATE_DAMAGED})
#: Kinds of which the report adds the first detail: it says why.
_WITH_DETAIL: Final = frozenset({EventKind.METER_LOST, EventKind.METER_UNAVAILABLE, EventKind.METER_ALARM})
#: What changes no joule by more than the report's ± holds.
ROUTINE: Final = frozenset({EventKind.STORE_SLOW})
#: What the report says of each kind, "{on}" being the boards and how often each noted it. Every other kind is
#: the run's ordinary life, or reported elsewhere: orders, sessions and refusals among the incidents, what a
#: spool holds in its state, damaged lines by the readings themselves.
SENTENCES: Final[Mapping[EventKind, str]] = {
    EventKind.NOT_QUIET: (
        "not quiet on {on}, though energy.quiet asks for it: measured phases or idle baselines carried the "
        "agent's own records; what sending these drew is in their joules, and nothing tells how much it is"
    ),
    EventKind.STORE_SLOW: (
        "a store was slow to take records on {on}: they stay on the board until it has; in a quiet run "
        "phases wait up to 5 s for it, and boards in all hold the idle power of that"
    ),
    EventKind.STORE_REFUSES: "a store refused records on {on}: they stay on the board",
    EventKind.SPOOL_DAMAGED: "the spool was damaged on {on}: records of before are not in this run",
    EventKind.AGENT_STATE_DAMAGED: (
        "an agent's notes of what it was doing were damaged on {on}: that time counts as lost"
    ),
    EventKind.AGENT_LACKS: (
        "an agent lacked what it needs to work on {on}: orders failed meanwhile, or are not in its records"
    ),
    EventKind.AGENT_STARTED: "the agent started again in mid-run on {on}: what it did not see counts as lost",
    EventKind.METER_LOST: "the meter was lost in mid-run on {on}",
    EventKind.METER_UNAVAILABLE: "the meter could not be opened on {on}",
    EventKind.METER_STALE: "the meter fell silent in mid-run on {on}",
    EventKind.METER_OFF: "the meter's output was off in mid-run on {on}",
    EventKind.METER_RESTARTED: "the meter restarted in mid-run on {on}",
    EventKind.METER_ALARM: "the meter raised an alarm on {on}",
}


@dataclass(frozen=True, slots=True)
class BoardNote:
    """The number of a board's events of a kind, and the first one's detail.

    `phases` and `joules` are of the measured phases that began after NOT_QUIET was noted, `of_joules` of all
    measured phases of the board; 0 for other kinds.
    """

    kind: EventKind
    count: int
    first: str
    phases: int = 0
    joules: float = 0.0
    of_joules: float = 0.0

    @property
    def text(self) -> str:
        """The count, and what it may spoil."""
        if self.phases:
            return f"{self.phases:,} phases, {self.joules:,.1f} of {self.of_joules:,.1f} J"
        often = "once" if self.count == 1 else f"{self.count:,} times"
        return f"{often}: {self.first}" if self.first and self.kind in _WITH_DETAIL else often


def board_notes(device: DeviceEnergy, start_ns: int) -> tuple[BoardNote, ...]:
    """The notes of its agent from the run's begin on, in the order of `SENTENCES`; of a meter that was not
    open then, why."""
    found: dict[EventKind, list[AgentEvent]] = {}
    closed = None
    for event in device.events:
        if event.monotonic_ns < start_ns and event.kind in (EventKind.METER_UNAVAILABLE, EventKind.METER_OK):
            closed = event if event.kind is EventKind.METER_UNAVAILABLE else None
    for event in device.events:
        kind = event.kind
        if not isinstance(kind, EventKind) or kind not in SENTENCES:
            continue
        if event.monotonic_ns < start_ns and kind not in _AT_ANY_TIME and event is not closed:
            continue
        if kind is EventKind.AGENT_STARTED and _after_a_cut(device.spans, event.monotonic_ns):
            continue
        if kind is EventKind.METER_ALARM and event.detail == "none":  # it is over
            continue
        found.setdefault(kind, []).append(event)
    return tuple(_note(device, kind, found[kind]) for kind in SENTENCES if kind in found)


def _after_a_cut(spans: Sequence[PhaseSpan], ns: int) -> bool:
    """Return whether the last thing that happened to the board before was that the run cut its power."""
    before = [span for span in spans if span.start_ns < ns]
    back = next((i for i in range(len(before) - 1, -1, -1) if before[i].phase is Phase.OFF), None)
    stamped = [span for span in before[back:] if span.phase not in UNSTAMPED_PHASES]
    return back is not None and len(stamped) <= 1  # the phase that its start begins


def _note(device: DeviceEnergy, kind: EventKind, events: Sequence[AgentEvent]) -> BoardNote:
    first = "".join(c if c.isprintable() else " " for c in events[0].detail)[:_MOST_TEXT]
    if kind is not EventKind.NOT_QUIET:
        return BoardNote(kind, len(events), first)
    measured = [
        (span.start_ns, row.gross_j)
        for span, row in zip(device.spans, device.rows, strict=True)
        if span.phase in ACTIVE_PHASES
    ]
    carried = {
        next(((start_ns, joules) for start_ns, joules in measured if start_ns >= event.monotonic_ns), None)
        for event in events
        if "baseline" not in event.detail
    } - {None}
    return BoardNote(
        kind,
        len(events),
        first,
        len(carried),
        sum(joules for _, joules in filter(None, carried)),
        sum(joules for _, joules in measured),
    )
