"""A run's records as InfluxDB keeps them: what the run folder holds, read back value for value."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

import numpy as np

from roambench.contract.errors import ConfigError, RunError
from roambench.contract.events import EventKind, event_kind
from roambench.contract.json_values import from_json
from roambench.contract.phases import Phase, PhaseSpan
from roambench.contract.records import NO_METER_CLOCK, AgentEvent, HostSample, RecordKind
from roambench.runs.influx.influxql import InfluxQL, named, quoted
from roambench.runs.record_store import ReadingColumns
from roambench.spool.influx_schema import FIELDS, MEASUREMENTS

#: Rows per request: 1.5 MB of readings; phases and events carry text of any length.
PAGE_ROWS: Final = {
    RecordKind.READING: 10_000,
    RecordKind.PHASE: 2_000,
    RecordKind.EVENT: 1_000,
    RecordKind.HOST: 10_000,
}
#: InfluxDB 3 Core refuses queries over more than about 72 hours.
WINDOW_NS: Final = 48 * 3600 * 10**9
_INT64_MAX: Final = 2**63 - 1
_FLAGS_MAX: Final = 0x1F
_PHASES: Final = frozenset(phase.value for phase in Phase)
_STALLS: Final = tuple[tuple[int, int], ...]
_READING_DTYPE: Final = np.dtype("i8, f8, f8, f8, f8, u4, i8")


class InfluxRecords:
    """The records of one run on one server; gives what the run's `RecordStore` gives.

    A run's are those tagged with it, and in the same spools those without a run directly before: what an
    agent stored while it waited for a controller to name the run.

    `span_ns` (unix nanoseconds) bounds every query, for servers that refuse to look at all of time; it is
    used only where the server is version 3. A query asks for at most `page_rows` of a kind. A record that
    came twice is taken once, by (spool, seq).
    LinkError: the server fails. RunError: what it holds is nothing that an agent writes.
    """

    def __init__(
        self,
        server: InfluxQL,
        run_id: str,
        span_ns: tuple[int, int] | None = None,
        page_rows: Mapping[RecordKind, int] = PAGE_ROWS,
    ) -> None:
        self._server = server
        self._page_rows = page_rows
        self._run = f'"run" = {quoted(run_id)}'
        self._run_id = run_id
        self._preludes: dict[str, list[str]] = {}
        self._windows: list[tuple[int | None, int | None]] = [(None, None)]
        if span_ns is not None and server.ping().lstrip("v").startswith("3"):
            starts = range(span_ns[0], span_ns[1], WINDOW_NS)
            self._windows = [(start, min(start + WINDOW_NS, span_ns[1])) for start in starts]

    def devices(self) -> list[str]:
        """The devices that have records in the database."""
        return sorted({device for kind in RecordKind for device in self._counts(kind)})

    def counts(self, device: str) -> dict[RecordKind, int]:
        """Return how many records of each kind a device has."""
        found = {kind: self._counts(kind, device).get(device, 0) for kind in RecordKind}
        return {kind: count for kind, count in found.items() if count}

    def readings(self, device: str) -> ReadingColumns:
        """A device's readings as columns, in the order of their times."""
        table = np.array(
            [
                (
                    row.integer("monotonic_ns"),
                    row.number("volts"),
                    row.number("amps"),
                    row.number("watts"),
                    row.number("wh"),
                    row.integer("flags", 0, 0, _FLAGS_MAX),
                    row.integer("meter_ms", NO_METER_CLOCK, NO_METER_CLOCK, 2**32 - 1),
                )
                for row in self._rows(RecordKind.READING, device)
            ],
            dtype=_READING_DTYPE,
        )
        names = _READING_DTYPE.names or ()
        table = table[np.argsort(table[names[0]], kind="stable")]
        return ReadingColumns(*(np.ascontiguousarray(table[name]) for name in names))

    def spans(self, device: str) -> list[PhaseSpan]:
        """A device's phases in their order."""
        spans = [_span(device, row) for row in self._rows(RecordKind.PHASE, device)]
        return sorted(spans, key=lambda span: (span.start_ns, span.end_ns))

    def events(self, device: str) -> list[AgentEvent]:
        """A device's events in their order."""
        events = [
            AgentEvent(event_kind(row.text("kind")), row.integer("monotonic_ns"), row.text("detail"))
            for row in self._rows(RecordKind.EVENT, device)
        ]
        return sorted(events, key=lambda event: event.monotonic_ns)

    def host_samples(self, device: str) -> list[HostSample]:
        """A device's host samples in their order."""
        samples = [_host_sample(row) for row in self._rows(RecordKind.HOST, device)]
        return sorted(samples, key=lambda sample: sample.monotonic_ns)

    def _counts(self, kind: RecordKind, device: str | None = None) -> dict[str, int]:
        """Points of the run by device."""
        counts: dict[str, int] = {}
        scopes = [self._run] if device is None else self._scopes(device)
        for scope in scopes:
            for start, end in self._windows:
                where = _where(scope, device, start, end)
                query = f'SELECT count("seq") FROM {named(MEASUREMENTS[kind])}{where} GROUP BY "device"'
                for series in self._server.select(query):
                    name, count = series.tags.get("device", ""), series.rows[0][-1] if series.rows else 0
                    if type(count) is not int or count < 0:
                        raise RunError(f"{self._source(kind, name)}: the count of points is {count!r}")
                    counts[name] = counts.get(name, 0) + count
        return counts

    def _rows(self, kind: RecordKind, device: str) -> list[_Row]:
        """All points of one kind, each record once, in the order in which its spool numbered it."""
        found: dict[tuple[str, int], _Row] = {}
        for scope in self._scopes(device):
            for row in self._pages(kind, device, tuple(FIELDS[MEASUREMENTS[kind]]), scope):
                found.setdefault(row.key, row)
        return [found[key] for key in sorted(found)]

    def _scopes(self, device: str) -> list[str]:
        """Conditions that together hold for the device's records of the run, each record under one."""
        if device not in self._preludes:
            self._preludes[device] = list(self._find_preludes(device))
        return [self._run, *self._preludes[device]]

    def _find_preludes(self, device: str) -> Iterator[str]:
        """Per spool, the record contexts without a run directly before the run's first one."""
        columns = ("spool", "seq", "run")
        rows = self._pages(
            RecordKind.EVENT, device, columns, f'"kind" = {quoted(EventKind.RECORD_CONTEXT_BEGINS)}'
        )
        # A tag that was left out comes back as null.
        contexts = sorted({(*row.key, "" if row.values["run"] is None else row.text("run")) for row in rows})
        for spool, own in groupby(contexts, key=lambda context: context[0]):
            first = None
            for _, seq, run in own:
                if run == self._run_id and first is not None and first < seq:
                    yield f'"run" = \'\' AND "spool" = {quoted(spool)} AND "seq" >= {first} AND "seq" < {seq}'
                if run:
                    first = None
                    if run == self._run_id:
                        break
                elif first is None:
                    first = seq

    def _pages(self, kind: RecordKind, device: str, wanted: tuple[str, ...], scope: str) -> Iterator[_Row]:
        """The points in time order, page after page; those on a page's border may come twice."""
        measurement, limit = MEASUREMENTS[kind], self._page_rows[kind]
        columns = ", ".join(named(name) for name in wanted)
        source = self._source(kind, device)
        for first, end in self._windows:
            start = first
            while True:
                where = _where(scope, device, start, end)
                query = f"SELECT {columns} FROM {named(measurement)}{where} ORDER BY time ASC LIMIT {limit}"
                answer = self._server.select(query)
                if not answer:
                    break
                page = answer[0]
                if page.columns != ("time", *wanted):
                    raise RunError(f"{source}: asked for {', '.join(wanted)}, got {', '.join(page.columns)}")
                for values in page.rows:
                    yield _Row(source, dict(zip(page.columns, values, strict=True)))
                if len(page.rows) < limit and not page.partial:
                    break
                # On from the last time itself, not from behind it: points of several series may share it.
                last = page.rows[-1][0] if page.rows else start
                if type(last) is not int or last == start:
                    raise RunError(f"{source}: the server does not get beyond time {last!r}")
                start = last

    def _source(self, kind: RecordKind, device: str) -> str:
        server = self._server.server
        return f"InfluxDB at {server.url}, {MEASUREMENTS[kind]} of {device!r}"


