"""The energy of a run from what its folder holds: raw readings and phases in, ledgers and truth out.

Computed from the raw records every time, for finished, interrupted and running runs alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Final, assert_never

import numpy as np

from roambench.contract.events import AnyEventKind, EventKind
from roambench.contract.phases import Outcome, Phase, PhaseSpan
from roambench.contract.records import AgentEvent, ReadingFlag
from roambench.energy.account import DeviceAccount, account_device
from roambench.energy.energy_value import Energy, total
from roambench.energy.integrate import power_curve
from roambench.energy.ledger import Ledger, LedgerRow
from roambench.energy.readings.frozen import Frozen
from roambench.energy.readings.samples import PowerSamples
from roambench.energy.readings.timeline import Interval, complete_timeline, without_outages, without_power
from roambench.energy.uncertainty import MeterCalibration, with_meter
from roambench.rounds.local_updates import local_updates
from roambench.rounds.records import BoardSwitched, OrderGiven, RoundRecord, RunResumed
from roambench.runs.event_log import EventLog
from roambench.runs.folder import RunFolder
from roambench.runs.measured.clocks import BoardClock, board_clocks, unplaced
from roambench.runs.measured.common_clock import OneClock, on_one_clock
from roambench.runs.measured.meters import DeviceMeter, UsableReadings, as_if_of, device_meter, samples_of
from roambench.runs.measured.reopened import Reopened, reopenings
from roambench.runs.measured.truth import BoardTruth, board_truth
from roambench.runs.record_store import NO_READINGS, ReadingColumns, RecordStore
from roambench.runs.records import Records

#: Readings of a run that stay in memory, about 150 MB; a longer one's are read again where they are wanted.
_MOST_KEPT: Final = 2_000_000
#: Devices that are accounted at the same time.
_TOGETHER: Final = 2


@dataclass(frozen=True)
class Lines:
    """The readings of a device: how many, and how many of them have the same flags. `read` and `usable` give
    them, in a long run by another look into the run folder: they do not fit into memory."""

    count: int
    flags: Mapping[int, int]
    read: Callable[[], ReadingColumns]
    usable: Callable[[], PowerSamples]


@dataclass(frozen=True)
class DeviceEnergy:
    """One device: its raw readings, its complete timeline, its account, and the truth where it is known.

    `account.rows` and `spans` are parallel. `whole_run` carries the meter's uncertainty. `truth` is the
    emulator's true energy over exactly the covered time, whole and by span; None where there is no truth.
    `meter` says what measured it and how it was calibrated, `account.idle` is the idle power before and
    after. `doubt` says why the device is in no sum: its records cannot be accounted (it then counts as one
    that said nothing), or its clock is refused (rule R2: phases without a reading, since it is unknown which
    reading is of which phase). `clock` is the board's, `u_clock_s` the standard uncertainty between readings
    and phases. `reopened`: from where on its meter is not proven to be its own. `frozen` are stretches of
    lines that the meter repeated: gaps. Of a long run `account.curve` is empty.
    """

    device: str
    lines: Lines
    spans: tuple[PhaseSpan, ...]
    events: tuple[AgentEvent, ...]
    account: DeviceAccount
    whole_run: Energy
    truth: BoardTruth | None
    meter: DeviceMeter
    clock: BoardClock
    u_clock_s: float
    frozen: tuple[Frozen, ...] = ()
    doubt: str = ""
    reopened: Reopened | None = None

    @property
    def readings(self) -> ReadingColumns:
        """Its raw readings."""
        return self.lines.read()

    @property
    def samples(self) -> PowerSamples:
        """Its usable readings, calibrated and in the board's time."""
        return self.lines.usable()

    @property
    def rows(self) -> list[LedgerRow]:
        """The device's rows of the ledger."""
        return self.account.rows

    @cached_property
    def ledger(self) -> Ledger:
        """Its rows, to be added up."""
        return Ledger.of(self.rows)

    @property
    def rounding(self) -> float | None:
        """Share of rounding to a step in the uncertainty of the offset; None unless an emulated meter
        has neither a gain nor an offset."""
        if self.truth is None or not self.truth.perfect_meter:
            return None
        u_offset_w = self.meter.calibration.u_offset_w
        return min(1.0, self.meter.traits.step_w / math.sqrt(12.0) / u_offset_w) if u_offset_w else 0.0

    def flagged(self, flag: ReadingFlag) -> int:
        """Return how many readings carry the doubt."""
        return sum(count for flags, count in self.lines.flags.items() if flags & int(flag))


