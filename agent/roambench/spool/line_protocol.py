"""Records as InfluxDB line protocol: pure, and the same bytes for the same record however often it is sent.

What a point's key (measurement, tags, time) must do: a repeat overwrites, two records never meet. So
- tags come from the record's RecordContext, sorted: bench, boot (8 characters), device, meter, run, system; a
  phase has the tag phase besides; an empty one is left out. Line protocol has no spelling for a backslash at
  a tag's end or for a line break in it: backslashes and control characters become "_".
- time is the record's stamp in unix nanoseconds, cut to the microsecond, plus seq modulo 1000: two readings
  that came in one gulp share a stamp, but not a seq. The exact stamp is the field `monotonic_ns`.
- `end_unix_ms` is there for Grafana alone: it draws a phase as a region up to a column in milliseconds.
- a float field is always written as a float and an integer with its `i`: the first one to write a field
  settles its type for ever. NaN and infinity are left out; `seq` is always there, so no point is empty.

measurement  time       fields
power        stamp      volts amps watts wh (float) · seq flags monotonic_ns meter_ms (int) · spool (string)
phase        start      start_ns end_ns step transferred_bytes first_byte_ns last_byte_ns seq
                        monotonic_ns (= start_ns) end_unix_ms (int) · stalls_ns boot_id order_id
                        train_order_id spool (string); tag phase
event        stamp      seq monotonic_ns (int) · kind detail spool (string)
host         stamp      cpu_share agent_cpu_s temperature_c cpu_mhz (float) · seq monotonic_ns
                        memory_used_bytes sent_bytes received_bytes throttle_bits (int) · spool (string)
bench        now        oldest_age_s (float) · spool_depth dropped dead (int); not a record: best effort
energy       run's      gross_j net_j u_gross_j duration_s covered_s (float); tag phase; not a record: written
             start      when the run ends, again the same points should it end twice
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Final, Protocol

from roambench.contract.phases import PhaseSpan
from roambench.contract.records import AgentEvent, HostSample, Reading, RecordKind, phase_from_bytes
from roambench.spool.influx_schema import BENCH, ENERGY
from roambench.spool.record_context import RecordContext

BOOT_TAG_CHARACTERS: Final = 8
#: InfluxDB keeps times within 1677 and 2262; the smallest and largest int64 are its own.
_TIME_MOST_NS: Final = 2**63 - 2
_INT_MOST: Final = 2**63 - 1
_TAG_ESCAPES: Final = str.maketrans(
    {
        ",": "\\,",
        "=": "\\=",
        " ": "\\ ",
        "\\": "_",
        "\x7f": "_",
        "\x85": "_",
        **{chr(code): "_" for code in range(32)},
    }
)
_STRING_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"'})

FieldValue = float | int | str


class RecordContexts(Protocol):
    """Port to a record's context and the name of its spool: a Spool is one."""

    def context_of(self, seq: int) -> RecordContext | None:
        """The record context in which record `seq` was stored."""
        ...

    def context_of_boot(self, boot_id: str) -> RecordContext | None:
        """The last record context of that boot, if it is known."""
        ...

    def uuid_of(self, seq: int) -> str:
        """The spool's name when record `seq` was stored."""
        ...


