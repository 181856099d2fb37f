"""The serial and telnet lines of an ODROID Smart Power 2 (firmware 1.4 to 1.6).

    5.161,0.662,3.416,0.000\\r\\n        volts, amperes, watts, watt-hours; one line a second

No header, no checksum, no sequence. The same wire carries the boot text, web messages and debug output of the
chip, and at boot the ROM's chatter at another baud rate; so only whole lines of exactly this pattern count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from roambench.contract.records import Reading, ReadingFlag

#: Longer than any reading (40 bytes with an absurd counter) and than most messages.
MAX_LINE_BYTES: Final = 96
NOMINAL_PERIOD_S: Final = 1.0
UNDERVOLTAGE_V: Final = 4.75
#: Lines closer than this share of the period came out of a buffer or of a timer that catches up (R5).
BURST_SHARE: Final = 0.2

_READING: Final = re.compile(rb"(\d{1,2}\.\d{3}),(\d{1,2}\.\d{3}),(\d{1,3}\.\d{3}),(\d{1,12}\.\d{3})")
_PIECE: Final = re.compile(rb"[\d.,]+")
_TEXT: Final = re.compile(rb"[\t\x20-\x7e]+")
_BANNER: Final = re.compile(rb"SmartPower2 v(\d+\.\d+)")


@dataclass(slots=True)
class LineCounts:
    """What became of the lines. Empty lines are nobody's and not counted."""

    accepted: int = 0
    partial: int = 0  # digits, dots and commas only, but no whole reading: cut by a loss or by our opening
    noise: int = 0  # printable text: boot, web, debug
    garbage: int = 0  # anything else: wrong baud rate, line errors
    too_long: int = 0  # no end within MAX_LINE_BYTES
    boots: int = 0  # banners seen (counted as noise as well)

    @property
    def rejected(self) -> int:
        return self.partial + self.noise + self.garbage + self.too_long


class Smartpower2Frames:
    """Incremental parser of one meter's bytes; holds at most one unfinished line.

    `zeros_mean_off`: telnet prints zeros while the output is off (serial is silent), so a line of zeros
    gets the flag OFF.
    """

    def __init__(self, period_s: float = NOMINAL_PERIOD_S, *, zeros_mean_off: bool = False) -> None:
        self._burst_ns = round(BURST_SHARE * period_s * 1e9)
        self._zeros_mean_off = zeros_mean_off
        self._rest = b""
        self._skipping = False
        self._last_ns: int | None = None
        self.counts = LineCounts()
        self.firmware = ""  # as the last boot banner spelled it, for example "1.60"

    def feed(self, data: bytes, received_ns: int) -> list[Reading]:
        """The readings whose lines end in `data`, which arrived at `received_ns` (device time).

        Never raises, whatever the bytes. Stamps ascend strictly: lines of one chunk are 1 ns apart.
        """
        *lines, rest = (self._rest + data).split(b"\n")
        readings = []
        for line in lines:
            if self._skipping:
                self._skipping = False
                continue
            reading = self._line(line.strip(b"\r"), received_ns)
            if reading is not None:
                readings.append(reading)
        if len(rest) > MAX_LINE_BYTES:
            if not self._skipping:
                self.counts.too_long += 1
            self._skipping = True
        self._rest = b"" if self._skipping else rest
        return readings

    def _line(self, line: bytes, received_ns: int) -> Reading | None:
        counts = self.counts
        match = _READING.fullmatch(line)
        if match is not None:
            counts.accepted += 1
            return self._reading(match, received_ns)
        if not line:
            return None
        if len(line) > MAX_LINE_BYTES:
            counts.too_long += 1
        elif _PIECE.fullmatch(line):
            counts.partial += 1
        elif _TEXT.fullmatch(line):
            counts.noise += 1
            banner = _BANNER.match(line)
            if banner is not None:
                counts.boots += 1
                self.firmware = banner[1].decode()
        else:
            counts.garbage += 1
        return None

    def _reading(self, match: re.Match[bytes], received_ns: int) -> Reading:
        volts, amps, watts, watt_hours = map(float, match.groups())
        ns, flags = received_ns, 0
        if self._last_ns is not None:
            if received_ns - self._last_ns < self._burst_ns:
                flags |= _BURST
            ns = max(ns, self._last_ns + 1)
        self._last_ns = ns
        if self._zeros_mean_off and volts == amps == watts == 0.0:
            flags |= _OFF
        else:
            if abs(volts * amps - watts) > 0.02 + 0.02 * watts:
                flags |= _TORN
            if volts < UNDERVOLTAGE_V:
                flags |= _UNDERVOLTAGE
            elif watts == 0.0:
                flags |= _DEAD_BAND
        return Reading(ns, volts, amps, watts, watt_hours, ReadingFlag(flags))


# Plain integers: an IntFlag's own `|` costs a microsecond, once per line.
_TORN = int(ReadingFlag.TORN)
_UNDERVOLTAGE = int(ReadingFlag.UNDERVOLTAGE)
_DEAD_BAND = int(ReadingFlag.DEAD_BAND)
_BURST = int(ReadingFlag.BURST)
_OFF = int(ReadingFlag.OFF)
