"""Power and state of boards from the records that they drain, added up as they come; pure.

The joules here are provisional: the trapezoid over raw readings, booked to the phase that each board's agent
stamped. What a report says in the end is fitted, and has an uncertainty.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from roambench.contract.errors import ConfigError
from roambench.contract.events import EventKind
from roambench.contract.phases import ACTIVE_PHASES, Phase, PhaseSpan
from roambench.contract.records import AgentEvent, HostSample, Reading, RecordKind, phase_from_bytes
from roambench.contract.throttling import throttle_names
from roambench.energy.readings.samples import UNUSABLE
from roambench.live.power import MeanPowers
from roambench.meters.traits import MeterDescription
from roambench.rounds.records import BatteriesSeen, BoardSwitched
from roambench.spool.record_context import RecordContext

#: Rule R4: a longer distance between two readings, in the meter's periods, is a gap.
_GAP_PERIODS: Final = 2.5
_MOST_WAITING: Final = 20_000  # readings, or phases, of a board whose other half does not come
#: Bits of `HostSample.throttle_bits` that hold now.
_NOW: Final = 0xF

#: The device time of the run's begin is taken off a board's stamps by (boot, ns); None: not known yet.
OnOneClock = Callable[[str, int], int | None]


@dataclass(slots=True)
class Cell:
    """The draw of a board in one step, as far as readings and phases show it."""

    joules: float = 0.0
    seconds: float = 0.0
    rested_s: float = 0.0
    temperature_c: float = math.nan
    throttle_bits: int = 0
    until_s: float = math.nan  # device time since the run's begin at which its last phase ended

    @property
    def watts(self) -> float:
        """The mean over the seconds that were covered; NaN without any."""
        return self.joules / self.seconds if self.seconds else math.nan


@dataclass(slots=True)
class Board:
    """One board. `seen_s` is when its newest reading was taken by the clock of who reads, 0 without one."""

    watts: float = math.nan
    temperature_c: float = math.nan
    throttle_bits: int = 0
    seen_s: float = 0.0
    readings: int = 0
    joules: float = 0.0
    meter: str = ""  # what is wrong with its meter; "" where nothing is
    cells: dict[int, Cell] = field(default_factory=lambda: defaultdict(Cell))
    by_update: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    power: MeanPowers = field(default_factory=MeanPowers)

    @property
    def throttled(self) -> str:
        """The causes that slow the board now, in words."""
        return ", ".join(throttle_names(self.throttle_bits))


class DarkBoards:
    """Boards whose power a run cut: they draw nothing, which no reading says."""

    def __init__(self, boards: Sequence[Board], start_ns: int | None) -> None:
        """`start_ns`: the run's begin on its clock."""
        self._boards = boards
        self._start_ns = start_ns or 0
        self._until_s: dict[int, float] = {}  # by device without power: as far as its power is filled in

    def follow(self, record: BatteriesSeen | BoardSwitched) -> None:
        """Fill in 0 W up to the time of the record."""
        if isinstance(record, BatteriesSeen):
            for device in self._until_s:
                self._fill(device, record.at_s)
            return
        at_s = (record.at_ns - self._start_ns) * 1e-9
        if record.on and record.device in self._until_s:
            self._fill(record.device, at_s)
            del self._until_s[record.device]
        elif not record.on:
            self._until_s[record.device] = at_s
            self._boards[record.device].watts = 0.0

    def _fill(self, device: int, until_s: float) -> None:
        while (at_s := self._until_s[device] + 1.0) <= until_s:
            self._boards[device].power.add(at_s, 0.0)
            self._until_s[device] = at_s


_METER_STATES: Final = {
    EventKind.METER_OK: "",
    EventKind.METER_STALE: str(EventKind.METER_STALE),
    EventKind.METER_OFF: str(EventKind.METER_OFF),
    EventKind.METER_LOST: str(EventKind.METER_LOST),
    EventKind.METER_UNAVAILABLE: "no meter",
}


