"""Records that an agent spools and drains: meter readings and phase events, as small self-contained byte
records.

A record is (seq, kind, payload). `seq` is given by the spool and never reused; with the device's name and
the spool's uuid it is the key that makes every delivery exactly-once.
Payloads come over the network from untrusted machines: decoding raises `ValueError` only.
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Final

from roambench.contract.events import AnyEventKind, event_kind
from roambench.contract.json_values import from_json, plain
from roambench.contract.phases import Phase, PhaseSpan

_PHASE_ROW: Final = tuple[str, Phase, int, int, int, str, str, int, int, int, tuple[tuple[int, int], ...]]
#: `Reading.meter_ms` of a meter without a clock.
NO_METER_CLOCK: Final = -1


class RecordKind(IntEnum):
    """Kind of a drained record's content."""

    READING = 1
    PHASE = 2  # a finished PhaseSpan
    EVENT = 3  # anything else worth keeping: meter state, agent start, order progress
    HOST = 4  # a HostSample


class ReadingFlag(IntFlag):
    """Doubts about one reading; it is stored all the same (raw samples are immutable)."""

    NONE = 0
    INCONSISTENT = 1  # |V*I - W| > 0.02 W + 2 %: the three registers straddle an update, or a byte is wrong
    UNDERVOLTAGE = 2  # V < 4.75 V at the meter
    DEAD_BAND = 4  # W = 0 with V > 4: below the meter's smallest step
    BURST = 8  # arrived in a catch-up burst: the arrival time is not the sample's time
    OFF = 16  # the meter says that its output is off
    SATURATED = 32  # at the end of the meter's range: the true power may be more


@dataclass(frozen=True, slots=True)
class Reading:
    """One line of a power meter, as read: raw values, raw arrival stamp.

    `monotonic_ns` is the arrival of the line's end in device time; corrections (the averaging window that
    ended up to 264 ms before) belong to the analysis, not here. `watt_hours` is the meter's own
    counter, kept raw and never trusted. NaN means that the meter does not report the field. `meter_ms` is
    the meter's own clock where it has one (raw, wraps at 2^32), else NO_METER_CLOCK.
    """

    monotonic_ns: int
    volts: float
    amps: float
    watts: float
    watt_hours: float = math.nan
    flags: ReadingFlag = ReadingFlag.NONE
    meter_ms: int = NO_METER_CLOCK

    _PACK = struct.Struct("<qddddIq")  # class attribute of a slotted dataclass: no annotation, no field

    def to_bytes(self) -> bytes:
        """The reading packed; `from_bytes` is the inverse."""
        return self._PACK.pack(
            self.monotonic_ns,
            self.volts,
            self.amps,
            self.watts,
            self.watt_hours,
            int(self.flags),
            self.meter_ms,
        )

    @classmethod
    def from_bytes(cls, payload: bytes) -> Reading:
        """Inverse of `to_bytes`; raises ValueError for any other length, unknown flag bits or meter clock."""
        if len(payload) != cls._PACK.size:
            raise ValueError(f"a reading is {cls._PACK.size} bytes, got {len(payload)}")
        ns, volts, amps, watts, watt_hours, flags, meter_ms = cls._PACK.unpack(payload)
        if flags & ~0x1F:
            raise ValueError(f"unknown reading flags 0x{flags:x}")
        if not NO_METER_CLOCK <= meter_ms < 2**32:
            raise ValueError(f"a meter's clock is 0 to 2^32 - 1 ms, got {meter_ms}")
        return cls(ns, volts, amps, watts, watt_hours, ReadingFlag(flags), meter_ms)


@dataclass(frozen=True, slots=True)
class AgentEvent:
    """Something that happened on the device besides readings and phases."""

    kind: AnyEventKind
    monotonic_ns: int
    detail: str = ""

    def to_bytes(self) -> bytes:
        """The event as JSON; `from_bytes` is the inverse."""
        return json.dumps([self.kind, self.monotonic_ns, self.detail], separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, payload: bytes) -> AgentEvent:
        """The event of such bytes; ValueError for anything else."""
        kind, ns, detail = from_json(tuple[str, int, str], payload, "event")
        return cls(event_kind(kind), ns, detail)


@dataclass(frozen=True, slots=True)
class HostSample:
    """The board itself at one moment (psutil and /sys): NaN or -1 where it does not say.

    `cpu_share` is of all cores since the sample before (0..1), `agent_cpu_s` what the agent's processes have
    used so far, the byte counters are the network interfaces' since boot (loopback left out).
    `throttle_bits` as `vcgencmd get_throttled` spells them: bits 0-3 now (under-voltage, frequency capped,
    throttled, soft temperature limit), 16-19 the same since boot.
    """

    monotonic_ns: int
    cpu_share: float = math.nan
    agent_cpu_s: float = math.nan
    memory_used_bytes: int = -1
    temperature_c: float = math.nan
    cpu_mhz: float = math.nan
    sent_bytes: int = -1
    received_bytes: int = -1
    throttle_bits: int = -1

    _PACK = struct.Struct("<qddqddqqq")  # class attribute of a slotted dataclass: no annotation, no field

    def to_bytes(self) -> bytes:
        """The sample packed; `from_bytes` is the inverse."""
        return self._PACK.pack(
            self.monotonic_ns,
            self.cpu_share,
            self.agent_cpu_s,
            self.memory_used_bytes,
            self.temperature_c,
            self.cpu_mhz,
            self.sent_bytes,
            self.received_bytes,
            self.throttle_bits,
        )

    @classmethod
    def from_bytes(cls, payload: bytes) -> HostSample:
        """Inverse of `to_bytes`; raises ValueError for any other length."""
        if len(payload) != cls._PACK.size:
            raise ValueError(f"a host sample is {cls._PACK.size} bytes, got {len(payload)}")
        return cls(*cls._PACK.unpack(payload))


def phase_to_bytes(span: PhaseSpan) -> bytes:
    """A finished span as a record payload: its fields but the device's name, in their order."""
    return json.dumps(list(plain(span).values())[1:], separators=(",", ":")).encode()


def phase_from_bytes(device: str, payload: bytes) -> PhaseSpan:
    """Inverse of `phase_to_bytes`; raises ValueError for anything else."""
    values = from_json(_PHASE_ROW, payload, "phase")
    span = PhaseSpan(device, *values)
    if span.doubt is not None:
        raise ValueError(span.doubt)
    return span
