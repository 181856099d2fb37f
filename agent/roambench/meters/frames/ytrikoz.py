"""The two line formats of the ytrikoz firmware (0.6) for the Smart Power 2, four lines a second.

    5.16V 318mA 1.64W\\r            serial, below half an ampere: milliamperes, padded to three characters
    5.16V 0.66A 3.42W\\r            serial, from half an ampere on
    {"v":5.161,"i":0.662,"p":3.416,"wh":0.001234}\\r      telnet, until a client opens its shell

Both end in a carriage return alone, and both are silent while the output is off. The serial one has a step of
5 mA above half an ampere: 26 mW at 5.1 V.
"""

from __future__ import annotations

import math
import re
from typing import Final

from roambench.contract.records import Reading, ReadingFlag
from roambench.meters.frames.parser import FrameParser
from roambench.meters.frames.smartpower2 import MOST_A, MOST_V, doubts

PERIOD_S: Final = 0.25

_TEXT: Final = re.compile(rb"(\d{1,2}\.\d\d)V (?:( {0,2}\d{1,3})mA|(\d{1,2}\.\d\d)A) (\d{1,3}\.\d\d)W")
_JSON: Final = re.compile(
    rb'\{"v":(\d{1,2}\.\d{3}),"i":(\d{1,2}\.\d{3}),"p":(\d{1,3}\.\d{3}),"wh":(\d{1,12}\.\d{6})\}'
)


class YtrikozTextFrames(FrameParser):
    """Parser of the serial lines; they have no watt-hours (NaN)."""

    end = b"\r"
    stray = b"\r\n"
    pieces = re.compile(rb"[\d. mAVW]+")

    def __init__(self) -> None:
        super().__init__(PERIOD_S)

    def _line(self, line: bytes, received_ns: int) -> Reading | None:
        match = _TEXT.fullmatch(line)
        if match is None:
            self._reject(line)
            return None
        volts, watts = float(match[1]), float(match[4])
        milliamps = match[2]
        amps = int(milliamps) / 1000 if milliamps is not None else float(match[3])
        if volts > MOST_V or amps > MOST_A:
            self.counts.implausible += 1
            return None
        # Rounding alone: half a unit of the last place of each of the three.
        slack_w = 0.025 + 0.005 * amps + (0.0005 if milliamps is not None else 0.005) * volts
        ns, flags = self._stamp(received_ns)
        return Reading(
            ns, volts, amps, watts, math.nan, ReadingFlag(flags | doubts(volts, amps, watts, slack_w))
        )


class YtrikozJsonFrames(FrameParser):
    """Parser of the telnet lines: exactly the firmware's own spelling, any other JSON is noise."""

    end = b"\r"
    stray = b"\r\n"
    pieces = re.compile(rb'[\d.,:{}"viphw]+')

    def __init__(self) -> None:
        super().__init__(PERIOD_S)

    def _line(self, line: bytes, received_ns: int) -> Reading | None:
        match = _JSON.fullmatch(line)
        if match is None:
            self._reject(line)
            return None
        volts, amps, watts, watt_hours = map(float, match.groups())
        if volts > MOST_V or amps > MOST_A:
            self.counts.implausible += 1
            return None
        ns, flags = self._stamp(received_ns)
        return Reading(ns, volts, amps, watts, watt_hours, ReadingFlag(flags | doubts(volts, amps, watts)))
