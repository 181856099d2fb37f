"""Records of a bench on one clock: every board counts from its own boot, the run from its controller's.

Raw stamps stay as they were drained. For an analysis each is moved by what the probes found of the clock of
the boot it was taken in: by one offset per boot, so that no duration within a boot changes. (At 50 ppm an
hour's run is 0.1 s off at its ends then, where boards idle; phases and readings of a board that reads its
own meter move together.) Stamps of another host that reads the meter are moved by the lines through the
probes of both hosts to where the board's own clock would have put them, drift and all.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from operator import itemgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from roambench.contract.errors import ConfigError
from roambench.contract.events import EventKind
from roambench.contract.phases import PhaseSpan
from roambench.contract.records import AgentEvent, RecordKind
from roambench.energy.clocks.clock_fit import MOST_OFFSET_NS, ClockBurst, ClockFit, asked
from roambench.rounds.records import ClockProbed, RoundRecord
from roambench.runs.event_log import EventLog
from roambench.runs.folder import RunFolder
from roambench.runs.measured.clocks import CONTROLLER_HOST, described
from roambench.runs.record_store import (
    MOST_WALL_NS,
    ReadingColumns,
    RecordStore,
    columns_of,
    host_in_time,
    in_time,
)
from roambench.runs.records import Records
from roambench.spool.record_context import RecordContext

#: In place of a stamp that is of no clock that is known.
_NOWHERE: Final = int(np.iinfo(np.int64).min)


def on_one_clock(folder: RunFolder, journal: Iterable[RoundRecord], store: Records) -> Records:
    """`store` with stamps of the controller's clock, for a run on a bench; others share one clock already.

    Records kept elsewhere than in the folder do not tell which boot they are of: they stay as they are.
    """
    if not folder.info.kind.own_clocks or not isinstance(store, RecordStore):
        return store
    probed: dict[str, dict[str, list[ClockBurst]]] = {}
    for record in EventLog.of(journal).only(ClockProbed):
        if (
            0 <= record.device < len(folder.info.device_names)
            and abs(record.offset_ns) <= MOST_OFFSET_NS  # a run of a version that did not ask
        ):
            bursts = probed.setdefault(folder.info.device_names[record.device], {})
            burst = ClockBurst(record.at_ns, record.offset_ns, record.bound_ns, record.probes)
            bursts.setdefault(record.boot_id, []).append(burst)
    return OneClock(
        store,
        {name: {boot: ClockFit.of(some) for boot, some in boots.items()} for name, boots in probed.items()},
    )


def middle_offset_ns(fit: ClockFit) -> int:
    """Return how far a boot's clock is ahead of the controller's in the middle of what was probed of it."""
    return round(fit.offset_ns_at((fit.bursts[0].at_ns + fit.bursts[-1].at_ns) // 2))


class OneClock:
    """`Records` of the controller's clock. A board's boot that was not probed goes by its wall clock.

    What no clock at all is known of keeps its stamps. `fits` are the lines by host and boot.
    """

    def __init__(self, store: RecordStore, fits: Mapping[str, Mapping[str, ClockFit]]) -> None:
        self._store = store
        self._fits = fits
        self._readers: dict[str, dict[str, str]] = {}
        self._contexts: dict[str, dict[str, list[tuple[int, RecordContext]]]] = {}

    def over(self, store: RecordStore) -> OneClock:
        """The same of another connection to the records."""
        made = OneClock(store, self._fits)
        made._contexts, made._readers = self._contexts, self._readers
        return made

    @property
    def store(self) -> RecordStore:
        """The records with the stamps that boards gave them."""
        return self._store

    def devices(self) -> list[str]:
        """The devices that have records."""
        return self._store.devices()

    def counts(self, device: str) -> dict[RecordKind, int]:
        """Return how many records of each kind a device has."""
        return self._store.counts(device)

    def readings(self, device: str) -> ReadingColumns:
        """A device's readings, on the run's clock, without those of another host's boot that was not probed:
        its wall clock may be wrong by any time."""
        moved = []
        for spool, table in self._store.spooled(device):
            columns = columns_of(table)
            ns = self._on_clock(columns.ns, device, spool, RecordKind.READING)
            moved.append(replace(columns, ns=ns).where(ns != _NOWHERE))
        return in_time(moved)

    def host_table(self, device: str) -> npt.NDArray[Any]:
        """A device's host samples as a table of HOST_DTYPE, on the run's clock."""
        moved = []
        for spool, table in self._store.spooled(device, RecordKind.HOST):
            mine = table.copy()
            mine["monotonic_ns"] = self._on_clock(mine["monotonic_ns"], device, spool, RecordKind.HOST)
            moved.append(mine)
        return host_in_time(moved)

    def _on_clock(
        self, stamps: npt.NDArray[np.int64], device: str, spool: str, kind: RecordKind
    ) -> npt.NDArray[np.int64]:
        """The stamps of a spool's records of a kind, in the order they were spooled, on the run's clock."""
        ns, contexts = stamps.copy(), self._contexts_of(device).get(spool, [])
        # What came before the first record context that is known is of its boot, as likely as not.
        begins = [self._store.count_before(device, spool, seq, kind) for seq, _ in contexts[1:]]
        boots = [context.boot_id for _, context in contexts] or [""]
        for boot, (first, end) in zip(boots, pairwise([0, *begins, len(ns)]), strict=True):
            ns[first:end] = self._laid(ns[first:end], device, spool, boot)
        return ns

    def spans(self, device: str) -> list[PhaseSpan]:
        """A device's phases, on the run's clock."""
        moved = []
        for span in self._store.spans(device):  # each names its boot
            by_ns = self._offset(device, span.boot_id)
            stamps = {name: getattr(span, name) - by_ns for name in ("start_ns", "end_ns")}
            if span.last_byte_ns:
                stamps |= {name: getattr(span, name) - by_ns for name in ("first_byte_ns", "last_byte_ns")}
            stalls_ns = tuple((begin_ns - by_ns, end_ns - by_ns) for begin_ns, end_ns in span.stalls_ns)
            moved.append(replace(span, **stamps, stalls_ns=stalls_ns))
        return sorted(moved, key=lambda span: (span.start_ns, span.end_ns))

    def events(self, device: str) -> list[AgentEvent]:
        """A device's events, on the run's clock."""
        moved = []
        for spool, seq, payload in self._store.placed(device, RecordKind.EVENT):
            event, contexts = AgentEvent.from_bytes(payload), self._contexts_of(device).get(spool, [])
            at = max(0, bisect_right(contexts, seq, key=itemgetter(0)) - 1)
            boot = contexts[at][1].boot_id if contexts else ""
            (ns,) = self._laid(np.array([event.monotonic_ns]), device, spool, boot).tolist()
            if ns == _NOWHERE:
                reader = self._readers_of(device)[spool]
                ns = event.monotonic_ns - self._offset(reader, boot, device)
            moved.append(replace(event, monotonic_ns=ns))
        return sorted(moved, key=lambda event: event.monotonic_ns)

    def _laid(
        self, ns: npt.NDArray[np.int64], device: str, spool: str, boot_id: str
    ) -> npt.NDArray[np.int64]:
        """Stamps of a boot in a spool of the device's records (boot "": not known), on the run's clock as
        its phases are; `_NOWHERE` where another host made them in a boot that was not probed."""
        reader = self._readers_of(device).get(spool, "")
        known = self._fits.get(reader, {})
        if not boot_id and len(known) == 1:
            (boot_id,) = known
        if reader == CONTROLLER_HOST:
            there = ns
        elif boot_id in known:
            there = asked(ns, known[boot_id])
        elif known and boot_id not in self._fits.get(device, {}):
            return np.full(len(ns), _NOWHERE)
        else:  # the device's own records
            return ns - self._offset(device, boot_id) if boot_id else ns
        return there + self._drifted(device, there)

    def _drifted(self, device: str, ns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return by how much phases at times of the controller's clock are put too late by the drift
        that one offset per boot leaves in them."""
        fits = sorted(self._fits.get(device, {}).values(), key=lambda fit: fit.bursts[0].at_ns)
        found = np.zeros(len(ns), np.int64)
        for number, fit in enumerate(fits):
            # A board's clock counts from its boot.
            since = number == 0 or ns >= min(-round(fit.offset_ns), fit.bursts[0].at_ns)
            late = np.rint(fit.offsets_ns_at(ns)).astype(np.int64) - middle_offset_ns(fit)
            found = np.where(since, late, found)
        return found

    def _offset(self, host: str, boot_id: str, device: str = "") -> int:
        """Return how far the clock of a host's boot is ahead; its record contexts may be among those of
        `device`, whose meter it reads."""
        known = self._fits.get(host, {})
        if boot_id in known:
            return middle_offset_ns(known[boot_id])
        # Both boots counted up while the same wall clock ran on: unix = device + unix_minus_device.
        walls = {
            context.boot_id: context.unix_minus_device_ns
            for name in ((host, device) if device else (host,))
            for contexts in self._contexts_of(name).values()
            for _, context in contexts
            if abs(context.unix_minus_device_ns) <= MOST_WALL_NS
        }
        for boot, fit in reversed(list(known.items())):
            if boot in walls and boot_id in walls:
                return middle_offset_ns(fit) + walls[boot] - walls[boot_id]
        return 0

    def _readers_of(self, device: str) -> dict[str, str]:
        """Spool -> the other host that read the device's meter and spooled it there."""
        self._contexts_of(device)
        return self._readers[device]

    def _contexts_of(self, device: str) -> dict[str, list[tuple[int, RecordContext]]]:
        """Spool -> (first seq, record context), ascending."""
        if device not in self._contexts:
            found: dict[str, list[tuple[int, RecordContext]]] = {}
            readers: dict[str, str] = {}
            for spool, seq, payload in self._store.placed(device, RecordKind.EVENT):
                event = AgentEvent.from_bytes(payload)
                if event.kind == EventKind.RECORD_CONTEXT_BEGINS:
                    try:
                        found.setdefault(spool, []).append((seq, RecordContext.from_json(event.detail)))
                    except ConfigError:
                        continue
                elif (meter := described([event])) is not None:
                    readers[spool] = meter.remote_reader
            self._readers[device] = readers
            self._contexts[device] = found
        return self._contexts[device]
