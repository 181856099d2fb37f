"""The lines that drivers make of meters that send no text: those of `meters.means`, and single messages.

5.112 0.641 3.26875 1250\n     volts, amperes, watts, the meter's milliseconds; `nan` where it has none
nan nan 3.26875 -\n           no clock of the meter
nan 1.02 5.2 1260 full\n      the meter's range ends here: the true power may be more
!range: ...\n                 a message
"""

from __future__ import annotations

import math
import re
from typing import Final

from roambench.contract.events import EventKind
from roambench.contract.records import NO_METER_CLOCK, Reading, ReadingFlag
from roambench.meters.frames.parser import INCONSISTENT, FrameParser

#: More than any board draws.
MOST_W: Final = 10_000.0
_NUMBER: Final = rb"-?\d{1,7}(?:\.\d{1,17})?(?:e-?\d\d)?"
_READING: Final = re.compile(rb"(nan|%b) (nan|%b) (%b) (-|\d{1,10})( full)?" % (_NUMBER, _NUMBER, _NUMBER))
_WRAP_MS: Final = 2**32


def line(watts: float, meter_ms: int | None = None, *, amps: float = math.nan, full: bool = False) -> bytes:
    """The line of a reading."""
    clock = "-" if meter_ms is None else str(meter_ms)
    return f"nan {amps:.7g} {watts:.9g} {clock}{' full' * full}\n".encode()


class MeansFrames(FrameParser):
    """Parser of those lines. A value at the end of the range is SATURATED: in no sum, and reports say so; an
    alarm says that the range's end, `most`, is reached, or left again.

    Where the meter has a clock, lines that come in one go are no burst: their own stamps count.
    """

    longest = 400
    pieces = re.compile(rb"[-\d. nafule]+")

    def __init__(self, period_s: float = 0.0, most: str = "") -> None:
        super().__init__(period_s)
        self._most = most
        self._full = False

    def _line(self, line: bytes, received_ns: int) -> Reading | None:
        match = _READING.fullmatch(line)
        if match is None:
            self._alarm_or_reject(line)
            return None
        volts, amps, watts = map(float, match.group(1, 2, 3))
        meter_ms = NO_METER_CLOCK if match[4] == b"-" else int(match[4])
        if abs(watts) > MOST_W or meter_ms >= _WRAP_MS:
            self.counts.implausible += 1
            return None
        ns, flags = self._stamp(received_ns)
        if meter_ms != NO_METER_CLOCK:
            flags = 0
        full = match[5] is not None
        if full != self._full:
            self._full = full
            where = f"more than {self._most}" if full else "none"
            self.events.append((EventKind.METER_ALARM, f"range: {where}"))
        if full:
            flags |= int(ReadingFlag.SATURATED)
        elif watts < 0.0:
            flags |= INCONSISTENT
        return Reading(ns, volts, amps, watts, math.nan, ReadingFlag(flags), meter_ms)
