"""The common part of all frame parsers: splitting bytes into lines, stamping readings, keeping counts."""

from __future__ import annotations

import re
from typing import Final

from roambench.contract.events import EventKind
from roambench.contract.records import Reading, ReadingFlag
from roambench.meters.frames.counts import LineCounts

UNDERVOLTAGE_V: Final = 4.75
#: Above this an output is on, however little is drawn from it: 4.08 V is the least that it can be set to.
FED_V: Final = 4.0
#: Lines closer than this share of the period came out of a buffer or of a timer that catches up (R5).
BURST_SHARE: Final = 0.2

_TEXT: Final = re.compile(rb"[\t\x1b\x20-\x7e]+")

# Plain integers: an IntFlag's own `|` costs a microsecond, once per line.
INCONSISTENT: Final = int(ReadingFlag.INCONSISTENT)
UNDERVOLTAGE: Final = int(ReadingFlag.UNDERVOLTAGE)
DEAD_BAND: Final = int(ReadingFlag.DEAD_BAND)
BURST: Final = int(ReadingFlag.BURST)
OFF: Final = int(ReadingFlag.OFF)


class FrameParser:
    """Incremental parser of one meter's bytes; pure, raises for no bytes, memory bounded.

    `feed` is the whole interface; what else the bytes say stands in the attributes:
    `counts` · `firmware` (as the meter spells it, "" unknown) · `off` (it has said that its output is off and
    falls silent; a reading's own flag OFF is another matter) · `period_s` (by the meter's own clock; 0: not
    measured) · `events` (kind and detail of events since the reader emptied the list).

    A subclass gives `_line`; `end` ends a line and `stray` is stripped from both its ends. `whole`: every
    `feed` is a complete message (a datagram, a WebSocket frame), which ends a line.
    """

    longest: int = 96
    end: bytes = b"\n"
    stray: bytes = b"\r"
    pieces: re.Pattern[bytes] = re.compile(rb"[\d.,]+")  # what the fragments of a reading are made of

    def __init__(self, period_s: float, *, whole: bool = False) -> None:
        self._burst_ns = round(BURST_SHARE * period_s * 1e9)
        self._whole = whole
        self._rest = b""
        self._skipping = False
        self._last_ns: int | None = None
        self.counts = LineCounts()
        self.firmware = ""
        self.off = False
        self.period_s = 0.0
        self.events: list[tuple[EventKind, str]] = []

    def feed(self, data: bytes, received_ns: int) -> list[Reading]:
        """The readings whose lines end in `data`, which arrived at `received_ns` (device time).

        Stamps ascend strictly: lines of one chunk are 1 ns apart.
        """
        if self._whole:
            data += self.end
        *lines, rest = (self._rest + data).split(self.end)
        readings = []
        for line in lines:
            if self._skipping:
                self._skipping = False
                continue
            line = line.strip(self.stray)
            if not line:
                continue
            if len(line) > self.longest:
                self.counts.too_long += 1
                continue
            reading = self._line(line, received_ns)
            if reading is not None:
                readings.append(reading)
        if len(rest) > self.longest:
            if not self._skipping:
                self.counts.too_long += 1
            self._skipping = True
        self._rest = b"" if self._skipping else rest
        return readings

    def _line(self, line: bytes, received_ns: int) -> Reading | None:
        """The reading that `line` is, or None when it is none (then it is counted)."""
        raise NotImplementedError

    def _reject(self, line: bytes) -> None:
        """Count a line that is no reading."""
        if self.pieces.fullmatch(line):
            self.counts.partial += 1
        elif _TEXT.fullmatch(line):
            self.counts.noise += 1
        else:
            self.counts.garbage += 1

    def _alarm_or_reject(self, line: bytes) -> None:
        """Pass on a message (`!...`) of a source of ours as an alarm; reject any other line."""
        if not line.startswith(b"!"):
            self._reject(line)
            return
        text = line[1:].decode("ascii", "replace")
        self.events.append((EventKind.METER_ALARM, text if text.isprintable() else ascii(text)))

    def _stamp(self, received_ns: int) -> tuple[int, int]:
        """Return when the accepted line arrived, and its flags so far."""
        self.counts.accepted += 1
        last_ns = self._last_ns
        ns, flags = received_ns, 0
        if last_ns is not None:
            if received_ns - last_ns < self._burst_ns:
                flags = BURST
            if ns <= last_ns:
                ns = last_ns + 1
        self._last_ns = ns
        return ns, flags
