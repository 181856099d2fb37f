"""A run's records as InfluxDB keeps them, read back value for value into a store like the run folder's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from roambench.contract.errors import ConfigError, RecordConflict, RunError
from roambench.contract.events import event_kind
from roambench.contract.json_values import from_json
from roambench.contract.phases import Phase, PhaseSpan
from roambench.contract.records import (
    NO_METER_CLOCK,
    AgentEvent,
    HostSample,
    Reading,
    ReadingFlag,
    RecordKind,
    phase_to_bytes,
)
from roambench.runs.influx.influxql import InfluxQL, named, quoted
from roambench.runs.record_store import RecordStore
from roambench.spool.influx_schema import FIELDS, MEASUREMENTS, PHASE_TAGGED

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


def read_back(
    server: InfluxQL,
    run_id: str,
    devices: Iterable[str],
    store: RecordStore,
    span_ns: tuple[int, int] | None = None,
    page_rows: Mapping[RecordKind, int] = PAGE_ROWS,
) -> None:
    """Bring the records of a run's `devices` into `store`, as its run folder has them: each under its spool's
    name and number, once however often it lies there.

    `span_ns` (unix nanoseconds) bounds every query, for servers that refuse to look at all of time; it is
    used only where the server is version 3. A query asks for at most `page_rows` of a kind.
    LinkError: the server fails. RunError: what it holds is nothing that an agent writes.
    """
    windows: list[tuple[int | None, int | None]] = [(None, None)]
    if span_ns is not None and server.ping().lstrip("v").startswith("3"):
        starts = range(span_ns[0], span_ns[1], WINDOW_NS)
        windows = [(start, min(start + WINDOW_NS, span_ns[1])) for start in starts]
    for device in devices:
        for kind, made in _PAYLOADS.items():
            pages = _pages(server, run_id, kind, device, windows, page_rows[kind])
            for page in pages:
                by_spool: dict[str, dict[int, bytes]] = {}
                for row in page:
                    by_spool.setdefault(row.text("spool"), {})[row.integer("seq", least=0)] = made(
                        device, row
                    )
                for spool, payloads in by_spool.items():
                    with suppress(RecordConflict):  # a number that lies there twice: the first one stays
                        store.insert(device, spool, [(seq, kind, one) for seq, one in payloads.items()])


def _pages(
    server: InfluxQL,
    run_id: str,
    kind: RecordKind,
    device: str,
    windows: Iterable[tuple[int | None, int | None]],
    limit: int,
) -> Iterator[list[_Row]]:
    """The points of a device's records of one kind in time order; those on a page's border may come twice."""
    measurement = MEASUREMENTS[kind]
    wanted = {name: named(name) for name in FIELDS[measurement]}
    if measurement in PHASE_TAGGED:
        wanted |= {"phase_tag": '"phase"::tag', "phase_field": '"phase"::field'}
    columns = ", ".join(f"{source} AS {named(name)}" for name, source in wanted.items())
    source = f"InfluxDB at {server.server.url}, {measurement} of {device!r}"
    for first, end in windows:
        start = first
        while True:
            where = _where(run_id, device, start, end)
            query = f"SELECT {columns} FROM {named(measurement)}{where} ORDER BY time ASC LIMIT {limit}"
            answer = server.select(query)
            if not answer:
                break
            page = answer[0]
            if page.columns != ("time", *wanted):
                raise RunError(f"{source}: asked for {', '.join(wanted)}, got {', '.join(page.columns)}")
            yield [_Row(source, dict(zip(page.columns, values, strict=True))) for values in page.rows]
            if len(page.rows) < limit and not page.partial:
                break
            # On from the last time itself, not from behind it: points of several series may share it.
            last = page.rows[-1][0] if page.rows else start
            if type(last) is not int or last == start:
                raise RunError(f"{source}: the server does not get beyond time {last!r}")
            start = last


def _where(run_id: str, device: str, start: int | None, end: int | None) -> str:
    terms = [f'"run" = {quoted(run_id)}', f'"device" = {quoted(device)}']
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


def _reading(device: str, row: _Row) -> bytes:
    return Reading(
        row.integer("monotonic_ns"),
        row.number("volts"),
        row.number("amps"),
        row.number("watts"),
        row.number("wh"),
        ReadingFlag(row.integer("flags", 0, 0, _FLAGS_MAX)),
        row.integer("meter_ms", NO_METER_CLOCK, NO_METER_CLOCK, 2**32 - 1),
    ).to_bytes()


def _phase(device: str, row: _Row) -> bytes:
    start_ns, end_ns = row.integer("start_ns"), row.integer("end_ns")
    # Runs of earlier versions have the phase as a field. A tag that was left out comes as null or empty.
    phase = row.text("phase_tag" if row.values["phase_tag"] else "phase_field")
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
    return phase_to_bytes(span)


def _event(device: str, row: _Row) -> bytes:
    kind = event_kind(row.text("kind"))
    return AgentEvent(kind, row.integer("monotonic_ns"), row.text("detail")).to_bytes()


def _host_sample(device: str, row: _Row) -> bytes:
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
    ).to_bytes()


#: What each kind's point was as a record: the inverse of `spool.line_protocol`.
_PAYLOADS: Final[Mapping[RecordKind, Callable[[str, _Row], bytes]]] = {
    RecordKind.READING: _reading,
    RecordKind.PHASE: _phase,
    RecordKind.EVENT: _event,
    RecordKind.HOST: _host_sample,
}
