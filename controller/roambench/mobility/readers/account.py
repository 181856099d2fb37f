"""Limits of what may be a fix, and the account of every row that was read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

#: How many malformed rows are kept to be shown; all are counted.
KEPT_MALFORMED: Final = 5
MAX_ID: Final = 256  # ids are sorted as fixed-width text: one absurd id must not cost gigabytes
MAX_TIME_S: Final = 1 << 40  # no trace lies 35,000 years from 1970
MAX_M: Final = 1e9


@dataclass(frozen=True, slots=True)
class MalformedRow:
    """A row that could not be read, and why."""

    file: str
    line: int  # from 1
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}"


class RowAccount:
    """Counts the rows of one file that are used, malformed, said twice or left out on purpose."""

    def __init__(self, file: str) -> None:
        self._file = file
        self.used = 0
        self.duplicates = 0
        self.malformed = 0
        self.left_out: dict[str, int] = {}
        self._kept: list[MalformedRow] = []

    @property
    def rows(self) -> int:
        """All rows of the files: used, left out, repeated or malformed."""
        return self.used + self.duplicates + self.malformed + sum(self.left_out.values())

    @property
    def malformed_rows(self) -> tuple[MalformedRow, ...]:
        """The first malformed rows, at most KEPT_MALFORMED."""
        return tuple(self._kept)

    def reject(self, line: int, reason: str, file: str | None = None) -> None:
        """Count a malformed row, and keep it if it is among the first."""
        self.malformed += 1
        if len(self._kept) < KEPT_MALFORMED:
            self._kept.append(MalformedRow(file or self._file, line, reason))

    def leave_out(self, reason: str) -> None:
        """Count a good row that is not used."""
        self.left_out[reason] = self.left_out.get(reason, 0) + 1


def check_id(name: str, what: str) -> str:
    """The name. Raises ValueError for one that is empty or absurd."""
    if not name:
        raise ValueError(f"{what} is empty")
    if len(name) > MAX_ID or "\0" in name:
        raise ValueError(f"{what} {name[:16]!r}... is longer than {MAX_ID} characters or holds a NUL")
    return name


def check_time(seconds: int) -> int:
    """The seconds as they are; ValueError where they are no time."""
    if not -MAX_TIME_S < seconds < MAX_TIME_S:
        raise ValueError(f"{seconds} is not a time in seconds")
    return seconds


def check_degrees(latitude: float, longitude: float) -> None:
    """Raises ValueError for what is no position on the globe."""
    if not (-90.0 <= latitude <= 90.0 and -180.0 <= longitude <= 180.0):
        swapped = abs(latitude) <= 180.0 and abs(longitude) <= 90.0
        raise ValueError(
            f"{latitude}, {longitude} is not a latitude and a longitude in degrees"
            + (" (are they swapped?)" if swapped else "")
        )
    if latitude == 0.0 and longitude == 0.0:
        raise ValueError("0, 0 is how receivers without a fix report themselves")


def check_metres(x_m: float, y_m: float) -> None:
    """Raises ValueError for what is no position on a plane."""
    if not (-MAX_M < x_m < MAX_M and -MAX_M < y_m < MAX_M):
        raise ValueError(f"{x_m}, {y_m} is not a position in metres")


def number(text: str, what: str) -> float:
    """A finite number, with a decimal point or a decimal comma. Raises ValueError that says what it was."""
    try:
        value = float(text.replace(",", ".") if "." not in text else text)
    except ValueError:
        raise ValueError(f"{what} {text[:32]!r} is not a number") from None
    if not math.isfinite(value):
        raise ValueError(f"{what} {text[:32]!r} is not a finite number")
    return value


def seconds(text: str) -> float:
    """A time in seconds, whole or not."""
    value = number(text, "time")
    check_time(math.floor(value))
    return value
