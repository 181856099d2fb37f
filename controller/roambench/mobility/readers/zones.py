"""Times of tables as users say they are written: a form by name or a pattern; the zone of those that name
none."""

from __future__ import annotations

import math
import re
from collections import Counter
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from roambench.contract.errors import ConfigError
from roambench.mobility.readers.rows import Form, Texts
from roambench.mobility.readers.time_columns import TIME_FORMS

Ints = npt.NDArray[np.int64]

#: What `TimeDoubts` counts: times that name no zone; those of an hour that a clock shows twice, or never.
WITHOUT_ZONE: Final = "without zone"
REPEATED: Final = "repeated"
SKIPPED: Final = "skipped"
TimeDoubts = Counter[str]

_ZONED: Final = r"(?:Z|UTC|GMT|[T ]\S*[+-][0-9]{2}(?::?[0-9]{2})?(?::?[0-9]{2})?)$"  # of a clock time
_DATE: Final = r"^[0-9]{4}-"  # else a number of seconds, or Foursquare's form, which names its zone
_OFFSET: Final = re.compile(r"([+-])([01]\d|2[0-3]):?([0-5]\d)")
_SUCH_AS: Final = "%d.%m.%Y %H:%M"
_STEP_S: Final = 900  # no zone changes its offset within a quarter of an hour


def time_form(name: str, zone: str, time_doubts: TimeDoubts) -> Form:
    """The form of that name, or of a pattern as `strptime` has it (`%d.%m.%Y %H:%M`), in UTC. Times that name
    no zone are in `zone` (`Europe/Berlin`, `+02:00`; "": UTC). ConfigError for what is neither."""
    mistakes: list[str] = []
    where = zone_of(zone, mistakes)
    pattern = "%" in name
    form = _pattern(name, mistakes) if pattern else TIME_FORMS.get(name)
    if form is None and not pattern:
        known = ", ".join(TIME_FORMS)
        mistakes.append(f"time_format: {name!r}, expected one of {known}, or a pattern such as {_SUCH_AS}")
    if mistakes or form is None:
        raise ConfigError(mistakes)
    return _InZone(
        form, where, time_doubts, all_dates=name == "iso", all_local=pattern and "%z" not in name
    ).form


class _InZone:
    """A form whose local times become UTC, and are counted."""

    def __init__(
        self, form: Form, zone: tzinfo, time_doubts: TimeDoubts, *, all_dates: bool, all_local: bool
    ) -> None:
        self._form, self._zone, self._doubts, self._all_local = form, zone, time_doubts, all_local
        self._date = "" if all_dates else _DATE
        self.form = Form(self._at_once, self._one)

    def _at_once(self, texts: Texts) -> Ints:
        seconds = np.array(self._form.at_once(texts), np.int64)
        local = self._local(texts)
        self._doubts[WITHOUT_ZONE] += int(local.sum())
        if self._zone is not UTC and local.any():
            steps, which = np.unique(seconds[local] // _STEP_S, return_inverse=True)
            offsets = np.array([self._offset_s(int(step) * _STEP_S, 1) for step in steps], np.int64)
            often = np.bincount(which, minlength=len(steps))
            for step, count in zip(steps.tolist(), often.tolist(), strict=True):
                self._count(step * _STEP_S, count)
            seconds[local] -= offsets[which]
        return seconds

    def _one(self, text: str) -> float:
        seconds = math.floor(self._form.one(text))
        if self._all_local or (re.match(self._date, text) and not re.search(_ZONED, text)):
            self._doubts[WITHOUT_ZONE] += 1
            if self._zone is not UTC:
                self._count(seconds, 1)
                seconds -= self._offset_s(seconds, 1)
        return seconds

    def _local(self, texts: Texts) -> npt.NDArray[np.bool_]:
        if self._all_local:
            return np.ones(len(texts), np.bool_)
        dates = pc.match_substring_regex(texts, self._date)
        local = pc.and_not(dates, pc.match_substring_regex(texts, _ZONED))
        return np.asarray(local.to_numpy(zero_copy_only=False), np.bool_)

    def _offset_s(self, local_s: int, first: int) -> int:
        """Seconds that the clock of the zone is ahead of UTC; of a repeated hour at its first time."""
        moment = datetime(1970, 1, 1) + timedelta(seconds=local_s)
        offset = moment.replace(tzinfo=self._zone, fold=0 if first else 1).utcoffset()
        return 0 if offset is None else round(offset.total_seconds())

    def _count(self, local_s: int, rows: int) -> None:
        change = self._offset_s(local_s, 1) - self._offset_s(local_s, 0)
        if change:
            self._doubts[REPEATED if change > 0 else SKIPPED] += rows


def zone_of(name: str, mistakes: list[str], option: str = "time_zone") -> tzinfo:
    """The zone of that name (`Europe/Berlin`, `+02:00`; "": UTC); a mistake is added to `mistakes`."""
    if not name or name.upper() in ("UTC", "Z"):
        return UTC
    if found := _OFFSET.fullmatch(name):
        ahead = timedelta(hours=int(found[2]), minutes=int(found[3]))
        return timezone(ahead if found[1] == "+" else -ahead)
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):  # KeyError: no such zone
        mistakes.append(f"{option}: {name!r}, expected a zone such as Europe/Berlin, or +02:00")
        return UTC


def _pattern(pattern: str, mistakes: list[str]) -> Form | None:
    def one(text: str) -> float:
        try:
            moment = datetime.strptime(text, pattern)
        except ValueError:
            raise ValueError(f"{text[:40]!r} is not a time like {pattern}") from None
        return math.floor((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())

    parts = set(re.findall(r"%(.)", pattern.replace("%%", "")))
    day = "j" in parts or ("d" in parts and parts & set("mbB"))
    if not (parts & set("cxG") or (parts & set("Yy") and day)):
        mistakes.append(f"time_format: {pattern!r}, expected year, month and day in it, such as {_SUCH_AS}")
        return None  # from 3.13 on, strptime warns of a day without a year
    try:
        datetime.strptime(datetime(2024, 1, 2, tzinfo=UTC).strftime(pattern), pattern)
    except ValueError:
        mistakes.append(f"time_format: {pattern!r} is no pattern of strptime, such as {_SUCH_AS}")
    return Form(lambda texts: np.array([one(text) for text in texts.to_pylist()], np.int64), one)
