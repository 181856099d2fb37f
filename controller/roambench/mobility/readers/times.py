"""Times as trace files write them, to whole seconds since 1970 UTC."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

# strptime's %b follows the machine's locale and is 4 times slower than slicing (measured: 5.0 s against
# 1.2 s for 227,428 rows).
_MONTHS: Final = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), start=1
    )
}
_PAIRED_HOUR: Final = re.compile(r"(\d{4}-\d{2}-\d{2})[ T](\d{1,2})$")
MAX_UNIX_S: Final = 10**11  # the year 5138; what is more are milliseconds since 1973
_OTHER_DATE: Final = re.compile(
    r"(\d{4}|\d{1,2})([./ -])(\d{1,2}|[A-Za-z]{3,9})\2(\d{4}|\d{1,2})"
    r"(?:(,? |T)(\d\d?:\d\d(?::\d\d(?:\.\d{1,6})?)?)( ?[AaPp][Mm])?)?$",
    re.ASCII,
)
_FULL_MONTHS: Final = "January February March April June July August September October November December"
_DIGITS_ALONE: Final = "%Y%m%d%H%M%S"
_DATE_TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}:\d{2}", re.ASCII)


def foursquare(text: str) -> int:
    """`Tue Apr 03 18:00:09 +0000 2012`: English names, fixed width."""
    month = _MONTHS.get(text[4:7])
    if len(text) != 30 or month is None or text[13] != ":" or text[16] != ":" or text[20] not in "+-":
        raise ValueError(f"{text!r} is not a time like 'Tue Apr 03 18:00:09 +0000 2012'")
    moment = datetime(
        int(text[26:30]),
        month,
        int(text[8:10]),
        int(text[11:13]),
        int(text[14:16]),
        int(text[17:19]),
        tzinfo=UTC,
    )
    offset_s = int(text[21:23]) * 3600 + int(text[23:25]) * 60
    return int(moment.timestamp()) - (offset_s if text[20] == "+" else -offset_s)


def iso(text: str) -> int:
    """ISO 8601 with `Z`, an offset or neither (then it is UTC); also `YYYY-MM-DD H` of a pair of columns."""
    paired = _PAIRED_HOUR.match(text)
    if paired:
        text = f"{paired[1]}T{int(paired[2]):02d}"
    try:
        moment = datetime.fromisoformat(f"{text[:-4]}Z" if text.endswith(" UTC") else text)
    except ValueError:
        raise ValueError(f"{text!r} is not an ISO 8601 time") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return math.floor(moment.timestamp())


def unix(text: str) -> int:
    """Seconds since 1970 UTC, whole or decimal."""
    digits = len(text.strip().partition(".")[0])
    less = "milliseconds (--time-format unix_ms)"
    if digits > 14:
        unit, factor = ("nano", "1e-9") if digits > 17 else ("micro", "1e-6")
        less = f"{unit}seconds (--columns time=COLUMN*{factor})"
    return _seconds(text, 1.0, f" in seconds; are these {less}?")


def unix_ms(text: str) -> int:
    """Milliseconds since 1970 UTC."""
    return _seconds(text, 1e-3, "")


def auto(text: str) -> int:
    """Whichever of Foursquare's form, ISO 8601 or seconds the text has the shape of (never milliseconds)."""
    if text[:1].isalpha():
        return foursquare(text)
    if text[4:5] == "-":
        return iso(text)
    try:
        float(text)
    except ValueError:
        raise ValueError(
            f"{text[:40]!r} is neither ISO 8601 (2012-04-17T10:00Z) nor seconds since 1970: " + _hint(text)
        ) from None
    return unix(text)


def _hint(text: str) -> str:
    """Return what to do about a time of another form."""
    if re.match(r"\d?\d:\d\d", text.strip()):
        return "a clock time needs its day before it, or in a column (--columns time=DAY+CLOCK)"
    found = pattern_of(text)
    if found is None:
        return 'give its pattern (--time-format "%Y-%m-%d %H:%M"), with year, month and day in it'
    pattern, sure = found
    return f'give its pattern: --time-format "{pattern}"' + ("" if sure else " (or %m before %d)")


def pattern_of(text: str) -> tuple[str, bool] | None:
    """The pattern of a date that ISO 8601 has otherwise, and whether it is known which is day and month."""
    text = text.strip()
    if len(text) == 14 and text.isdecimal() and "1970" <= text[:4] < "2100":
        return _DIGITS_ALONE, True
    found = _OTHER_DATE.match(text)
    if found is None:
        return None
    first, mark, second, third, between, clock, half = found.groups(default="")
    name = second.capitalize()
    month = "%b" if name in _MONTHS else "%B" if name in _FULL_MONTHS.split() else ""
    if not (month or second.isdecimal()) or (len(first) == 4 and len(third) == 4):
        return None
    if len(first) == 4 and mark == "-" and len(second) == len(third) == 2 and not half:
        return None  # as ISO 8601 has it
    day_first = bool(month) or int(second) <= 12
    if len(first) == 4:
        parts, sure = ("%Y", month or "%m", "%d"), True
    else:
        year = "%Y" if len(third) == 4 else "%y"
        parts = ("%d", month or "%m", year) if day_first else ("%m", "%d", year)
        sure = bool(month) or not day_first or int(first) > 12
    times = ":".join(("%I" if half else "%H", "%M", "%S")[: clock.count(":") + 1]) if clock else ""
    times += ".%f" if "." in clock else ""
    times += half.replace(half.strip(), "%p") if half else ""
    return f"{mark.join(parts)}{between}{times}", sure


TIME_FORMATS: Final[Mapping[str, Callable[[str], int]]] = {
    "auto": auto,
    "iso": iso,
    "foursquare": foursquare,
    "unix": unix,
    "unix_ms": unix_ms,
}


def _seconds(text: str, unit_s: float, hint: str) -> int:
    try:
        seconds = math.floor(float(text) * unit_s)
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is not a number of seconds") from None
    if not -MAX_UNIX_S < seconds < MAX_UNIX_S:
        raise ValueError(f"{text!r} is not a time{hint}")
    return seconds


def date_time(text: str) -> int:
    """`2008-10-24 23:44:05`, exactly so, as if it were UTC."""
    if not _DATE_TIME.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not a time like '2008-10-24 23:44:05'")
    return iso(text)


def whole_seconds(text: str) -> int:
    """Seconds since 1970 without decimals."""
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text[:40]!r} is not a time in whole seconds since 1970") from None