@dataclass(frozen=True)
class RunEnergy:
    """The energy of a run over [start_ns, end_ns] of device time; `devices` in the experiment's order.

    Sums are over the devices that nothing is said against (`counted`); `doubted` are the others.
    `calibration` is what the experiment says of all meters; `DeviceEnergy.meter` what holds for each.
    """

    start_ns: int
    end_ns: int
    calibration: MeterCalibration
    devices: tuple[DeviceEnergy, ...]

    @property
    def counted(self) -> tuple[DeviceEnergy, ...]:
        """The devices whose readings are not in doubt."""
        return tuple(device for device in self.devices if not device.doubt)

    @property
    def doubted(self) -> tuple[DeviceEnergy, ...]:
        """The devices whose readings are in doubt."""
        return tuple(device for device in self.devices if device.doubt)

    @property
    def rows(self) -> list[LedgerRow]:
        """The ledger's rows of all devices that count."""
        return [row for device in self.counted for row in device.rows]

    @cached_property
    def ledger(self) -> Ledger:
        """Its rows, to be added up."""
        return Ledger.of(self.rows)

    @property
    def spans(self) -> list[PhaseSpan]:
        """Parallel to `rows`."""
        return [span for device in self.counted for span in device.spans]

    @property
    def whole_run(self) -> Energy:
        """All boards together: each has its own meter, so that only a common reference is shared."""
        return total(device.whole_run for device in self.counted)

    @property
    def measured(self) -> bool:
        """True if a meter saw anything at all."""
        return any(device.whole_run.covered_s > 0.0 for device in self.devices)


def account_run(
    folder: RunFolder,
    records: Sequence[RoundRecord],
    *,
    store: Records | None = None,
) -> RunEnergy | None:
    """Account every device of the run; None when it holds neither readings nor phases (a rehearsal).

    Readings, phases and events come from `store`, by default the folder's own; those of a bench are laid on
    the controller's clock. A run whose border was never written (it was killed) is taken from its first to
    its last stamp.
    """
    log = EventLog.of(records)
    store = on_one_clock(folder, log, folder.records if store is None else store)
    recorded = store.devices()
    if not recorded:  # virtual devices: asking for each of 10,000 would take longer than all the rest
        return None
    names = (*folder.info.device_names, *sorted(set(recorded) - set(folder.info.device_names)))
    again = _reader(store)
    found = {name: _Found.of(store, name, again) for name in names}
    info = folder.info
    stamps = [ns for device in found.values() for span in device.spans for ns in (span.start_ns, span.end_ns)]
    if not stamps or info.start_device_ns is None or info.end_device_ns is None:
        stamps += [ns for device in found.values() for ns in device.ends_ns()]
    if not stamps:
        return None
    start_ns = info.start_device_ns if info.start_device_ns is not None else min(stamps)
    end_ns = info.end_device_ns if info.end_device_ns is not None else max(stamps)
    end_ns = max(start_ns, end_ns)
    section = folder.experiment.energy
    outages = outages_of(log)
    cuts = cuts_of(log, end_ns)
    index_of = {name: index for index, name in enumerate(folder.info.device_names)}
    given = {record.order_id: record for record in log.only(OrderGiven)}
    trainings = local_updates(log)
    outcomes = {order: training.outcome for order, training in trainings.items()}
    steps = {order: training.step for order, training in trainings.items()}
    events = {name: device.events for name, device in found.items()}
    boots = {name: {span.boot_id for span in one.spans} if one.laid else () for name, one in found.items()}
    clocks = {c.device: c for c in board_clocks(names, log, events, start_ns, end_ns, boots)}
    for name in names:
        device_meter(name, (), section)  # a mistake in the experiment is no board's

    left = _MOST_KEPT

    def keeps(count: int) -> bool:
        nonlocal left
        left -= count
        return again is None or left >= 0

    def account(name: str, device: _Found) -> DeviceEnergy:
        meter = device_meter(name, device.events, section)
        dark = cuts.get(index_of.get(name, -1), [])
        return _account(
            folder, meter, device, clocks, given, outcomes, steps, outages, dark, start_ns, end_ns, keeps
        )

    def account_or_doubt(name: str) -> DeviceEnergy:
        try:
            made = account(name, found[name])
            if not all(map(math.isfinite, (made.whole_run.joules, made.whole_run.u_joules))):
                raise ArithmeticError(f"{made.whole_run.joules} J")
            return made
        except Exception as error:  # one board's numbers may break its sums, the others have theirs
            return account(name, _Found.nothing(error))

    with ThreadPoolExecutor(_TOGETHER if again is not None else 1) as threads:  # most is NumPy and SQLite
        devices = tuple(threads.map(account_or_doubt, names))
    return RunEnergy(start_ns, end_ns, section.calibration(), devices)


