"""Faults as people spell them: `stall@30:5,drop@60` is a stall of 5 s at second 30 and a lost line at 60.

KIND@SECONDS          once, or one line
KIND@SECONDS:AMOUNT   seconds for stall, silence, off, unplug and second_client; lines for drop, truncate,
                      garbage and noise; parts per million for skew; reset takes none
"""

from __future__ import annotations

import math
import re
from typing import Final

from roambench.contract.errors import ConfigError
from roambench.emulation.spec import Fault, FaultKind

_ITEM: Final = re.compile(r"([a-z_-]+)(?:@([^:@]*))?(?::([^:@]*))?")
_LASTING: Final = (
    FaultKind.STALL,
    FaultKind.SILENCE,
    FaultKind.OFF,
    FaultKind.UNPLUG,
    FaultKind.SECOND_CLIENT,
)
_COUNTED: Final = (FaultKind.DROP, FaultKind.TRUNCATE, FaultKind.GARBAGE, FaultKind.NOISE)


def parse_faults(text: str, source: str = "faults") -> tuple[Fault, ...]:
    """The faults that `text` spells, none for an empty one; ConfigError lists every mistake."""
    faults: list[Fault] = []
    problems: list[str] = []
    for item in text.split(",") if text.strip() else []:
        try:
            faults.append(_fault(item.strip()))
        except ValueError as error:
            problems.append(f"{source}: {item.strip()!r}: {error}")
    if problems:
        raise ConfigError(problems)
    return tuple(faults)


def _fault(item: str) -> Fault:
    match = _ITEM.fullmatch(item)
    if match is None:
        raise ValueError("expected KIND@SECONDS or KIND@SECONDS:AMOUNT")
    name, at, amount = match.groups()
    try:
        kind = FaultKind(name.replace("-", "_"))
    except ValueError:
        raise ValueError(f"expected one of {', '.join(FaultKind)}") from None
    if at is None:
        raise ValueError("expected @SECONDS after the kind")
    at_s = _number(at, "after @ a number of seconds >= 0")
    if kind in _LASTING:
        if amount is None:
            raise ValueError(f"{kind} lasts: expected :SECONDS at the end")
        return Fault(kind, at_s, duration_s=_number(amount, "after : a number of seconds > 0", least=1e-9))
    if kind is FaultKind.SKEW:
        if amount is None:
            raise ValueError("skew: expected :PPM at the end")
        return Fault(
            kind, at_s, ppm=_number(amount, "after : parts per million above -1e6", least=-999_999.0)
        )
    if kind in _COUNTED:
        count = (
            _number(amount, "after : a whole number of lines >= 1", least=1.0) if amount is not None else 1.0
        )
        if count != int(count):
            raise ValueError("expected after : a whole number of lines >= 1")
        return Fault(kind, at_s, count=int(count))
    if amount is not None:
        raise ValueError(f"{kind} takes no amount")
    return Fault(kind, at_s)


def _number(text: str, expected: str, least: float = 0.0) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not least <= value < math.inf:
        raise ValueError(f"expected {expected}, got {text!r}")
    return value
