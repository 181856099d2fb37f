"""Columns of times as tables write them, parsed at once to what `times` makes of each.

All raise ArrowInvalid for a column that holds any other form: then the rows are read one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from roambench.mobility.readers.time_columns import Ints, foursquare_times

_NUMBER: Final = r"^-?[0-9]{1,11}(\.[0-9]+)?$"  # below `times.MAX_UNIX_S`
_MS: Final = r"^-?[0-9]{1,14}(\.[0-9]+)?$"
_HOUR: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{1,2}$"
_LOCAL: Final = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.([0-9]{3}|[0-9]{6}))?)?"
    r"(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])?$"
)
_YEAR_1_S: Final = -62_135_596_800
_EXACT_S: Final = 1 << 32  # up to here a float of seconds tells a microsecond


def timestamps(texts: pa.ChunkedArray, time_format: str) -> Ints:
    """Seconds since 1970 UTC of texts of one form; `time_format` is a name of `times.TIME_FORMATS`."""
    if not len(texts):
        return np.empty(0, np.int64)
    return _FORMATS[time_format](texts)


def _iso(texts: pa.ChunkedArray) -> Ints:
    if len(texts[0].as_py()) <= len("2020-05-01 13"):
        _demand(_all(texts, _HOUR))
        day_s = _cast(pc.utf8_slice_codeunits(texts, 0, 10), pa.timestamp("s"))
        hour = _cast(pc.utf8_slice_codeunits(texts, 11, 13), pa.int64())
        _demand((hour < 24).all())
        return _known(day_s + 3600 * hour)
    _demand(_all(texts, _LOCAL))
    zoned = pc.match_substring_regex(texts, r"(Z|[+-][0-9]{2}:[0-9]{2})$")
    _demand(pc.all(zoned).as_py() or not pc.any(zoned).as_py())
    microseconds = _cast(texts, pa.timestamp("us", tz="UTC" if zoned[0].as_py() else None))
    seconds = microseconds // 1_000_000
    _demand(((np.abs(seconds) < _EXACT_S) | (microseconds % 1_000_000 == 0)).all())
    return _known(seconds)


def _unix(texts: pa.ChunkedArray) -> Ints:
    _demand(_all(texts, _NUMBER))
    return np.floor(_floats(texts)).astype(np.int64)


def _unix_ms(texts: pa.ChunkedArray) -> Ints:
    _demand(_all(texts, _MS))
    return np.floor(_floats(texts) * 1e-3).astype(np.int64)


def _auto(texts: pa.ChunkedArray) -> Ints:
    """By the form of the first; the parser of that form refuses all others."""
    first = texts[0].as_py()
    if first[:1].isalpha():
        return foursquare_times(texts)
    return _iso(texts) if first[4:5] == "-" else _unix(texts)


_FORMATS: Final[Mapping[str, Callable[[pa.ChunkedArray], Ints]]] = {
    "auto": _auto,
    "iso": _iso,
    "foursquare": foursquare_times,
    "unix": _unix,
    "unix_ms": _unix_ms,
}


def _all(texts: pa.ChunkedArray, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py())


def _cast(texts: pa.ChunkedArray, kind: pa.DataType) -> Ints:
    numbers: Ints = texts.cast(kind).cast(pa.int64()).to_numpy().copy()
    return numbers


def _floats(texts: pa.ChunkedArray) -> npt.NDArray[np.float64]:
    return np.asarray(texts.cast(pa.float64()).to_numpy())


def _known(seconds: Ints) -> Ints:
    _demand((seconds >= _YEAR_1_S).all())
    return seconds


def _demand(right: object) -> None:
    if not right:
        raise pa.ArrowInvalid("a time of another form")
