"""Messages of plugs and sensors that publish watts: a number, or JSON with one at a path.

12.3                                                            ESPHome
{"power": 12.3, "voltage": 231}                                 zigbee2mqtt: field=power
{"Time": "2026-11-28T12:00:00", "ENERGY": {"Power": 12}}        Tasmota: field=ENERGY.Power&time=Time
"""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, datetime
from typing import Final

from roambench.contract.records import Reading, ReadingFlag
from roambench.meters.frames.means import MOST_W
from roambench.meters.frames.parser import INCONSISTENT, FrameParser

#: What a unit is in watts.
UNITS: Final = {"W": 1.0, "mW": 1e-3, "kW": 1e3}
#: Bytes of the longest message; a Tasmota's have some hundreds.
LONGEST: Final = 4096
_NUMBER: Final = re.compile(r"\s*[-+]?\d{1,9}(\.\d{1,12})?([eE][-+]?\d{1,2})?\s*")
#: A clock of a plug is no worse than this.
_WORST_DRIFT: Final = 500e-6
#: After this many messages in a row that are older than the youngest, the publisher's clock was set back.
_SET_BACK: Final = 5
_MILLISECONDS: Final = 1e11  # more than this is no number of seconds since 1970


class MqttFrames(FrameParser):
    """Parser of those messages, each of which is one `feed`.

    `field` and `time` are paths of names and numbers with dots between them ("": the message is the number;
    it says no time). A message that is older than the youngest, or later by `late_s` than the promptest, is
    dropped: a gap.
    """

    longest = LONGEST
    pieces = re.compile(rb"[-\d.eE]+")

    def __init__(self, period_s: float, field: str, factor: float, time: str, late_s: float) -> None:
        super().__init__(period_s, whole=True)
        self._field = field
        self._factor = factor
        self._time = time
        self._late_s = late_s
        self._newest_s = -math.inf
        self._older = 0
        self._floor_s = math.inf
        self._floor_at_s = 0.0

    def _line(self, line: bytes, received_ns: int) -> Reading | None:
        try:
            message = _message(line) if self._field else line.decode("ascii")
            value = _number(_at(message, self._field))
            sent_s = _seconds(_at(message, self._time)) if self._time else None
        except (ValueError, RecursionError):  # a decoding error is a ValueError
            self._reject(line)
            return None
        watts = value * self._factor
        if abs(watts) > MOST_W:
            self.counts.implausible += 1
            return None
        if sent_s is not None and not self._is_prompt(sent_s, received_ns * 1e-9):
            self.counts.repeated += 1
            return None
        ns, flags = self._stamp(received_ns)
        return Reading(
            ns, math.nan, math.nan, watts, flags=ReadingFlag(flags | (INCONSISTENT if watts < 0.0 else 0))
        )

    def _is_prompt(self, sent_s: float, received_s: float) -> bool:
        if sent_s <= self._newest_s:
            self._older += 1
            if self._older < _SET_BACK:
                return False
            self._floor_s = math.inf
        self._older, self._newest_s = 0, sent_s
        delay_s = received_s - sent_s
        floor_s = self._floor_s + _WORST_DRIFT * (received_s - self._floor_at_s)
        self._floor_s, self._floor_at_s = min(floor_s, delay_s), received_s
        return delay_s - self._floor_s <= self._late_s


def _message(line: bytes) -> object:
    return json.loads(line, parse_constant=_refuse)


def _refuse(name: str) -> object:
    raise ValueError(name)


def _at(value: object, path: str) -> object:
    for name in path.split(".") if path else ():
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and len(name) < 4 and int(name) < len(value):
            value = value[int(name)]
        else:
            raise ValueError(path)
    return value


def _number(value: object) -> float:
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return float(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e15:
        return float(value)
    raise ValueError(value)


def _seconds(value: object) -> float:
    """Seconds since 1970 of seconds, milliseconds, or text as in ISO 8601 (without a zone: of UTC)."""
    if isinstance(value, str) and not _NUMBER.fullmatch(value):
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
    number = _number(value)
    return number * 1e-3 if number > _MILLISECONDS else number