def phase_begun(kind: AnyEventKind) -> Phase | None:
    """The phase that an event of this kind begins, should the phase itself never have been recorded as
    finished: its joules are booked there. None for a kind that begins none."""
    if not isinstance(kind, EventKind):
        return None  # another version's: where its joules belong is unknown
    match kind:
        case EventKind.DOWNLOAD_STARTED:
            return Phase.DOWNLOAD
        case EventKind.TRAIN_STARTED:
            return Phase.TRAIN
        case EventKind.EVALUATE_STARTED:
            return Phase.EVALUATE
        case EventKind.UPLOAD_STARTED:
            return Phase.UPLOAD
        case EventKind.EXCHANGE_STARTED:
            return Phase.EXCHANGE
        case (
            # A phase that has ended is recorded as another span.
            EventKind.TRAIN_FINISHED
            | EventKind.EVALUATE_FINISHED
            | EventKind.EXCHANGE_FINISHED
            | EventKind.TRANSFER_BROKE_OFF
            # What happens to an agent, its records, its meter and its readiness is in the phase that is open.
            | EventKind.AGENT_STARTED
            | EventKind.AGENT_STOPPING
            | EventKind.AGENT_STATE_DAMAGED
            | EventKind.AGENT_LACKS
            | EventKind.CERTIFICATE_RENEWED
            | EventKind.DUTY_BEGAN
            | EventKind.DUTY_REFUSED
            | EventKind.RECORD_CONTEXT_BEGINS
            | EventKind.SPOOL_DAMAGED
            | EventKind.SPOOL_STATE
            | EventKind.STORE_REFUSES
            | EventKind.STORE_SLOW
            | EventKind.STORE_RECOVERED
            | EventKind.METER_DESCRIBED
            | EventKind.METER_OK
            | EventKind.METER_STALE
            | EventKind.METER_OFF
            | EventKind.METER_LOST
            | EventKind.METER_UNAVAILABLE
            | EventKind.METER_RESTARTED
            | EventKind.METER_ALARM
            | EventKind.METER_LINE_COUNTS
            | EventKind.FETCHING_DATA
            | EventKind.TRAINER_READY
            | EventKind.TRAINER_NOT_READY
            | EventKind.CANNOT_RESUME
            | EventKind.BOARD_TAKEN
            | EventKind.NOT_QUIET
            | EventKind.PEER_PORT_OPEN
            | EventKind.NO_PEER_PORT
            | EventKind.PEER_REFUSED
            # What the controller sees is not an agent's record.
            | EventKind.SESSION_OPENED
            | EventKind.SESSION_CLOSED
            | EventKind.LEFT_IN_SPOOL
            | EventKind.SESSION_LOST
            | EventKind.SESSION_REFUSED
            | EventKind.SESSION_CUT_OFF
            | EventKind.FRAMES_SLOWED
            | EventKind.FRAME_IGNORED
            | EventKind.ANSWER_IGNORED
            | EventKind.CLOCK_OFFSET
            | EventKind.CLOCK_NOT_PROBED
            | EventKind.CALL_FAILED
            | EventKind.CALL_REFUSED
            | EventKind.CONNECTION_REFUSED
            | EventKind.DOWNLOAD_REFUSED
            | EventKind.DRAIN_REFUSED
            | EventKind.IDENTITY_REFUSED
            | EventKind.PORT_REPLACED
            | EventKind.UPLOAD_BROKE_OFF
            | EventKind.UPLOAD_REFUSED
        ):
            return None
        case _:
            assert_never(kind)


