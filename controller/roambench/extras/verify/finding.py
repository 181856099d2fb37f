"""The finding about one assumption."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Held(StrEnum):
    """A verdict on an assumption."""

    HOLDS = "holds"
    FAILS = "FAILS"
    UNKNOWN = "not shown"


@dataclass(frozen=True, slots=True)
class Finding:
    """`changes`: what it means for energies where the assumption does not hold, "" where it does."""

    assumption: str
    held: Held
    found: str
    changes: str = ""
