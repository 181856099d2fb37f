"""The lines of an ODROID Smart Power 3 (firmware 1.2 to 2.2), over USB serial, TCP and UDP.

    0000815169,15296,0036,00550,0,00000,0000,00000,0,00,00000,0000,00000,0,00,14,12\\r\\n

The meter's milliseconds; input mV, mA, mW, under-voltage; then for each of two outputs mV, mA, mW, on (0 off,
1 on, 2 turning off, 3 turning on), events (hex bits); then two 8-bit sums over all before them, commas
included: the two's complement of the sum, and the exclusive or. Up to firmware 1.6 there are no sums; up to
1.5 the events are one or two digits. Lines end in \\n\\r up to 1.7. Over the network, 1.6 and 1.7 send along
the NULs that end the C strings, 1.8 leaves out the last \\n. Up to 1.9 a sum of 0 is spelled "100".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from roambench.contract.errors import ConfigError
from roambench.contract.events import EventKind
from roambench.contract.records import Reading, ReadingFlag
from roambench.meters.frames.parser import INCONSISTENT, OFF, FrameParser
from roambench.meters.frames.smartpower2 import doubts

NOMINAL_PERIOD_S: Final = 0.01
#: The converter's range: 32 V, and 100 mV across 15 mOhm.
MOST_MV: Final = 32_000
MOST_MA: Final = 6_700
#: Lines without sums are accepted after this many in a row, and never again after one with sums.
UNSUMMED_IN_A_ROW: Final = 3
#: Steps of the meter's clock after which its period is known.
STEPS_MEASURED: Final = 50
_WRAP_MS: Final = 2**32
#: A count that wraps goes on with the host's time, but for what lines are late.
_MOST_LATE_MS: Final = 60_000

_LINE: Final = re.compile(
    rb"(\d{10},\d{5},\d{4},\d{5},[01],"
    rb"\d{5},\d{4},\d{5},[0-3],[0-9a-f]{1,2},"
    rb"\d{5},\d{4},\d{5},[0-3],[0-9a-f]{1,2})"
    rb"(?:,([0-9a-f]{2}|100),([0-9a-f]{2}))?"
)
_BOOT: Final = re.compile(rb"rst:0x[0-9a-f]+")  # the chip's ROM says why it was reset
_EVENTS: Final = (
    "over-voltage",
    "current limit",
    "short circuit",
    "power on",
    "watchdog",
    "over-temperature",
    "temperature warning",
    "inductor peak",
)


@dataclass(frozen=True, slots=True)
class Channel:
    """Places of a channel's mV, mA, mW in a line, and its "on" and events (outputs only)."""

    first: int
    on: int | None


CHANNELS: Final = {"in": Channel(1, None), "0": Channel(5, 8), "1": Channel(10, 13)}