def outages_of(records: Sequence[RoundRecord]) -> list[Interval]:
    """Return when the run had no controller, and what was done then and shortly before is void: device time,
    ascending. Those that overlap are one: the run was resumed more than once from the same step."""
    found: list[Interval] = []
    for record in EventLog.of(records).only(RunResumed):
        if 0 < record.from_ns < record.at_ns:
            from_ns = record.from_ns
            while found and found[-1][1] >= from_ns:
                from_ns = min(from_ns, found.pop()[0])
            found.append((from_ns, record.at_ns))
    return found


def cuts_of(records: Sequence[RoundRecord], end_ns: int) -> dict[int, list[Interval]]:
    """Return when the board of a device, by its index, had no power: device time, ascending. A run that goes
    on gives each board its power first."""
    found: dict[int, list[Interval]] = {}
    since: dict[int, int] = {}
    for record in EventLog.of(records).only(BoardSwitched, RunResumed):
        match record:
            case BoardSwitched(on=False):
                since.setdefault(record.device, record.at_ns)
            case BoardSwitched() if record.device in since:
                found.setdefault(record.device, []).append((since.pop(record.device), record.at_ns))
            case RunResumed():
                for device in list(since):
                    found.setdefault(device, []).append((since.pop(device), record.from_ns))
    for device, off_ns in since.items():
        found.setdefault(device, []).append((off_ns, end_ns))
    return found


def _reader(store: Records) -> Callable[[str], ReadingColumns] | None:
    """A function that reads a device's readings by another connection; None where the run folder does not
    have them, or the run goes on."""
    clock = store if isinstance(store, OneClock) else None
    kept = clock.store if clock is not None else store
    if type(kept) is not RecordStore:
        return None
    path = kept.path

    def read(device: str) -> ReadingColumns:
        with closing(RecordStore(path, read_only=True)) as own:
            return (own if clock is None else clock.over(own)).readings(device)

    return read


@dataclass(frozen=True)
class _Found:
    """Records of one device in the record store."""

    read: Callable[[], ReadingColumns]
    spans: list[PhaseSpan]
    events: list[AgentEvent]
    doubt: str = ""  # why nothing of it can be used
    laid: bool = False  # readings are on the clock of the phases already

    @classmethod
    def of(cls, store: Records, device: str, again: Callable[[str], ReadingColumns] | None) -> _Found:
        try:
            read = partial(again or store.readings, device)
            return cls(read, store.spans(device), store.events(device), laid=isinstance(store, OneClock))
        except (ArithmeticError, ValueError) as error:  # records of a version that took everything
            return cls.nothing(error)

    @classmethod
    def nothing(cls, error: Exception) -> _Found:
        doubt = f"its records cannot be accounted: {type(error).__name__}: {error}"
        return cls(lambda: NO_READINGS, [], [], doubt)

    def ends_ns(self) -> list[int]:
        """Stamps of the first and the last reading."""
        with suppress(ArithmeticError, ValueError):  # the account of the device says what cannot be read
            ns = self.read().ns
            return [int(ns[0]), int(ns[-1])] if len(ns) else []
        return []

    def restarts_ns(self) -> list[int]:
        """Starts of the agent's process after its first."""
        return [event.monotonic_ns for event in self.events if event.kind == EventKind.AGENT_STARTED][1:]

    def begun(self, device: str, given: Mapping[str, OrderGiven]) -> list[PhaseSpan]:
        """Phases that the agent began and never finished: it died and did not come back to say so."""
        recorded = {(span.phase, span.order_id) for span in self.spans}
        boot_id = self.spans[-1].boot_id if self.spans else ""
        spans = []
        for event in self.events:
            phase, order = phase_begun(event.kind), given.get(event.detail)
            if phase is not None and order is not None and (phase, order.order_id) not in recorded:
                trains = order.kind in ("train", "exchange")
                training = order.order_id if trains else order.train_order_id
                at = event.monotonic_ns
                spans.append(PhaseSpan(device, boot_id, phase, order.step, at, at, order.order_id, training))
        return spans


