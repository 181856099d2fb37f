"""The WebSocket messages of an ODROID Smart Power 2 (port 81), distinguished by their first letter.

d3.416,5.161,0.662,0.000    watts, volts, amperes, watt-hours: another order than on serial. Every second,
                            while the output is on. Volts and amperes have two decimals up to firmware 1.1
o0 / o1                     the output is ON / OFF (the pin's level, hence inverted)
w5.10   m0   f1.60          volts set · watt-hours counted (0: no) · firmware
a0      n...                autorun · network, the Wi-Fi password in clear included (never kept here)
"""

from __future__ import annotations

import re
from typing import Final

from roambench.contract.records import Reading, ReadingFlag
from roambench.meters.frames.parser import FrameParser
from roambench.meters.frames.smartpower2 import MOST_A, MOST_V, NOMINAL_PERIOD_S, doubts

_READING: Final = re.compile(
    rb"d(\d{1,3}\.\d{3}),(?:(\d{1,2}\.\d{3}),(\d{1,2}\.\d{3})|(\d{1,2}\.\d\d),(\d{1,2}\.\d\d)),(\d{1,12}\.\d{3})"
)
_OUTPUT: Final = re.compile(rb"o([01])")
_VOLTS: Final = re.compile(rb"w(\d{1,2}\.\d{1,3})")
_FIRMWARE: Final = re.compile(rb"f(\d{1,2}\.\d{1,3})")
_TWO_DECIMALS: Final = 0.005


class Smartpower2WebsocketFrames(FrameParser):
    """Parser of those messages; each `feed` is one. `set_volts` is what the output is set to, once known."""

    pieces = re.compile(rb"d?[\d.,]+")

    def __init__(self, period_s: float = NOMINAL_PERIOD_S) -> None:
        super().__init__(period_s, whole=True)
        self.set_volts: float | None = None

    def _line(self, line: bytes, received_ns: int) -> Reading | None:
        match = _READING.fullmatch(line)
        if match is None:
            self._other(line)
            return None
        watts_text, volts_3, amps_3, volts_2, amps_2, watt_hours = match.groups()
        watts, volts, amps = float(watts_text), float(volts_3 or volts_2), float(amps_3 or amps_2)
        if volts > MOST_V or amps > MOST_A:
            self.counts.implausible += 1
            return None
        ns, flags = self._stamp(received_ns)
        # Half a unit of the last of two decimals, at either factor.
        slack_w = 0.02 if volts_3 is not None else 0.02 + _TWO_DECIMALS * (volts + amps)
        self.off = False
        return Reading(
            ns,
            volts,
            amps,
            watts,
            float(watt_hours),
            ReadingFlag(flags | doubts(volts, amps, watts, slack_w)),
        )

    def _other(self, line: bytes) -> None:
        if output := _OUTPUT.fullmatch(line):
            self.off = output[1] == b"1"
        elif volts := _VOLTS.fullmatch(line):
            self.set_volts = float(volts[1])
        elif firmware := _FIRMWARE.fullmatch(line):
            self.firmware = firmware[1].decode()
        elif not re.fullmatch(rb"[ma][01]", line):
            self._reject(line)
