"""Columns of times of a fixed form, parsed at once; what is of any other form is left to `times`.

All raise ArrowInvalid for a column with a time that they do not know: then the rows are read one by one.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

_MONTHS: Final = np.frombuffer(b"JanFebMarAprMayJunJulAugSepOctNovDec", np.uint8).reshape(12, 3)


def date_times(dates: pa.ChunkedArray, clocks: pa.ChunkedArray | None = None) -> Ints:
    """Seconds since 1970 of `2008-10-24 23:44:05`, in one column or two."""
    lengths = (10, 8) if clocks is not None else (19,)
    for column, length in zip((dates, clocks), lengths, strict=False):
        if not pc.all(pc.equal(pc.binary_length(column), length)).as_py():
            raise pa.ArrowInvalid("a time of another form")
    timestamps = dates if clocks is None else pc.binary_join_element_wise(dates, clocks, " ")
    seconds: Ints = timestamps.cast(pa.timestamp("s")).cast(pa.int64()).to_numpy().copy()
    return seconds


def zulu_times(column: pa.ChunkedArray) -> Ints:
    """Seconds since 1970 of `2010-10-12T00:21:28Z`."""
    text = _characters(column, 20)
    _demand((text[:, [4, 7, 10, 13, 16, 19]] == np.frombuffer(b"--T::Z", np.uint8)).all())
    return _seconds(_number(text, 0, 4), _number(text, 5, 7), _number(text, 8, 10), _clock_s(text, 11))


def foursquare_times(column: pa.ChunkedArray) -> Ints:
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


def _characters(column: pa.ChunkedArray, width: int) -> Bytes:
    """The bytes of texts of that length, shape (rows, width)."""
    _demand(not column.null_count and pc.all(pc.equal(pc.binary_length(column), width)).as_py() is not False)
    parts = []
    for chunk in column.chunks:
        _, offsets, data = chunk.buffers()
        if len(chunk) and data is not None:
            first = int(np.frombuffer(offsets, np.int32)[chunk.offset])
            parts.append(np.frombuffer(data, np.uint8)[first : first + width * len(chunk)].reshape(-1, width))
    return np.concatenate([*parts, np.empty((0, width), np.uint8)])


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


def _demand(right: object) -> None:
    if not right:
        raise pa.ArrowInvalid("a time of another form")