def _account(
    folder: RunFolder,
    meter: DeviceMeter,
    found: _Found,
    clocks: Mapping[str, BoardClock],
    given: Mapping[str, OrderGiven],
    outcomes: Mapping[str, Outcome],
    steps: Mapping[str, int],
    outages: Sequence[Interval],
    cuts: Sequence[Interval],
    start_ns: int,
    end_ns: int,
    keeps: Callable[[int], bool],
) -> DeviceEnergy:
    device = meter.device
    timeline = complete_timeline(
        found.spans,
        start_ns,
        end_ns,
        device=device,
        alive_ns=[event.monotonic_ns for event in found.events],
        restarts_ns=found.restarts_ns(),
        begun=found.begun(device, given),
    )
    spans = without_power(without_outages(timeline, outages), cuts)
    board = clocks[device]

    def usable_of(readings: ReadingColumns) -> UsableReadings:
        counting = NO_READINGS if board.refused else readings.outside([*outages, *unplaced(board, spans)])
        usable = samples_of(counting, meter, board, clocks.get(board.reader), spans, laid=found.laid)
        samples = as_if_of(meter, usable.samples, found.events, folder.experiment.energy)
        return replace(usable, samples=samples)

    def calibrated(samples: PowerSamples) -> PowerSamples:
        return PowerSamples(samples.ns, meter.calibration.correct(samples.watts))

    def lines_of(readings: ReadingColumns) -> tuple[Lines, UsableReadings, bool]:
        usable, found_flags = usable_of(readings), np.unique(readings.flags, return_counts=True)
        flags, count = dict(zip(*(part.tolist() for part in found_flags), strict=True)), len(readings)
        if keeps(count):
            return Lines(count, flags, lambda: readings, lambda: calibrated(usable.samples)), usable, True
        return (
            Lines(count, flags, found.read, lambda: calibrated(usable_of(found.read()).samples)),
            usable,
            False,
        )

    lines, usable, keep = lines_of(found.read())  # of a long run nothing has the readings any more
    samples = usable.samples
    account = account_device(
        samples,
        spans,
        outcomes,
        steps,
        meter.calibration,
        start_ns,
        end_ns,
        meter.nominal_s,
        window=meter.window,
        step_w=meter.traits.step_w,
        u_clock_s=usable.u_clock_s,
    )
    truth = board_truth(folder.path, device, account.curve, spans, account.split.guard_s)
    if not keep:
        account = replace(account, curve=power_curve(PowerSamples.of([], []), start_ns, end_ns))
    return DeviceEnergy(
        device=device,
        lines=lines,
        spans=tuple(spans),
        events=tuple(found.events),
        account=account,
        whole_run=with_meter(account.whole_run, meter.calibration, device, account.dark_s),
        truth=truth,
        meter=meter,
        clock=board,
        u_clock_s=usable.u_clock_s,
        frozen=usable.frozen,
        doubt=found.doubt or board.refusal,
        # Emulated boards have their meter by construction.
        reopened=None if folder.info.kind.emulates else next(iter(reopenings(found.events)), None),
    )
