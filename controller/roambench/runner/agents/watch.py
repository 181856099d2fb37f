"""Observations of a fleet of real agents: their events, their presence, their answers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Final

from roambench.contract.errors import FleetError
from roambench.contract.events import AnyEventKind, EventKind
from roambench.contract.orders import AnswerStatus
from roambench.contract.printable import printable
from roambench.contract.records import AgentEvent, Reading, RecordKind
from roambench.rounds.records import (
    ClockProbed,
    FleetEvent,
    OrderAnswered,
    OrderGiven,
    RoundRecord,
    StepClosed,
)
from roambench.runs.folder import RunFolder
from roambench.spool.record_context import RecordContext

#: Steps in a row in which no agent answers are the end of a fleet, whether its processes live or not.
SILENT_STEPS: Final = 3
#: Orders that need no answer.
_WITHOUT_ANSWER: Final = ("idle", "discard")
_UNANSWERED: Final = (AnswerStatus.LOST, AnswerStatus.TIMEOUT)
_NEVER: Final = math.inf
_LONGEST_STEP_NS = 2_500_000_000  # a longer distance between two readings is a gap (rule R4)
#: What the fleet sees of certificates and limits; each is reported once a minute at most.
REFUSALS: Final = frozenset(
    (
        EventKind.CALL_FAILED,
        EventKind.CALL_REFUSED,
        EventKind.CONNECTION_REFUSED,
        EventKind.DRAIN_REFUSED,
        EventKind.FRAMES_SLOWED,
        EventKind.IDENTITY_REFUSED,
        EventKind.PORT_REPLACED,
        EventKind.SESSION_CUT_OFF,
        EventKind.SESSION_REFUSED,
    )
)
#: What ends an agent's part in a run, or keeps it out.
_TROUBLES: Final = REFUSALS | {EventKind.SESSION_LOST, EventKind.TRAINER_NOT_READY}
_MOST_TROUBLES: Final = 3  # of which an error tells


@dataclass(slots=True)
class Answering:
    """Find out if a fleet of agents still carries out orders, from what a run writes down.

    A step without orders says nothing.
    """

    _work: set[str] = field(default_factory=set)  # orders of the open step
    _answered: bool = False
    _silent: list[int] = field(default_factory=list)  # the last steps, ascending

    def answered(self) -> None:
        """Note an answer of any kind: one that comes too late is one."""
        self._answered = True

    def follow(self, record: RoundRecord) -> None:
        """FleetError as soon as the fleet has been silent for too long."""
        match record:
            case OrderGiven() if record.kind not in _WITHOUT_ANSWER:
                self._work.add(record.order_id)
            case OrderAnswered() if record.order_id in self._work and record.status not in _UNANSWERED:
                self._answered = True
            case StepClosed():
                self._close(record.step)

    def _close(self, step: int) -> None:
        if self._answered:
            self._silent.clear()
        elif self._work:
            self._silent.append(step)
        orders, self._answered = len(self._work), False
        self._work.clear()
        if len(self._silent) >= SILENT_STEPS:
            raise FleetError(
                f"the fleet is gone: no agent answered in {SILENT_STEPS} steps in a row, from step "
                f"{self._silent[0] + 1} on, the last {orders} order(s) among it"
            )


class RunningJoules:
    """Joules so far, summed over devices by trapezoid; for the display only, gaps are left out."""

    def __init__(self) -> None:
        self.total_j = 0.0
        self._last: dict[str, Reading] = {}

    def begin(self) -> None:
        """The run begins now: what boards drew while it was got ready is not the run's."""
        self.total_j = 0.0

    def add(self, device: str, records: Sequence[tuple[int, int, bytes]]) -> None:
        """Add the joules of a device's newly arrived readings."""
        for _, kind, payload in records:
            if kind != RecordKind.READING:
                continue
            try:
                reading = Reading.from_bytes(payload)
            except ValueError:
                continue  # the record store keeps it as a dead letter
            last = self._last.get(device)
            if last is not None and 0 < reading.monotonic_ns - last.monotonic_ns <= _LONGEST_STEP_NS:
                seconds = (reading.monotonic_ns - last.monotonic_ns) * 1e-9
                self.total_j += 0.5 * (last.watts + reading.watts) * seconds
            self._last[device] = reading


