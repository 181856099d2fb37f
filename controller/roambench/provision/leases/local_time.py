"""Moments as a person writes and reads them: in this machine's time zone, which is always named."""

from __future__ import annotations

from datetime import datetime

from roambench.contract.errors import ConfigError

_EXPECTED = 'expected "YYYY-MM-DD HH:MM" in local time, or with an offset as in 2026-12-01T20:00+01:00'


def moment_s(text: str, what: str) -> float:
    """Seconds since the epoch of "2026-12-01 20:00"; ConfigError, which begins with `what`, for another text
    and for a time that the change to or from summer time leaves out or brings twice."""
    try:
        written = datetime.fromisoformat(text)
        if len(text) <= len("2026-12-01"):
            raise ValueError
        first_s, second_s = written.timestamp(), written.replace(fold=1).timestamp()
        here = datetime.fromtimestamp(first_s).astimezone()
    except (ValueError, OverflowError, OSError):
        raise ConfigError([f"{what}: {text!r}: {_EXPECTED}"]) from None
    if written.tzinfo is None and here.replace(tzinfo=None) != written:
        raise ConfigError([f"{what}: {text}: the clocks are set forward then, there is no such time"])
    if written.tzinfo is None and first_s != second_s:
        both = " or ".join(
            datetime.fromtimestamp(moment).astimezone().isoformat(timespec="minutes")
            for moment in (first_s, second_s)
        )
        raise ConfigError([f"{what}: {text}: the clocks are set back then, it comes twice: write {both}"])
    return first_s


def shown(moment: float) -> str:
    """Tue 2026-12-01 20:00 CET."""
    return datetime.fromtimestamp(moment).astimezone().strftime("%a %Y-%m-%d %H:%M %Z")


def iso(moment: float) -> str:
    """2026-12-01T20:00:00+01:00."""
    return datetime.fromtimestamp(moment).astimezone().isoformat(timespec="seconds")