class BoardStream:
    """The records of one spool of a board, in their order: a spool is of one boot, so of one clock. `reader`:
    the other host that read the meter and spooled its readings there, "" for the board itself."""

    def __init__(self, device: str, board: Board, time_scale: float, on_one_clock: OnOneClock) -> None:
        self.board = board
        self.changed_steps: set[int] = set()
        self.changed_updates: set[str] = set()
        self.ended: PhaseSpan | None = None  # the measured phase whose end is known last
        self.reader = ""
        self._device = device
        self._time_scale = time_scale
        self._on_one_clock = on_one_clock
        self._boot = ""
        self._gap_ns = round(_GAP_PERIODS * 1e9)
        self._last: Reading | None = None
        self._sample: HostSample | None = None
        self._ahead_s = math.inf  # of its clock against the reader's, seconds of the host
        # Parts of the trapezoid and phases that the other one has not reached yet, ascending in time.
        self._parts: deque[tuple[int, int, float]] = deque()
        self._spans: deque[PhaseSpan] = deque()

    def add(self, kind: int, payload: bytes) -> None:
        """Add the next record; what does not decode is kept as a dead letter elsewhere and counts for
        nothing."""
        try:
            match kind:
                case RecordKind.READING:
                    self._read(Reading.from_bytes(payload))
                case RecordKind.PHASE:
                    self._pass(phase_from_bytes(self._device, payload))
                case RecordKind.EVENT:
                    self._event(AgentEvent.from_bytes(payload))
                case RecordKind.HOST:
                    self._host(HostSample.from_bytes(payload))
        except ValueError:
            return

    def arrived(self, arrival_s: float) -> None:
        """All records that were there at `arrival_s` are added. The fastest arrival says how far the board's
        clock is off, to within the time that its records take: a reading's age needs no clock of the
        board's."""
        if self._last is not None:
            device_s = self._last.monotonic_ns * 1e-9 / self._time_scale
            self._ahead_s = min(self._ahead_s, arrival_s - device_s)
            self.board.seen_s = max(self.board.seen_s, device_s + self._ahead_s)
        self._book()

    @property
    def has_phases(self) -> bool:
        """Return whether phases wait for their joules."""
        return bool(self._spans)

    def book_to(self, own: BoardStream) -> None:
        """Book what this reader's stream has of power to the phases of the board's own stream, once both
        clocks are known."""
        if not self._parts or not own._spans:
            return
        to_ns, end_ns = self._parts[-1][1], own._spans[-1].end_ns
        here_ns = self._on_one_clock(self._boot, to_ns)
        there_ns = own._on_one_clock(own._boot, end_ns)
        if here_ns is None or there_ns is None:
            return
        ahead_ns = (end_ns - there_ns) - (to_ns - here_ns)
        own._parts.extend((a_ns + ahead_ns, b_ns + ahead_ns, watts) for a_ns, b_ns, watts in self._parts)
        self._parts.clear()
        own._book()

    def _read(self, reading: Reading) -> None:
        if reading.flags & UNUSABLE or not math.isfinite(reading.watts):
            return
        board, last = self.board, self._last
        board.watts, board.readings = reading.watts, board.readings + 1
        at_ns = self._on_one_clock(self._boot, reading.monotonic_ns)
        if at_ns is not None:
            board.power.add(at_ns * 1e-9, reading.watts)
        if last is not None and 0 < reading.monotonic_ns - last.monotonic_ns <= self._gap_ns:
            from_ns = last.monotonic_ns
            if at_ns is not None:  # what was drawn before the run's begin is not the run's
                from_ns = max(from_ns, reading.monotonic_ns - at_ns)
            if from_ns < reading.monotonic_ns:
                watts = 0.5 * (last.watts + reading.watts)
                self._parts.append((from_ns, reading.monotonic_ns, watts))
                board.joules += watts * (reading.monotonic_ns - from_ns) * 1e-9
            if len(self._parts) > _MOST_WAITING:
                self._parts.popleft()
        if last is None or reading.monotonic_ns > last.monotonic_ns:
            self._last = reading

    def _pass(self, span: PhaseSpan) -> None:
        if span.end_ns <= span.start_ns or (self._spans and span.start_ns < self._spans[-1].start_ns):
            return
        self._spans.append(span)
        if len(self._spans) > _MOST_WAITING:
            self._spans.popleft()
        if span.phase in ACTIVE_PHASES:
            self.ended = span
        until_ns = self._on_one_clock(self._boot, span.end_ns)
        if span.phase is Phase.REST:
            self.board.cells[span.step].rested_s += span.duration_s
            self.changed_steps.add(span.step)
        if until_ns is not None:
            self.board.cells[span.step].until_s = until_ns * 1e-9
            self.changed_steps.add(span.step)
        host = self._sample
        if host is not None and span.start_ns <= host.monotonic_ns < span.end_ns:
            cell = self.board.cells[span.step]
            cell.temperature_c, cell.throttle_bits = host.temperature_c, max(0, host.throttle_bits) & _NOW
            self.changed_steps.add(span.step)

    def _book(self) -> None:
        """Give each phase its part of the trapezoid. Both are in order of time, and phases do not overlap."""
        parts, spans = self._parts, self._spans
        while parts and spans:
            span, (from_ns, to_ns, watts) = spans[0], parts[0]
            overlap_ns = min(to_ns, span.end_ns) - max(from_ns, span.start_ns)
            if overlap_ns > 0:
                joules = watts * overlap_ns * 1e-9
                cell = self.board.cells[span.step]
                cell.joules += joules
                cell.seconds += overlap_ns * 1e-9
                self.changed_steps.add(span.step)
                if span.train_order_id:
                    self.board.by_update[span.train_order_id] += joules
                    self.changed_updates.add(span.train_order_id)
            if to_ns <= span.end_ns:
                parts.popleft()
            else:
                spans.popleft()

    def _event(self, event: AgentEvent) -> None:
        match event.kind:
            case EventKind.RECORD_CONTEXT_BEGINS:
                try:
                    self._boot = RecordContext.from_json(event.detail).boot_id
                except ConfigError:
                    return
            case EventKind.METER_DESCRIBED:
                described = MeterDescription.from_event(event)
                self.reader = described.remote_reader
                nominal_s = described.nominal_s or described.row.nominal_s
                if 0 < nominal_s < 3600:
                    self._gap_ns = round(_GAP_PERIODS * nominal_s * 1e9)
            case kind if isinstance(kind, EventKind) and kind in _METER_STATES:
                self.board.meter = _METER_STATES[kind]

    def _host(self, sample: HostSample) -> None:
        board = self.board
        board.temperature_c = sample.temperature_c
        board.throttle_bits = max(0, sample.throttle_bits) & _NOW
        self._sample = sample
