"""The state of each board: its meter, the clock of its readings, its spool, its temperature; pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from roambench.contract.events import EventKind
from roambench.contract.phases import ACTIVE_PHASES, Phase, PhaseSpan
from roambench.contract.records import AgentEvent, HostSample
from roambench.contract.throttling import ThrottledSpan, throttle_names, throttled_spans
from roambench.energy.clocks.clock_fit import ClockVerdict
from roambench.meters.traits import MeterDescription
from roambench.report.summaries.notes import BoardNote, board_notes
from roambench.rounds.records import FleetEvent, RoundRecord
from roambench.runs.event_log import EventLog
from roambench.runs.measured.accounts import RunEnergy
from roambench.runs.measured.clocks import BoardClock, ReaderCase, described

#: The store that the run folder is filled from.
CONTROLLER: Final = "controller"


@dataclass(frozen=True, slots=True)
class SpoolState:
    """State of an agent's spool for one store at the end; `dropped` and `dead` over the spool's life."""

    store: str
    depth: int
    dropped: int
    dead: int

    @property
    def lossless(self) -> bool:
        """True where everything arrived. This record came through the controller: all before it did, too."""
        waiting = self.depth if self.store != CONTROLLER else 0
        return not (waiting or self.dropped or self.dead)


#: Samples of a board that a report shows; of more a share.
_MOST_SHOWN: Final = 20_000


@dataclass(frozen=True, slots=True)
class HostSummary:
    """Extremes and means over a board's samples; NaN where it does not say.

    `agent_share` is the CPU time of the agent's processes in cores (1.0: one core busy).
    """

    samples: int
    cpu_share: float
    agent_share: float
    mean_c: float
    highest_c: float
    lowest_mhz: float
    highest_mhz: float
    knows_throttling: bool

    @classmethod
    def of(cls, table: npt.NDArray[Any]) -> HostSummary:
        """Sum up at least one row of HOST_DTYPE. The first sample's CPU share is since the process began, and
        is left out."""
        first, last = (HostSample(*row) for row in table[[0, -1]].tolist())
        passed_s = (last.monotonic_ns - first.monotonic_ns) * 1e-9
        warm, clocks, shares = (
            column[np.isfinite(column)].tolist()
            for column in (table["temperature_c"], table["cpu_mhz"], table["cpu_share"][1:])
        )
        return cls(
            samples=len(table),
            cpu_share=math.fsum(shares) / len(shares) if shares else math.nan,
            agent_share=(last.agent_cpu_s - first.agent_cpu_s) / passed_s if passed_s > 0.0 else math.nan,
            mean_c=math.fsum(warm) / len(warm) if warm else math.nan,
            highest_c=max(warm, default=math.nan),
            lowest_mhz=min(clocks, default=math.nan),
            highest_mhz=max(clocks, default=math.nan),
            knows_throttling=bool((table["throttle_bits"] >= 0).any()),
        )


@dataclass(frozen=True)
class HostRecord:
    """A board's samples summed up, and those of them that a report shows: of many a share, and all around
    which its throttle bits change."""

    summary: HostSummary
    samples: tuple[HostSample, ...]

    @classmethod
    def of(cls, table: npt.NDArray[Any]) -> HostRecord:
        """Sum up at least one row of HOST_DTYPE, and choose what is shown."""
        shown = np.arange(len(table)) % (1 + len(table) // _MOST_SHOWN) == 0
        change = np.diff(table["throttle_bits"]) != 0
        shown[1:] |= change
        shown[:-1] |= change
        shown[-1] = True
        return cls(HostSummary.of(table), tuple(HostSample(*row) for row in table[shown].tolist()))


@dataclass(frozen=True, slots=True)
class BoardState:
    """One board over a run."""

    device: str
    meter: MeterDescription | None
    clock: BoardClock
    spools: tuple[SpoolState, ...]
    host: HostSummary | None
    throttled: tuple[ThrottledSpan, ...]
    doubt: str = ""  # why nothing that it said is accounted
    notes: tuple[BoardNote, ...] = ()
    reopened: str = ""  # why its meter may not be its own from some moment on

    def throttled_phases(self) -> dict[Phase, int]:
        """The number of phases of each type with a throttle bit set."""
        counts: dict[Phase, int] = {}
        for item in self.throttled:
            counts[item.span.phase] = counts.get(item.span.phase, 0) + 1
        return counts

    def throttle_names(self) -> tuple[str, ...]:
        """The names of everything that throttled the board."""
        bits = 0
        for item in self.throttled:
            bits |= item.bits
        return throttle_names(bits)


def board_states(
    names: Sequence[str],
    records: Sequence[RoundRecord],
    energy: RunEnergy | None,
    host: Mapping[str, HostRecord],
) -> tuple[BoardState, ...]:
    """The state of every board of a run, in the order of `names`; () for a run without records of boards."""
    if energy is None:
        return ()
    events = {device.device: device.events for device in energy.devices}
    doubts = {device.device: device.doubt for device in energy.devices}
    notes = {device.device: board_notes(device, energy.start_ns) for device in energy.devices}
    left = left_in_spools(records)
    reopened = {
        device.device: device.reopened.sentence(device.device, energy.start_ns)
        for device in energy.devices
        if device.reopened is not None
    }
    spans: dict[str, Sequence[PhaseSpan]] = {device.device: device.spans for device in energy.devices}
    clocks = {device.device: device.clock for device in energy.devices}
    summaries = {name: record.summary for name, record in host.items()}
    samples = {name: record.samples for name, record in host.items()}
    return tuple(
        BoardState(
            device=clock.device,
            meter=described(events.get(clock.device, ())),
            clock=clock,
            spools=spool_states(events.get(clock.device, ()), left.get(clock.device)),
            host=summaries.get(clock.device),
            throttled=tuple(throttled_spans(spans.get(clock.device, ()), samples.get(clock.device, ()))),
            doubt=doubts.get(clock.device, ""),
            notes=notes.get(clock.device, ()),
            reopened=reopened.get(clock.device, ""),
        )
        for clock in (clocks[name] for name in names)
    )


def left_in_spools(records: Sequence[RoundRecord]) -> dict[str, dict[str, int]]:
    """By device, what its agent said that stores had yet to get as it took its leave, by store (none: all had
    all). Of an agent that did not, or came back since, nothing."""
    found: dict[str, dict[str, int]] = {}
    for record in EventLog.of(records).only(FleetEvent):
        match record.kind:
            case EventKind.SESSION_OPENED | EventKind.SESSION_LOST:
                found.pop(record.name, None)
            case EventKind.SESSION_CLOSED:
                found[record.name] = {}
            case EventKind.LEFT_IN_SPOOL if record.name in found:
                stores = (text.rpartition(" ") for text in record.detail.split(", "))
                found[record.name] = {
                    store: int(count) for store, _, count in stores if count.isdecimal() and len(count) < 19
                }
    return found


def spool_states(
    events: Sequence[AgentEvent], left: Mapping[str, int] | None = None
) -> tuple[SpoolState, ...]:
    """The agent's last report of its spool; () when there is none, or a damaged one.

    It was written before the last records were sent: `left` is what the agent said after that.
    """
    for event in reversed(events):
        if event.kind == EventKind.SPOOL_STATE:
            try:
                found = json.loads(event.detail)
                states = [
                    SpoolState(str(store), *(_count(state[key]) for key in ("depth", "dropped", "dead")))
                    for store, state in sorted(found.items())
                ]
                if left is not None:
                    states = [replace(state, depth=left.get(state.store, 0)) for state in states]
                return tuple(states)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                continue
    return ()


def state_flags(states: Sequence[BoardState]) -> list[str]:
    """One sentence per doubt about the boards."""
    flags = []
    for state in states:
        if state.doubt:
            flags.append(f"{state.device}: {state.doubt}: left out of every sum")
        elif state.clock.case is ReaderCase.REMOTE and state.clock.verdict is not ClockVerdict.GOOD:
            flags.append(f"clock of {state.clock.sentence()}")
        if state.clock.misplaced:
            flags.append(state.clock.misplaced)
        if state.reopened:
            flags.append(state.reopened)
        flags += [
            f"{state.device}: spool for {spool.store}: {spool.dropped:,} records dropped, "
            f"{spool.dead:,} refused for good, {spool.depth:,} not yet delivered at the end"
            + (" (roambench fleet fetch BENCH RUN --dead-letters tries again)" if spool.dead else "")
            for spool in state.spools
            if not spool.lossless
        ]
        active = {phase: n for phase, n in state.throttled_phases().items() if phase in ACTIVE_PHASES}
        if active:
            phases = ", ".join(f"{count} of {phase.value}" for phase, count in active.items())
            flags.append(
                f"{state.device}: {', '.join(state.throttle_names())} in {phases}: it may have run slower "
                "and drawn less than it claims"
            )
    return flags


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"expected a count, got {value!r}")
    return value
