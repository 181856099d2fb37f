"""Schema of roambench's points in InfluxDB: measurements, tags and fields with their types.

The line encoder writes it, the controller reads it back, `docs/storage.md` shows it; tests hold the three
together. A field's type is settled by the first point that carries it, so a change of type is a new field.
"""

from __future__ import annotations

from typing import Final

from roambench.contract.records import RecordKind

#: Measurement of each kind of record.
MEASUREMENTS: Final = {
    RecordKind.READING: "power",
    RecordKind.PHASE: "phase",
    RecordKind.EVENT: "event",
    RecordKind.HOST: "host",
}
#: Measurement of the agents' own state: no record, not kept, written while the way is free.
BENCH: Final = "bench"

#: Joules of a run's phases, one point per device and phase, written by the controller when the run ends.
ENERGY: Final = "energy"

#: On every point where they are known. Few values each: a tag makes a series.
TAGS: Final = ("bench", "boot", "device", "meter", "run", "system")
#: On points of these measurements besides.
PHASE_TAGGED: Final = ("phase", ENERGY)

#: On every point that is a record: the spool's name and the record's number in it are its key.
KEY_FIELDS: Final[dict[str, type]] = {"spool": str, "seq": int, "monotonic_ns": int}

FIELDS: Final[dict[str, dict[str, type]]] = {
    "power": {
        "volts": float,
        "amps": float,
        "watts": float,
        "wh": float,
        "flags": int,
        "meter_ms": int,
        **KEY_FIELDS,
    },
    "phase": {
        "step": int,
        "start_ns": int,
        "end_ns": int,
        "end_unix_ms": int,
        "transferred_bytes": int,
        "first_byte_ns": int,
        "last_byte_ns": int,
        "stalls_ns": str,
        "order_id": str,
        "train_order_id": str,
        "boot_id": str,
        **KEY_FIELDS,
    },
    "event": {"kind": str, "detail": str, **KEY_FIELDS},
    "host": {
        "cpu_share": float,
        "agent_cpu_s": float,
        "temperature_c": float,
        "cpu_mhz": float,
        "memory_used_bytes": int,
        "sent_bytes": int,
        "received_bytes": int,
        "throttle_bits": int,
        **KEY_FIELDS,
    },
    # The clock's two are written by the controller, the others by owners of a spool.
    BENCH: {
        "spool_depth": int,
        "oldest_age_s": float,
        "dropped": int,
        "dead": int,
        "clock_offset_ms": float,
        "clock_bound_ms": float,
    },
    ENERGY: {"gross_j": float, "net_j": float, "u_gross_j": float, "duration_s": float, "covered_s": float},
}
