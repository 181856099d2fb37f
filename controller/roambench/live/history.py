"""The events of a run so far, folded record by record from its event log; pure.

Everything that a page shows of a past step is kept by step, so that it can be shown again; what changed since
`taken` was last called is known, so that only that need be sent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from roambench.contract.events import EventKind
from roambench.contract.metric import ACCURACY, Metric
from roambench.contract.orders import AnswerStatus
from roambench.contract.phases import Outcome, Phase
from roambench.rounds.records import (
    BatteriesSeen,
    CloudAggregated,
    FleetEvent,
    MetricsScored,
    MixingPlanned,
    OrderAnswered,
    OrderGiven,
    OutcomeDecided,
    ReplayPaused,
    ReplayResumed,
    RoundRecord,
    RunEnded,
    RunResumed,
    StepClosed,
    StepOpened,
)

#: How grave an event is: 2 something was lost or refused, 1 worth a look, 0 good to know.
Gravity = Literal[0, 1, 2]
#: More events than these are not kept.
MOST_EVENTS: Final = 2_000
_MOST_LINKS: Final = 500  # of a step; more would be a grey blot
_MOST_TEXT: Final = 300  # characters of a detail, which may come from a board
#: The phase that a device is in while it carries out an order of a kind.
_PHASE_OF: Final = {
    "train": Phase.TRAIN,
    "evaluate": Phase.EVALUATE,
    "upload": Phase.UPLOAD,
    "exchange": Phase.EXCHANGE,
    "sync": Phase.DOWNLOAD,
}
#: What agents tell of their order refines it.
_PHASE_BEGUN: Final[dict[str, Phase]] = {
    EventKind.DOWNLOAD_STARTED: Phase.DOWNLOAD,
    EventKind.TRAIN_STARTED: Phase.TRAIN,
    EventKind.EVALUATE_STARTED: Phase.EVALUATE,
    EventKind.UPLOAD_STARTED: Phase.UPLOAD,
    EventKind.EXCHANGE_STARTED: Phase.EXCHANGE,
}
#: Fleet events that are a run's ordinary life.
_ORDINARY: Final[frozenset[str]] = frozenset(
    {
        *_PHASE_BEGUN,
        EventKind.SESSION_OPENED,
        EventKind.SESSION_CLOSED,
        EventKind.CLOCK_OFFSET,
        EventKind.TRAINER_READY,
        EventKind.FETCHING_DATA,
        EventKind.TRAIN_FINISHED,
        EventKind.EVALUATE_FINISHED,
        EventKind.EXCHANGE_FINISHED,
        EventKind.PEER_PORT_OPEN,
    }
)
_GRAVE: Final[frozenset[str]] = frozenset(
    {
        EventKind.SESSION_LOST,
        EventKind.SESSION_REFUSED,
        EventKind.SESSION_CUT_OFF,
        EventKind.UPLOAD_REFUSED,
        EventKind.DOWNLOAD_REFUSED,
        EventKind.DRAIN_REFUSED,
        EventKind.IDENTITY_REFUSED,
        EventKind.CONNECTION_REFUSED,
        EventKind.CALL_REFUSED,
        EventKind.STORE_REFUSES,
        EventKind.METER_LOST,
        EventKind.TRAINER_NOT_READY,
        EventKind.CANNOT_RESUME,
        EventKind.BOARD_TAKEN,
    }
)


@dataclass(slots=True)
class LiveStep:
    """One time step as far as it has gone. `cloud`: the cloud aggregated in it. `links`: the pairs of devices
    that mix their models, one after the other."""

    step: int
    devices: tuple[int, ...]
    aps: tuple[int, ...]
    updates: int = 0
    aggregated: int = 0
    outstanding: int = 0
    score: float | None = None  # of what the run is judged by: accuracy, or its task's first metric
    loss: float | None = None
    wall_s: float | None = None  # None until it is closed
    cloud: bool = False
    links: tuple[int, ...] = ()
    charges: tuple[float, ...] = ()  # of all devices' batteries at its beginning, shares; empty without any
    off: tuple[int, ...] = ()  # who is without charge


@dataclass(slots=True)
class Update:
    """A local update; `decided_step` is -1 while it is pending."""

    order_id: str
    device: int
    step: int
    outcome: Outcome = Outcome.PENDING
    decided_step: int = -1
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Happening:
    """Something worth a line: `device` is -1 where it is of none, `kind` a few words, `detail` any text."""

    step: int
    device: int
    kind: str
    gravity: Gravity
    detail: str


@dataclass(slots=True)
class DeviceActivity:
    """The activity of a device and its begin by the reader's clock (seconds since 1970; 0: not known)."""

    phase: Phase = Phase.ABSENT
    since_s: float = 0.0
    ap: int = -1
    late_s: float = 0.0  # of its last emulated training, in device time
    order_id: str = ""  # of the order that is out