class Smartpower3Frames(FrameParser):
    """Parser of those lines, for one of the meter's channels: "0", "1" or "in".

    A reading's `meter_ms` is the meter's clock; lines on which it does not move on are dropped, and a clock
    that starts again is a restarted meter. `period_s` becomes the mean step of that clock.
    """

    stray = b"\r\0"
    pieces = re.compile(rb"[\da-f,\0\r]+")

    def __init__(
        self, channel: str = "0", period_s: float = NOMINAL_PERIOD_S, *, whole: bool = False
    ) -> None:
        super().__init__(period_s, whole=whole)
        if channel not in CHANNELS:
            raise ConfigError([f"channel: expected one of {', '.join(sorted(CHANNELS))}, got {channel!r}"])
        self._channel = CHANNELS[channel]
        self._summed = False  # a line with good sums was seen
        self._unsummed = 0  # lines without sums, in a row
        self._last_ms: int | None = None
        self._counted_ns = 0
        self._backward_ms: int | None = None
        self._first_ms = 0
        self._steps = 0
        self._events = 0

    def _line(self, line: bytes, received_ns: int) -> Reading | None:
        line = line.replace(b"\0", b"")
        match = _LINE.fullmatch(line)
        if match is None:
            self._reject(line)
            if _BOOT.match(line):
                self._restarted("reset")
            return None
        if not self._sums_hold(match):
            self.counts.checksum += 1
            return None
        fields = match[1].split(b",")
        first, on = self._channel.first, self._channel.on
        millivolts, milliamps, milliwatts = int(fields[first]), int(fields[first + 1]), int(fields[first + 2])
        meter_ms = int(fields[0])
        if millivolts > MOST_MV or milliamps > MOST_MA or meter_ms >= _WRAP_MS:
            self.counts.implausible += 1
            return None
        if not self._moves_on(meter_ms, received_ns):
            self.counts.repeated += 1
            return None
        self._report_alarms(fields, on)
        ns, flags = self._stamp(received_ns)
        volts, amps, watts = millivolts / 1000, milliamps / 1000, milliwatts / 1000
        doubtful = doubts(volts, amps, watts)
        flags |= OFF | doubtful & INCONSISTENT if on is not None and fields[on] == b"0" else doubtful
        return Reading(ns, volts, amps, watts, flags=ReadingFlag(flags), meter_ms=meter_ms)

    def _sums_hold(self, match: re.Match[bytes]) -> bool:
        """Both sums are right; or there are none, and this meter never had any."""
        if match[2] is None:
            self._unsummed += 1
            return not self._summed and self._unsummed >= UNSUMMED_IN_A_ROW
        self._unsummed = 0
        counted = match[1] + b","
        if (sum(counted) + int(match[2], 16)) & 0xFF or _folded(counted) != int(match[3], 16):
            return False
        self._summed = True
        return True

    def _moves_on(self, meter_ms: int, received_ns: int) -> bool:
        """Does the meter's clock go on? Two lines in a row from an earlier time are a restart."""
        last_ms, passed_ms = self._last_ms, (received_ns - self._counted_ns) // 1_000_000
        step_ms = 0 if last_ms is None else meter_ms - last_ms
        wraps = step_ms + _WRAP_MS <= passed_ms + _MOST_LATE_MS
        if last_ms is not None and not (wraps or 0 < step_ms < _WRAP_MS // 2):
            if self._backward_ms is None or meter_ms <= self._backward_ms or meter_ms == last_ms:
                self._backward_ms = meter_ms
                return False
            self._restarted("its clock began again")
            last_ms = None
        self._backward_ms = None
        self._last_ms, self._counted_ns = meter_ms, received_ns
        self._measure(meter_ms, last_ms)
        return True

    def _measure(self, meter_ms: int, last_ms: int | None) -> None:
        if self.period_s:
            return
        if last_ms is None:
            self._first_ms, self._steps = meter_ms, 0
            return
        self._steps += 1
        if self._steps == STEPS_MEASURED:
            self.period_s = (meter_ms - self._first_ms) % _WRAP_MS / 1000 / self._steps

    def _restarted(self, how: str) -> None:
        self.counts.boots += 1
        self.events.append((EventKind.METER_RESTARTED, how))
        self._last_ms = self._backward_ms = None

    def _report_alarms(self, fields: list[bytes], on: int | None) -> None:
        """Events of this channel and of the input, when they change."""
        bits = 0x100 if fields[4] == b"1" else 0
        if on is not None:
            bits |= int(fields[on + 1], 16)
        # Firmware 1.2 to 1.4 prints ff for events that it does not know.
        if bits & 0xFF == 0xFF:
            bits &= ~0xFF
        if bits != self._events:
            self._events = bits
            named = [name for i, name in enumerate((*_EVENTS, "input under-voltage")) if bits >> i & 1]
            self.events.append((EventKind.METER_ALARM, ", ".join(named) or "none"))


def _folded(data: bytes) -> int:
    """Exclusive or of all bytes: halves of one long number onto each other (six steps instead of 74)."""
    value = int.from_bytes(data, "little")
    for bits in (512, 256, 128, 64, 32, 16, 8):
        value ^= value >> bits
    return value & 0xFF