def _where(scope: str, device: str | None, start: int | None, end: int | None) -> str:
    terms = [scope]
    if device is not None:
        terms.append(f'"device" = {quoted(device)}')
    if start is not None:
        terms.append(f"time >= {start}")
    if end is not None:
        terms.append(f"time < {end}")
    return f" WHERE {' AND '.join(terms)}"


@dataclass(frozen=True, slots=True)
class _Row:
    """One point by field name. Any holder of a token may have written it: every value is checked."""

    source: str
    values: dict[str, Any]

    @property
    def key(self) -> tuple[str, int]:
        """The record's name, under any time and tags."""
        return self.text("spool"), self.integer("seq")

    def integer(
        self, name: str, default: int | None = None, least: int = -_INT64_MAX, most: int = _INT64_MAX
    ) -> int:
        value = self.values[name]
        if value is None and default is not None:
            return default
        if type(value) is not int or not least <= value <= most:
            raise self._strange(name, value, "an integer" if abs(least) == most else f"{least} to {most}")
        return value

    def number(self, name: str) -> float:
        """NaN where the field was left out: no database takes NaN itself."""
        value = self.values[name]
        if value is None:
            return math.nan
        if type(value) not in (int, float) or not abs(value) < math.inf:
            raise self._strange(name, value, "a finite number")
        return float(value)

    def text(self, name: str) -> str:
        value = self.values[name]
        if type(value) is not str:
            raise self._strange(name, value, "text")
        return value

    def stalls(self, name: str) -> tuple[tuple[int, int], ...]:
        """Stretches of time as JSON."""
        text = self.text(name)
        try:
            return from_json(_STALLS, text, name)
        except ConfigError:
            raise self._strange(name, text, "a list of stretches") from None

    def _strange(self, name: str, value: object, expected: str) -> RunError:
        at = self.values.get("time")
        return RunError(f"{self.source} at {at}: {name} should be {expected}, got {str(value)[:60]!r}")


