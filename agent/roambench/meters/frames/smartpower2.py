"""The serial and telnet lines of an ODROID Smart Power 2 (serial: firmware 1.4 to 1.6, telnet: from 1.1).

    5.161,0.662,3.416,0.000\\r\\n        volts, amperes, watts, watt-hours; one line a second

No header, no checksum, no sequence. The same wire carries the boot text, web messages and debug output of the
chip, and at boot the ROM's chatter at another baud rate; so only whole lines of exactly this pattern count.
"""

from __future__ import annotations

import re
from typing import Final

from roambench.contract.events import EventKind
from roambench.contract.records import Reading, ReadingFlag
from roambench.meters.frames.parser import (
    DEAD_BAND,
    FED_V,
    INCONSISTENT,
    OFF,
    UNDERVOLTAGE,
    UNDERVOLTAGE_V,
    FrameParser,
)

NOMINAL_PERIOD_S: Final = 1.0
#: The output can be set to 5.25 V at most (5.3 V with its parts' tolerance); the chip's scale ends at 5.0 A.
MOST_V: Final = 6.0
MOST_A: Final = 5.2

_READING: Final = re.compile(rb"(\d{1,2}\.\d{3}),(\d{1,2}\.\d{3}),(\d{1,3}\.\d{3}),(\d{1,12}\.\d{3})")
_BANNER: Final = re.compile(rb"SmartPower2 v(\d+\.\d+)")


class Smartpower2Frames(FrameParser):
    """Parser of those lines.

    `zeros_mean_off`: telnet prints zeros while the output is off (serial is silent), so a line of zeros
    gets the flag OFF.
    """

    def __init__(self, period_s: float = NOMINAL_PERIOD_S, *, zeros_mean_off: bool = False) -> None:
        super().__init__(period_s)
        self._zeros_mean_off = zeros_mean_off

    def _line(self, line: bytes, received_ns: int) -> Reading | None:
        match = _READING.fullmatch(line)
        if match is None:
            self._reject(line)
            banner = _BANNER.match(line)
            if banner is not None:
                self.counts.boots += 1
                self.firmware = banner[1].decode()
                self.events.append((EventKind.METER_RESTARTED, f"firmware {self.firmware}"))
            return None
        volts, amps, watts, watt_hours = map(float, match.groups())
        if volts > MOST_V or amps > MOST_A:
            self.counts.implausible += 1
            return None
        ns, flags = self._stamp(received_ns)
        if self._zeros_mean_off and volts == amps == watts == 0.0:
            flags |= OFF
        else:
            flags |= doubts(volts, amps, watts)
        return Reading(ns, volts, amps, watts, watt_hours, ReadingFlag(flags))


def doubts(volts: float, amps: float, watts: float, slack_w: float = 0.02) -> int:
    """Flags of a reading by R10: do volts and amperes give the watts, is the board fed enough?"""
    flags = INCONSISTENT if abs(volts * amps - watts) > slack_w + 0.02 * watts else 0
    if volts < UNDERVOLTAGE_V:
        flags |= UNDERVOLTAGE
    if watts == 0.0 and volts > FED_V:
        flags |= DEAD_BAND
    return flags
