"""The clocks that stamped boards' readings, and their uncertainty (rule R2): what the report must say."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from roambench.contract.counts import count
from roambench.contract.errors import ConfigError
from roambench.contract.events import EventKind
from roambench.contract.phases import PhaseSpan
from roambench.contract.records import AgentEvent
from roambench.energy.clocks.clock_fit import (
    FLAG_BOUND_NS,
    REFUSE_BOUND_NS,
    ClockBurst,
    ClockFit,
    ClockVerdict,
)
from roambench.meters.traits import MeterDescription
from roambench.rounds.records import ClockProbed, RoundRecord
from roambench.runs.event_log import EventLog

#: A remote reader of this name is the controller's own machine: its clock is the one that asks.
CONTROLLER_HOST: Final = "controller"
_GRAVITY = (ClockVerdict.GOOD, ClockVerdict.FLAGGED, ClockVerdict.REFUSED)


class ReaderCase(StrEnum):
    """The place where the meter of a board is read."""

    LOCAL = "local"  # the board reads its own meter: readings and phases share one clock
    REMOTE = "remote"  # another host reads it: its clock must be laid over the board's
    UNKNOWN = "unknown"  # no meter was described (none is read, or the run is too young)


@dataclass(frozen=True, slots=True)
class BoardClock:
    """One board's clock against the controller's, over a run; that of its meter's reader as well, if remote.

    `fits` holds one straight line per boot of the board (its clock starts again with each). `bound_ns` is
    the worst bound within the run, in device time: divided by `time_scale` it is what the machines saw.
    `unprobed`: the boots that have phases and no burst.
    """

    device: str
    case: ReaderCase
    reader: str  # the host that reads the meter; empty when it is the board itself
    fits: Mapping[str, ClockFit]
    verdict: ClockVerdict
    bound_ns: float
    time_scale: float
    unprobed: tuple[str, ...] = ()

    @property
    def refused(self) -> bool:
        """True if the board's readings must not be laid over its phases."""
        return self.case is ReaderCase.REMOTE and self.verdict is ClockVerdict.REFUSED

    @property
    def offset_ms(self) -> float:
        """At the first burst of the latest boot; NaN when there was none."""
        fit = self._latest
        return math.nan if fit is None else fit.offset_ns * 1e-6

    @property
    def drift_ppm(self) -> float:
        """The rate of the board's clock against ours, in parts per million; NaN if unknown."""
        fit = self._latest
        return math.nan if fit is None else fit.drift * 1e6

    @property
    def bursts(self) -> int:
        """The number of bursts of probes."""
        return sum(len(fit.bursts) for fit in self.fits.values())

    @property
    def _latest(self) -> ClockFit | None:
        return list(self.fits.values())[-1] if self.fits else None

    @property
    def refusal(self) -> str:
        """The reason why no sum may hold the board's joules; "" where nothing is against it."""
        return f"clock refused: {self.reader} reads its meter, {self._known()}" if self.refused else ""

    @property
    def misplaced(self) -> str:
        """A sentence on phases of boots that were never probed; "" where there are none."""
        if not self.unprobed or self.refused:
            return ""
        without = f" and without what {self.reader} read" if self.case is ReaderCase.REMOTE else ""
        return (
            f"{self.device}: the clock of {count(len(self.unprobed), 'boot')} was never probed: phases there "
            f"stand where its wall clock says, at best, by an unknown error{without}; "
            "find out why it booted, or probe more often (clock.period_s)"
        )

    def _known(self) -> str:
        if not self.fits:
            return "no clock probes"
        if math.isinf(self.bound_ns):
            return f"the clock of {self.reader} was never probed"
        known = f"bound {self.bound_ns * 1e-6:.1f} ms"
        if self.time_scale != 1.0:
            host_ms = self.bound_ns * 1e-6 / self.time_scale
            known += f" of device time, {host_ms:.1f} ms of this machine's,"
        return f"{known} over {self.bursts} bursts"

    def sentence(self) -> str:
        """The finding as a sentence for a report, with the board's name."""
        known = self._known()
        match self.case:
            case ReaderCase.LOCAL:
                return f"{self.device}: reads its own meter, so no offset is needed ({known})"
            case ReaderCase.REMOTE:
                judged = {
                    ClockVerdict.GOOD: "good",
                    ClockVerdict.FLAGGED: "flagged: worse than 100 ms, or known from too few probes",
                    ClockVerdict.REFUSED: "refused: worse than 400 ms, or not known at all",
                }[self.verdict]
                return f"{self.device}: {self.reader} reads its meter; {known}; {judged}"
            case ReaderCase.UNKNOWN:
                return f"{self.device}: no meter is described ({known})"


