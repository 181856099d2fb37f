"""The lines that `sources.hwmon` makes of a kernel's power sensor, which transcripts of it have, too.

5.112 0.641 3.268750\\n        volts, amperes, watts; `nan` where the driver gives none
5.098 3.2 16.320000 full\\n    the chip's range ends here: the true power may be more (SATURATED)
!1-0040/1: ...\\n              a message
"""

from __future__ import annotations

import math
import re
from typing import Final

from roambench.contract.records import Reading, ReadingFlag
from roambench.meters.frames.parser import DEAD_BAND, FED_V, INCONSISTENT, FrameParser

#: Watts and volts times amperes differ by less: registers are read one after the other, and a chip that
#: renews them in between has moved a little (rule R10).
_SLACK_W: Final = 0.05
_SLACK: Final = 0.02
_SATURATED: Final = int(ReadingFlag.SATURATED)
_NUMBER: Final = rb"-?\d{1,7}(?:\.\d{1,9})?(?:e-\d\d)?"
_READING: Final = re.compile(rb"(nan|%b) (nan|%b) (%b)( full)?" % (_NUMBER, _NUMBER, _NUMBER))


class HwmonFrames(FrameParser):
    """Parser of those lines."""

    longest = 400
    pieces = re.compile(rb"[-\d. nafule]+")

    def _line(self, line: bytes, received_ns: int) -> Reading | None:
        match = _READING.fullmatch(line)
        if match is None:
            self._alarm_or_reject(line)
            return None
        volts, amps, watts = map(float, match.group(1, 2, 3))
        ns, flags = self._stamp(received_ns)
        if match[4]:
            flags |= _SATURATED
        elif watts < 0.0 or abs(volts * amps - watts) > _SLACK_W + _SLACK * watts:  # never of NaN
            flags |= INCONSISTENT
        if watts == 0.0 and volts > FED_V:
            flags |= DEAD_BAND
        return Reading(ns, volts, amps, watts, math.nan, ReadingFlag(flags))
