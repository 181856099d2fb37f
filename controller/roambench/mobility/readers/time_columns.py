"""Columns of times, parsed at once to what `times` makes of each text.

`at_once` of every form raises ValueError for a column that holds any other form; `rows` then looks closer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from roambench.mobility.readers.rows import Form, Texts
from roambench.mobility.readers.times import TIME_FORMATS, date_time, whole_seconds

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

_MONTHS: Final = np.frombuffer(b"JanFebMarAprMayJunJulAugSepOctNovDec", np.uint8).reshape(12, 3)
_NUMBER: Final = r"^-?[0-9]{1,11}(\.[0-9]+)?$"  # below `times.MAX_UNIX_S`
_MS: Final = r"^-?[0-9]{1,14}(\.[0-9]+)?$"
_HOUR: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{1,2}$"
_LOCAL: Final = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"
    r"(Z|[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?)?$"
)
_YEAR_1_S: Final = -62_135_596_800
_EXACT_S: Final = 1 << 32  # up to here a float of seconds tells a microsecond


def _foursquare(column: Texts) -> Ints:
    """Seconds since 1970 of `Tue Apr 03 18:00:09 +0000 2012`."""
    text = _characters(column, 30)
    sign = text[:, 20]
    _demand((text[:, [13, 16]] == ord(":")).all() and np.isin(sign, (ord("+"), ord("-"))).all())
    known = (text[:, None, 4:7] == _MONTHS).all(axis=2)
    _demand(known.any(axis=1).all())
    offset_s = _number(text, 21, 23) * 3600 + _number(text, 23, 25) * 60
    local_s = _seconds(
        _number(text, 26, 30), known.argmax(axis=1) + 1, _number(text, 8, 10), _clock_s(text, 11)
    )
    return local_s - np.where(sign == ord("+"), offset_s, -offset_s)


def _date_time(column: Texts, ending: bytes = b"") -> Ints:
    """Seconds since 1970 of `2008-10-24 23:44:05`, with a `T` between or not, and with that ending."""
    text = _characters(column, 19 + len(ending))
    _demand((text[:, [4, 7, 13, 16]] == np.frombuffer(b"--::", np.uint8)).all())
    _demand(np.isin(text[:, 10], (ord(" "), ord("T"))).all())
    _demand((text[:, 19:] == np.frombuffer(ending, np.uint8)).all())
    return _seconds(_number(text, 0, 4), _number(text, 5, 7), _number(text, 8, 10), _clock_s(text, 11))


def _iso(texts: Texts) -> Ints:
    first = texts[0].as_py()
    if len(first) <= len("2020-05-01 13"):
        _demand(_all(texts, _HOUR))
        day_s = _cast(pc.utf8_slice_codeunits(texts, 0, 10), pa.timestamp("s"))
        hour = _cast(pc.utf8_slice_codeunits(texts, 11, 13), pa.int64())
        _demand((hour < 24).all())
        return _known(day_s + 3600 * hour)
    if len(first) == 19 or (len(first) == 20 and first.endswith("Z")):
        return _date_time(texts, first[19:].encode())
    _demand(_all(texts, _LOCAL))
    zoned = pc.match_substring_regex(texts, r":[0-9.]+(Z|[+-][0-9]{2}(:?[0-9]{2})?)$")
    _demand(pc.all(zoned).as_py() or not pc.any(zoned).as_py())
    microseconds = _cast(texts, pa.timestamp("us", tz="UTC" if zoned[0].as_py() else None))
    seconds = microseconds // 1_000_000
    _demand(((np.abs(seconds) < _EXACT_S) | (microseconds % 1_000_000 == 0)).all())
    return _known(seconds)


def _unix(texts: Texts) -> Ints:
    _demand(_all(texts, _NUMBER))
    return np.floor(_floats(texts)).astype(np.int64)


def _unix_ms(texts: Texts) -> Ints:
    _demand(_all(texts, _MS))
    return np.floor(_floats(texts) * 1e-3).astype(np.int64)


def _whole_seconds(texts: Texts) -> Ints:
    data = texts.buffers()[2].to_pybytes()
    _demand(b"x" not in data and b"X" not in data)  # Arrow reads hexadecimal numbers
    return _cast(texts, pa.int64())


def _auto(texts: Texts) -> Ints:
    """Parse all as the first looks; the parser of that form refuses all others."""
    first = texts[0].as_py()
    if first[:1].isalpha():
        return _foursquare(texts)
    return _iso(texts) if first[4:5] == "-" else _unix(texts)


_AT_ONCE: Final[Mapping[str, Callable[[Texts], Ints]]] = {
    "auto": _auto,
    "iso": _iso,
    "foursquare": _foursquare,
    "unix": _unix,
    "unix_ms": _unix_ms,
}
#: By the names of `times.TIME_FORMATS`.
TIME_FORMS: Final[Mapping[str, Form]] = {
    name: Form(_AT_ONCE[name], one) for name, one in TIME_FORMATS.items()
}
DATE_TIME: Final = Form(_date_time, date_time)
WHOLE_SECONDS: Final = Form(_whole_seconds, whole_seconds)


def _characters(column: Texts, width: int) -> Bytes:
    """The bytes of texts of that length, shape (rows, width)."""
    _demand(pc.all(pc.equal(pc.binary_length(column), width)).as_py())
    _, offsets, data = column.buffers()
    first = int(np.frombuffer(offsets, np.int32)[column.offset])
    return np.frombuffer(data, np.uint8)[first : first + width * len(column)].reshape(-1, width)


def _number(text: Bytes, first: int, end: int) -> Ints:
    digits = text[:, first:end] - np.uint8(ord("0"))  # what comes before 0 wraps to more than 9
    _demand((digits <= 9).all())
    value = np.zeros(len(text), np.int64)
    for at in range(end - first):
        value = value * 10 + digits[:, at]
    return value


def _clock_s(text: Bytes, first: int) -> Ints:
    """Seconds of the day of `hh:mm:ss` at `first`."""
    hour, minute, second = (_number(text, first + at, first + at + 2) for at in (0, 3, 6))
    _demand(((hour < 24) & (minute < 60) & (second < 60)).all())
    return hour * 3600 + minute * 60 + second


def _seconds(year: Ints, month: Ints, day: Ints, clock_s: Ints) -> Ints:
    _demand(((year >= 1) & (month >= 1) & (month <= 12) & (day >= 1)).all())
    months = (year - 1970) * 12 + month - 1
    first, following = (
        (months + shift).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) for shift in (0, 1)
    )
    _demand((first + day <= following).all())
    return (first + day - 1) * 86_400 + clock_s


def _all(texts: Texts, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py())


def _cast(texts: Texts, kind: pa.DataType) -> Ints:
    numbers: Ints = texts.cast(kind).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return numbers


def _floats(texts: Texts) -> npt.NDArray[np.float64]:
    return np.asarray(texts.cast(pa.float64()).to_numpy(zero_copy_only=False))


def _known(seconds: Ints) -> Ints:
    _demand((seconds >= _YEAR_1_S).all())
    return seconds


def _demand(right: object) -> None:
    if not right:
        raise ValueError("a time of another form")