def board_clock(
    device: str,
    bursts: Sequence[ClockProbed],
    description: MeterDescription | None,
    start_ns: int | None = None,
    end_ns: int | None = None,
) -> BoardClock:
    """Fit the clock of `device` from its bursts. Without a run's borders the bursts are their own."""
    by_boot: dict[str, list[ClockProbed]] = {}
    for burst in bursts:
        by_boot.setdefault(burst.boot_id, []).append(burst)
    fits = {boot: ClockFit.of(_burst(burst) for burst in found) for boot, found in by_boot.items()}
    verdicts, bounds_ns = [], []
    for number, fit in enumerate(fits.values(), 1):
        first_ns, last_ns = fit.bursts[0].at_ns, fit.bursts[-1].at_ns
        # The first boot's clock reaches back to the run's start, the last one's on to its end. When it
        # changed in between is unknown, so no line is drawn out on that side.
        if number == 1 and start_ns is not None:
            first_ns = min(start_ns, last_ns)
        if number == len(fits) and end_ns is not None:
            last_ns = max(end_ns, first_ns)
        verdicts.append(fit.verdict_over(first_ns, last_ns))
        bounds_ns.append(fit.worst_bound_ns(first_ns, last_ns))
    if description is None:
        case = ReaderCase.UNKNOWN
    else:
        case = ReaderCase.REMOTE if description.remote_reader else ReaderCase.LOCAL
    return BoardClock(
        device=device,
        case=case,
        reader=description.remote_reader if description is not None else "",
        fits=fits,
        verdict=max(verdicts, key=_GRAVITY.index, default=ClockVerdict.REFUSED),
        bound_ns=max(bounds_ns, default=math.inf),
        time_scale=bursts[-1].time_scale if bursts else 1.0,
    )


def board_clocks(
    names: Sequence[str],
    records: Iterable[RoundRecord],
    events: Mapping[str, Sequence[AgentEvent]],
    start_ns: int | None = None,
    end_ns: int | None = None,
    boots: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> tuple[BoardClock, ...]:
    """The clock of every board of a run, in the order of `names`; `events` as the record store has them, and
    `boots` those of which a board that counts from its own boot has phases."""
    bursts: dict[int, list[ClockProbed]] = {}
    for record in EventLog.of(records).only(ClockProbed):
        bursts.setdefault(record.device, []).append(record)
    own = {
        name: board_clock(name, bursts.get(index, ()), described(events.get(name, ())), start_ns, end_ns)
        for index, name in enumerate(names)
    }
    for name, clock in own.items():
        own[name] = replace(clock, unprobed=tuple(sorted({*boots.get(name, ())} - clock.fits.keys() - {""})))
    return tuple(_with_reader(clock, own) for clock in own.values())


def unplaced(clock: BoardClock, spans: Sequence[PhaseSpan]) -> list[tuple[int, int]]:
    """Stretches in which it is unknown which readings of another host are of which phase, one a boot."""
    found = []
    for boot in clock.unprobed if clock.case is ReaderCase.REMOTE else ():
        there = [span for span in spans if span.boot_id == boot]
        if there:
            found.append((min(span.start_ns for span in there), max(span.end_ns for span in there)))
    return found


def _with_reader(clock: BoardClock, boards: Mapping[str, BoardClock]) -> BoardClock:
    """Add both clocks' bounds where another board reads the meter; a reader that was never probed
    is refused.

    The reader may be the controller's own machine, whose clock is the one that asks: it is right.
    """
    if clock.case is not ReaderCase.REMOTE or clock.reader == CONTROLLER_HOST:
        return clock
    reader = boards.get(clock.reader)
    if reader is None or not reader.fits:
        return replace(clock, verdict=ClockVerdict.REFUSED, bound_ns=math.inf)
    bound_ns = clock.bound_ns + reader.bound_ns
    verdict = max(clock.verdict, reader.verdict, _judged(bound_ns), key=_GRAVITY.index)
    return replace(clock, verdict=verdict, bound_ns=bound_ns)


def _judged(bound_ns: float) -> ClockVerdict:
    if bound_ns > REFUSE_BOUND_NS:
        return ClockVerdict.REFUSED
    return ClockVerdict.FLAGGED if bound_ns > FLAG_BOUND_NS else ClockVerdict.GOOD


def described(events: Iterable[AgentEvent]) -> MeterDescription | None:
    """The latest meter among a device's events; None when there is none (or only damaged ones)."""
    found = None
    for event in events:
        if event.kind == EventKind.METER_DESCRIBED:
            try:
                found = MeterDescription.from_event(event)
            except ConfigError:
                continue
    return found


def _burst(record: ClockProbed) -> ClockBurst:
    return ClockBurst(record.at_ns, record.offset_ns, record.bound_ns, record.probes)