def _span(device: str, row: _Row) -> PhaseSpan:
    start_ns, end_ns, phase = row.integer("start_ns"), row.integer("end_ns"), row.text("phase")
    if phase not in _PHASES or end_ns < start_ns:
        raise RunError(f"{row.source}: no phase is {phase!r} from {start_ns} to {end_ns} ns")
    span = PhaseSpan(
        device=device,
        boot_id=row.text("boot_id"),
        phase=Phase(phase),
        step=row.integer("step"),
        start_ns=start_ns,
        end_ns=end_ns,
        order_id=row.text("order_id"),
        train_order_id=row.text("train_order_id"),
        transferred_bytes=row.integer("transferred_bytes"),
        first_byte_ns=row.integer("first_byte_ns"),
        last_byte_ns=row.integer("last_byte_ns"),
        stalls_ns=row.stalls("stalls_ns"),
    )
    if span.doubt is not None:
        raise RunError(f"{row.source} at {row.values.get('time')}: {span.doubt}")
    return span


def _host_sample(row: _Row) -> HostSample:
    return HostSample(
        monotonic_ns=row.integer("monotonic_ns"),
        cpu_share=row.number("cpu_share"),
        agent_cpu_s=row.number("agent_cpu_s"),
        memory_used_bytes=row.integer("memory_used_bytes", -1),
        temperature_c=row.number("temperature_c"),
        cpu_mhz=row.number("cpu_mhz"),
        sent_bytes=row.integer("sent_bytes", -1),
        received_bytes=row.integer("received_bytes", -1),
        throttle_bits=row.integer("throttle_bits", -1),
    )