@dataclass(slots=True)
class Watch:
    """Follows what the fleet sees: the journal keeps it, the start waits for it."""

    folder: RunFolder
    started_s: float = field(default_factory=time.monotonic)
    step: int = -1
    hello_s: dict[str, float] = field(default_factory=dict)
    ready: set[str] = field(default_factory=set)
    not_ready: dict[str, str] = field(default_factory=dict)
    not_resuming: set[str] = field(default_factory=set)  # who lacks what the run would go on from
    fetching: set[str] = field(default_factory=set)
    taken: dict[str, str] = field(default_factory=dict)  # boards that other benches took in mid-run: which
    refused: dict[str, str] = field(default_factory=dict)  # who dialled and was not let in, and why
    troubles: dict[str, str] = field(default_factory=dict)  # of who has not come back: the last
    joules: RunningJoules = field(default_factory=RunningJoules)
    said: set[str] = field(default_factory=set)
    answering: Answering = field(default_factory=Answering)
    _ends: dict[tuple[str, str], float] = field(default_factory=dict)  # (device, spool): first seq of no run

    def observe(self, device: int, name: str, kind: AnyEventKind, detail: str) -> None:
        """Put an event of the fleet into the event log, and note who is there."""
        detail = printable(detail)  # it may be a board's own words
        self.folder.journal.append(FleetEvent(self.step, device, name, kind, detail))
        if kind in _TROUBLES:
            self.troubles[name] = f"{kind}: {detail}"
        if kind == EventKind.SESSION_OPENED:
            self.troubles.pop(name, None)
            self.hello_s.setdefault(name, time.monotonic() - self.started_s)
        elif kind == EventKind.TRAINER_READY:
            self.ready.add(name)
        elif kind == EventKind.TRAINER_NOT_READY:
            self.not_ready[name] = detail
        elif kind == EventKind.CANNOT_RESUME:
            self.not_resuming.add(name)
        elif kind == EventKind.ANSWER_IGNORED:
            self.answering.answered()
        elif kind == EventKind.FETCHING_DATA:
            self.fetching.add(name)
        elif kind == EventKind.SESSION_REFUSED:
            self.refused[name] = detail
        elif kind == EventKind.BOARD_TAKEN and name not in self.taken:
            self.taken[name] = detail
            self.folder.doubt(f"bench {detail} took {name} while the run was on it")

    def follow(self, record: RoundRecord) -> None:
        """FleetError as soon as no board of the run is left to it."""
        try:
            self.answering.follow(record)
        except FleetError as error:
            raise FleetError(f"{error}{self._last_troubles()}") from None
        if self.taken and self.taken.keys() >= set(self.folder.info.device_names):
            named = ", ".join(f"{name} (bench {by})" for name, by in sorted(self.taken.items()))
            raise FleetError(f"the fleet is gone: each board was taken by another bench: {named}")

    def _last_troubles(self) -> str:
        names = set(self.folder.info.device_names)
        last = sorted((name, trouble) for name, trouble in self.troubles.items() if name in names)
        more = f"; and {len(last) - _MOST_TROUBLES} more" if len(last) > _MOST_TROUBLES else ""
        return "".join(f"; {name}: {trouble}" for name, trouble in last[:_MOST_TROUBLES]) + more

    def clock_probed(self, record: ClockProbed) -> None:
        """Put a clock probe into the event log, under the present step."""
        self.folder.journal.append(replace(record, step=self.step))

    @contextmanager
    def together(self) -> Iterator[None]:
        """Make durable in the run folder, by one sync, what is stored inside, and before it its orders."""
        self.folder.journal.sync()
        with self.folder.records.together():
            yield

    def store(self, name: str, spool_uuid: str, records: Sequence[tuple[int, int, bytes]]) -> int:
        """The fleet's record sink, to be called inside `together`. What a board read after the run, while it
        drained, is none of the run's, and counts as stored."""
        own = [record for record in records if self._is_of_the_run((name, spool_uuid), record)]
        through = self.folder.records.insert(name, spool_uuid, own)
        self.joules.add(name, own)
        return through if len(own) == len(records) else records[-1][0]

    def _is_of_the_run(self, spool: tuple[str, str], record: tuple[int, int, bytes]) -> bool:
        seq, kind, payload = record
        with suppress(ValueError):  # the record store keeps it as a dead letter
            if kind == RecordKind.EVENT:
                event = AgentEvent.from_bytes(payload)
                if event.kind == EventKind.RECORD_CONTEXT_BEGINS:
                    self._ends[spool] = _NEVER if RecordContext.from_json(event.detail).run else seq
        return seq < self._ends.get(spool, _NEVER)


def observe(
    watch: Watch, say: Callable[[str], None], device: int, name: str, kind: AnyEventKind, detail: str
) -> None:
    """Put an event into the log, and print what an operator should see at once."""
    watch.observe(device, name, kind, detail)
    if kind == EventKind.STORE_REFUSES and detail not in watch.said:
        watch.said.add(detail)  # 36 agents with the same wrong token need not say so 36 times
        say(f"{name}: {kind}: {detail}")
    elif kind == EventKind.STORE_SLOW and (store := f"{kind}: {detail.partition(':')[0]}") not in watch.said:
        watch.said.add(store)  # it is one store for all of them
        say(f"{name}: {kind}: {detail}")
    elif kind == EventKind.BOARD_TAKEN:
        say(f"{name}: bench {detail} has taken this board: the run goes on without it")
    elif kind in REFUSALS:
        say(f"{name}: {kind}: {detail}")
    elif kind == EventKind.LEFT_IN_SPOOL:
        say(f"{name}: {kind}: {detail} (agents/{name}/spool.sqlite)")


def report(watch: Watch, say: Callable[[str], None], kind: EventKind, detail: str) -> None:
    """Report an event of the controller's own store."""
    observe(watch, say, -1, "controller", kind, detail)