class LineEncoder:
    """Lines for the records of one device's spool. Raises ValueError for a record that has none."""

    def __init__(self, device: str, contexts: RecordContexts) -> None:
        self._device = device
        self._contexts = contexts
        self._tags: tuple[RecordContext, str, str] | None = None

    def line(self, seq: int, kind: RecordKind, payload: bytes) -> str:
        """The point of one record, without a line break at its end."""
        context = self._contexts.context_of(seq)
        if context is None:
            raise ValueError("stored before the first record context: its wall-clock time is not known")
        match kind:
            case RecordKind.READING:
                return self._reading(seq, Reading.from_bytes(payload), context)
            case RecordKind.PHASE:
                return self._phase(seq, phase_from_bytes(self._device, payload), context)
            case RecordKind.EVENT:
                event = AgentEvent.from_bytes(payload)
                fields = f"kind={_string(event.kind)},detail={_string(event.detail)}"
                return self._point("event", context, fields, seq, event.monotonic_ns)
            case RecordKind.HOST:
                return self._host(seq, HostSample.from_bytes(payload), context)

    def _reading(self, seq: int, reading: Reading, context: RecordContext) -> str:
        fields = f"flags={int(reading.flags)}i,meter_ms={reading.meter_ms}i"
        for name, value in (
            ("volts", reading.volts),
            ("amps", reading.amps),
            ("watts", reading.watts),
            ("wh", reading.watt_hours),
        ):
            if math.isfinite(value):
                fields += f",{name}={value!r}"
        return self._point("power", context, fields, seq, reading.monotonic_ns)

    def _phase(self, seq: int, span: PhaseSpan, context: RecordContext) -> str:
        if span.boot_id != context.boot_id:
            # Finished by the life after a reboot: its stamps are the earlier boot's.
            context = self._contexts.context_of_boot(span.boot_id) or context
        fields = joined(
            {
                "start_ns": span.start_ns,
                "end_ns": span.end_ns,
                "end_unix_ms": context.unix_ns(span.end_ns) // 1_000_000,
                "step": span.step,
                "transferred_bytes": span.transferred_bytes,
                "first_byte_ns": span.first_byte_ns,
                "last_byte_ns": span.last_byte_ns,
                "stalls_ns": json.dumps(span.stalls_ns, separators=(",", ":")),
                "boot_id": span.boot_id,
                "order_id": span.order_id,
                "train_order_id": span.train_order_id,
            }
        )
        return self._point("phase", context, fields, seq, span.start_ns, span.phase)

    def _host(self, seq: int, sample: HostSample, context: RecordContext) -> str:
        values: dict[str, FieldValue] = {
            "cpu_share": sample.cpu_share,
            "agent_cpu_s": sample.agent_cpu_s,
            "temperature_c": sample.temperature_c,
            "cpu_mhz": sample.cpu_mhz,
        }
        counters = {
            "memory_used_bytes": sample.memory_used_bytes,
            "sent_bytes": sample.sent_bytes,
            "received_bytes": sample.received_bytes,
            "throttle_bits": sample.throttle_bits,
        }
        values |= {name: count for name, count in counters.items() if count >= 0}
        return self._point("host", context, joined(values), seq, sample.monotonic_ns)

    def _point(
        self, measurement: str, context: RecordContext, fields: str, seq: int, ns: int, phase: str = ""
    ) -> str:
        if self._tags is None or self._tags[0] is not context or self._tags[1] != phase:
            self._tags = context, phase, tags_of(self._device, context, phase)
        unix_ns = context.unix_ns(ns) // 1000 * 1000 + seq % 1000
        if not abs(ns) <= _INT_MOST or not abs(unix_ns) <= _TIME_MOST_NS:
            raise ValueError(f"stamp {ns} is outside of what a database can keep")
        return (
            f"{measurement}{self._tags[2]} {fields}{',' if fields else ''}seq={seq}i,monotonic_ns={ns}i,"
            f"spool={_string(self._contexts.uuid_of(seq))} {unix_ns}"
        )


def tags_of(device: str, context: RecordContext | None, phase: str = "") -> str:
    """`,boot=...,device=...` of a record context's points, escaped."""
    tags = {"device": device, "phase": phase}
    if context is not None:
        tags |= {"boot": context.boot_id[:BOOT_TAG_CHARACTERS], "meter": context.meter, "run": context.run}
        tags |= {"bench": context.bench, "system": context.system}
    return "".join(f",{name}={_tag(value)}" for name, value in sorted(tags.items()) if value)


def bench_line(
    device: str, context: RecordContext | None, values: Mapping[str, FieldValue], unix_ns: int
) -> str:
    """A point of the bench's own state; `values` may not be empty."""
    return f"{BENCH}{tags_of(device, context)} {joined(values)} {unix_ns}"


def energy_line(
    device: str, context: RecordContext, phase: str, values: Mapping[str, FieldValue], unix_ns: int
) -> str:
    """A point of a phase's joules over a run; `values` may not be empty."""
    return f"{ENERGY}{tags_of(device, context, phase)} {joined(values)} {unix_ns}"


def joined(values: Mapping[str, FieldValue]) -> str:
    """Fields, comma between; NaN and infinity are left out. ValueError for an integer beyond 63 bits."""
    return ",".join(
        f"{name}={_field(name, value)}"
        for name, value in values.items()
        if not isinstance(value, float) or math.isfinite(value)
    )


def _field(name: str, value: FieldValue) -> str:
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, int):
        if abs(value) > _INT_MOST:
            raise ValueError(f"{name} {value} does not fit 63 bits")
        return f"{value}i"
    return _string(value)


def _tag(value: str) -> str:
    return _utf8(value).translate(_TAG_ESCAPES)


def _string(value: str) -> str:
    return f'"{_utf8(value).translate(_STRING_ESCAPES)}"'


def _utf8(value: str) -> str:
    """Half a surrogate pair (JSON may spell one) becomes a question mark: no server takes it."""
    return value.encode("utf-8", "replace").decode()
