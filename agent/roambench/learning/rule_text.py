"""Rules with numbers, as orders carry them: "fedprox:mu=0.01" is the rule `fedprox` with mu 0.01."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final

from roambench.contract.errors import ConfigError

_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")


def parse_rule(text: str, what: str) -> tuple[str, dict[str, float]]:
    """Name and numbers of a rule. ConfigError says which part is not `name` or `name:key=number,...`."""
    name, colon, rest = text.partition(":")
    if not _NAME.fullmatch(name):
        raise ConfigError([f"{what} {text!r}: expected a name, then perhaps ':key=number,...'"])
    numbers: dict[str, float] = {}
    for part in rest.split(",") if colon else ():
        key, _, value = part.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not _NAME.fullmatch(key) or not math.isfinite(number) or key in numbers:
            raise ConfigError([f"{what} {text!r}: {part!r} is not key=number, once each"])
        numbers[key] = number
    return name, numbers


def rule_text(name: str, **numbers: float) -> str:
    """Inverse of `parse_rule`, keys sorted: the same rule always has the same text."""
    if not numbers:
        return name
    return name + ":" + ",".join(f"{key}={numbers[key]!r}" for key in sorted(numbers))


def taken(numbers: Mapping[str, float], defaults: Mapping[str, float], text: str, what: str) -> list[float]:
    """The values of `defaults`' keys, in their order, replaced by those given; ConfigError for others."""
    unknown = sorted(numbers.keys() - defaults.keys())
    if unknown:
        known = ", ".join(defaults) or "no numbers"
        raise ConfigError([f"{what} {text!r}: unknown {', '.join(unknown)}; it takes {known}"])
    return [numbers.get(key, default) for key, default in defaults.items()]