@dataclass(slots=True)
class Changes:
    """Changes: steps, links by step, indices of updates, devices, steps of a board's `cells` by device;
    `happenings` are new."""

    steps: set[int] = field(default_factory=set)
    links: set[int] = field(default_factory=set)
    updates: set[int] = field(default_factory=set)
    devices: set[int] = field(default_factory=set)
    cells: dict[int, set[int]] = field(default_factory=dict)
    happenings: list[Happening] = field(default_factory=list)


class RunHistory:
    """Fold of a run's event log. `add` every record that counts, in order; `taken` hands over the changes."""

    def __init__(
        self, names: Sequence[str], late_limit_s: float, now_s: Callable[[], float], *, rests: bool = False
    ) -> None:
        """`late_limit_s`: an emulated training that ends later is an event. `rests`: boards rest before and
        after each measured phase, and say at once when one begins."""
        self.names = tuple(names)
        self.steps: dict[int, LiveStep] = {}
        self.updates: list[Update] = []
        self.happenings: list[Happening] = []
        self.activities = [DeviceActivity() for _ in names]
        self.metric = ACCURACY  # what the run is judged by, as far as is known
        self.paused = False
        # Devices mix their models with each other's: an access point means nothing.
        self.without_server = False
        self.begun_s = 0.0  # of the open step, by the reader's clock
        self.changes = Changes()  # since `taken` was called last
        self._late_limit_s = late_limit_s
        self._now_s = now_s
        self._rests = rests
        self._index_of: dict[str, int] = {}
        self._now: LiveStep | None = None
        self._off: frozenset[int] = frozenset()  # devices without charge
        self._outstanding: frozenset[int] = (
            frozenset()
        )  # devices that hold a model, when the last step closed

    @property
    def now(self) -> LiveStep | None:
        """The step that was opened last."""
        return self._now

    def index_of(self, order_id: str) -> int | None:
        """The index in `updates` of a train order."""
        return self._index_of.get(order_id)

    def count(self, outcome: Outcome) -> int:
        """Local updates of an outcome."""
        return sum(update.outcome is outcome for update in self.updates)

    def taken(self) -> Changes:
        """The changes since it was called last."""
        taken, self.changes = self.changes, Changes()
        return taken

    def add(self, record: RoundRecord) -> None:
        """Fold in the next record of the log."""
        match record:
            case StepOpened():
                self._open(record)
            case OrderGiven():
                self._give(record)
            case OrderAnswered():
                self._answer(record)
            case BatteriesSeen() if record.step in self.steps:
                self._charge(record)
            case OutcomeDecided():
                if record.device in self._off and record.outcome is not Outcome.AGGREGATED:
                    self.note(
                        record.step, record.device, "model lost", 1, f"while it was off: {record.reason}"
                    )
                index = self.index_of(record.train_order_id)
                if index is not None:
                    update = self.updates[index]
                    update.outcome, update.decided_step = record.outcome, record.step
                    update.reason = record.reason[:_MOST_TEXT]
                    self.changes.updates.add(index)
            case CloudAggregated() if record.aps and record.step in self.steps:
                self.steps[record.step].cloud = True
                self.changes.steps.add(record.step)
            case MixingPlanned() if record.step in self.steps:
                self.without_server = True
                self.steps[record.step].links = _links(record)
                self.changes.links.add(record.step)
            case MetricsScored():
                self._score(record)
            case StepClosed():
                self._close(record)
            case FleetEvent():
                self._see(record)
            case ReplayPaused():
                self.paused = True
                self.note(record.step, -1, "paused", 1, "the replay is held between two steps")
            case ReplayResumed():
                self.paused = False
                self.note(record.step, -1, "goes on", 0, "")
            case RunResumed():
                lasted = f"the controller was gone for {record.outage_s:.0f} s"
                self.note(record.step, -1, "resumed", 1, lasted)
            case RunEnded():
                self.note(record.step, -1, "ended early", 0, record.reason)

    def end_phase(self, device: int, phase: Phase, order_id: str) -> None:
        """A board's record says that a measured phase of an order is over: now it rests, unless it was heard
        to have gone on since."""
        activity = self.activities[device]
        if self._rests and order_id and activity.order_id == order_id and activity.phase is phase:
            self._set(device, Phase.REST)

    def note(self, step: int, device: int, kind: str, gravity: Gravity, detail: str) -> None:
        """Add an event; of too many only the first are kept, and that there are more."""
        if len(self.happenings) >= MOST_EVENTS:
            return
        if len(self.happenings) == MOST_EVENTS - 1:
            device, kind, gravity = -1, "and more", 2
            detail = "more events than this page keeps: see the report"
        happening = Happening(step, device, kind[:_MOST_TEXT], gravity, detail[:_MOST_TEXT])
        self.happenings.append(happening)
        self.changes.happenings.append(happening)

    def _open(self, record: StepOpened) -> None:
        self._now = self.steps[record.step] = LiveStep(record.step, record.devices, record.aps)
        self.changes.steps.add(record.step)
        self.begun_s = self._now_s()
        present = dict(zip(record.devices, record.aps, strict=True))
        for device, activity in enumerate(self.activities):
            if device not in self._off:
                self._set(device, Phase.IDLE if device in present else Phase.ABSENT)
            if activity.ap != present.get(device, -1):
                activity.ap = present.get(device, -1)
                self.changes.devices.add(device)
            activity.order_id = ""

    def _charge(self, record: BatteriesSeen) -> None:
        step, off = self.steps[record.step], frozenset(record.off)
        step.charges, step.off = record.charges, record.off
        self.changes.steps.add(record.step)
        self.changes.devices.update(range(len(record.charges)))
        for device in sorted(off - self._off):
            holds = ", with a model that no access point has" if device in self._outstanding else ""
            self.note(record.step, device, "no charge", 1, f"off at {record.charges[device]:.0%}{holds}")
            self._set(device, Phase.OFF)
        for device in sorted(self._off - off):
            self.note(record.step, device, "charged", 0, f"back at {record.charges[device]:.0%}")
            self._set(device, Phase.IDLE if device in step.devices else Phase.ABSENT)
        self._off = off

    def _give(self, record: OrderGiven) -> None:
        self.without_server |= record.kind == "exchange"
        known = 0 <= record.device < len(self.activities)
        if record.kind in ("train", "exchange") and known:
            self._index_of[record.order_id] = len(self.updates)
            self.changes.updates.add(len(self.updates))
            self.updates.append(Update(record.order_id, record.device, record.step))
            if record.step in self.steps:
                self.steps[record.step].updates += 1
                self.changes.steps.add(record.step)
        phase = _PHASE_OF.get(record.kind)
        if phase is not None and known:
            self.activities[record.device].order_id = record.order_id
            self._set(record.device, Phase.REST if self._rests else phase)

    def _answer(self, record: OrderAnswered) -> None:
        if not 0 <= record.device < len(self.activities):
            return
        activity = self.activities[record.device]
        if activity.order_id == record.order_id:
            activity.order_id = ""
            self._set(record.device, Phase.WAIT)
        if record.status != AnswerStatus.DONE:
            status = "dead" if record.status == AnswerStatus.LOST else record.status
            self.note(record.step, record.device, status, 2, record.reason)
        if record.train_s:
            activity.late_s = record.late_s
            self.changes.devices.add(record.device)
            if record.late_s > self._late_limit_s:
                detail = f"training ended {record.late_s:.2f} s of device time late"
                self.note(record.step, record.device, "late", 1, detail)

    def _score(self, record: MetricsScored) -> None:
        """The first one counts, of a task's own, where no accuracy follows."""
        if not record.better[0]:
            return
        step = self.steps.setdefault(record.step, LiveStep(record.step, (), ()))
        self.metric = Metric(record.names[0], record.better[0])
        step.score = record.values[0] if math.isfinite(record.values[0]) else None

    def _close(self, record: StepClosed) -> None:
        step = self.steps.setdefault(record.step, LiveStep(record.step, (), ()))
        step.aggregated, step.outstanding = record.aggregated, len(record.outstanding)
        step.loss, step.wall_s = record.loss, record.wall_s
        self._outstanding = frozenset(record.outstanding)
        if record.accuracy is not None:
            self.metric, step.score = ACCURACY, record.accuracy
        self.changes.steps.add(record.step)

    def _see(self, record: FleetEvent) -> None:
        phase = _PHASE_BEGUN.get(record.kind)
        if phase is not None and 0 <= record.device < len(self.activities):
            if self.activities[record.device].order_id:
                self._set(record.device, phase)
        elif record.kind not in _ORDINARY:
            known = 0 <= record.device < len(self.names)
            detail = record.detail if known else f"{record.name}: {record.detail}"
            gravity: Gravity = 2 if record.kind in _GRAVE else 1
            self.note(record.step, record.device if known else -1, record.kind, gravity, detail)

    def _set(self, device: int, phase: Phase) -> None:
        activity = self.activities[device]
        if activity.phase is not phase:
            activity.phase, activity.since_s = phase, self._now_s()
            self.changes.devices.add(device)


def _links(record: MixingPlanned) -> tuple[int, ...]:
    """The pairs of other devices in a mixing matrix, each once; none of too many."""
    pairs, start = set[tuple[int, int]](), 0
    for device, count in enumerate(record.counts):
        others = record.columns[start : start + count]
        pairs.update((min(device, other), max(device, other)) for other in others if other != device)
        start += count
    return tuple(device for pair in sorted(pairs) for device in pair) if len(pairs) <= _MOST_LINKS else ()
