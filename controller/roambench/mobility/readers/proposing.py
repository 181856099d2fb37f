"""A column map for a table that no format fits, proposed by its columns' names and by what they hold."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations
from typing import Final

import pyarrow as pa

from roambench.mobility.readers.documents import Head
from roambench.mobility.readers.points import points_of
from roambench.mobility.readers.tables import cells_of, separator_of
from roambench.mobility.readers.times import MAX_UNIX_S, TIME_FORMATS, pattern_of

_MOST_COLUMNS: Final = 200
#: Words in the names of columns, by field; the first field with a fitting column takes it.
_WORDS: Final[Mapping[str, re.Pattern[str]]] = {
    field: re.compile(rf"(?:^|[^a-z])(?:{words})(?:[^a-z]|$)", re.IGNORECASE)
    for field, words in {
        "lat": "breite|breitengrad|latitud|lat|latitude|geolat|start_?lat|lat_?itude|ylat|gps_?lat|latx?",
        "lon": "länge|laenge|längengrad|longitud|"
        "lon|lng|long|longitude|geolong|gps_?lon|gps_?lng|long_?itude|lony?",
        "start": "beginn|anmeldung|von|ankunft|inicio|début|"
        "start|begin|login|arrival|arrive|from|in_?time|connect|first|t1|opened|pickup",
        "end": "ende|abmeldung|bis|abfahrt|fin|"
        "end|stop|finish|logout|departure|depart|leave|to|till|until|out_?time|disconnect|last|t2|"
        "closed|dropoff",
        "time": "zeit|zeitpunkt|zeitstempel|uhrzeit|datum|fecha|hora|heure|"
        "time|timestamp|datetime|date_?time|utc|ts|epoch|when|seen|created|recorded|unix|t",
        "ap": "zugangspunkt|funkzelle|standort|"
        "ap|ap_?name|ap_?id|bssid|cell|tower|antenna|beacon|station|site|building|lac|gateway|hotspot|"
        "access_?point|zone|router",
        "device": "gerät|geraet|nutzer|fahrzeug|dispositivo|appareil|"
        "device|dev|user|uid|imei|imsi|mac|phone|taxi|cab|car|bus|truck|vehicle|bike|driver|client|"
        "card|node|person|who|customer|animal|tag|tracker|medallion|trip|id|name|scooter|ship|vessel|mmsi|"
        "aircraft|icao24|drone|robot|worker|rider|passenger|plate|subject|participant|pedestrian|agent|msisdn",
    }.items()
}
_WORD_BORDER: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ISO: Final = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d(?::\d\d.*)?")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_CLOCK: Final = re.compile(r"[012]?\d(?::\d\d(?::\d\d(?:\.\d+)?)?)?")
_OTHER_TIME: Final = re.compile(
    r"\d{1,4}[./ -](?:\d{1,2}|[A-Za-z]{3,9})[./ -]\d{1,4}(?:,?[ T].*)?|"
    r"\d{8}(?:[ T]?\d{6})?|\d\d?:\d\d(?::\d\d)?"
)
_NUMBER: Final = re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_FRACTION: Final = re.compile(r"-?\d{1,3}\.\d{2,}")
_EAST: Final = ("x", "x_m", "pos_x", "xcoord", "x_coord")
_NORTH: Final = ("y", "y_m", "pos_y", "ycoord", "y_coord")
_TELLING: Final = 5  # rows
_PORTOS_S: Final = 15  # between two points of Porto's taxis
_ROME: Final = ((41.0, 43.0), (11.0, 14.0))  # its taxis have latitude first, against WKT's order
_REGION_DEG: Final = 30.0
_SLOTS: Final = (24, 48, 96, 144, 288, 1440)  # a day
#: Units of times that are no seconds, with a number that no recording reaches, and the seconds of one.
_UNITS: Final = (
    ("days, as spreadsheets count them: dates are 70 years late", 7e4, "86400"),
    ("microseconds since 1970", 4e15, "0.000001"),
    ("nanoseconds since 1970", 4e18, "0.000000001"),
)
_RECENT_S: Final = 6e8  # 1989: less is no time of a recording, and more a count of something else


@dataclass(frozen=True, slots=True)
class Proposal:
    """A format, its column map ("..." for a field whose column is unknown), and notes on it."""

    reader: str
    columns: Mapping[str, str]
    time_format: str
    notes: tuple[str, ...]

    def options(self) -> str:
        """Return the options of a command line."""
        columns = ",".join(f"{field}={name}" for field, name in self.columns.items())
        options = f"--columns {shlex.quote(columns)}"
        return (
            options
            if self.time_format == "auto"
            else f"{options} --time-format {shlex.quote(self.time_format)}"
        )


@dataclass(frozen=True, slots=True)
class _Column:
    at: int
    name: str  # "" in a table without a header
    cells: tuple[str, ...]

    def is_called(self, field: str) -> bool:
        """Tell if its name has a word for the field (`LoginTime` and `login_time` are two words)."""
        return _WORDS[field].search(_WORD_BORDER.sub("_", self.name)) is not None

    def all(self, pattern: re.Pattern[str]) -> bool:
        filled = [cell for cell in self.cells if cell]
        return bool(filled) and all(pattern.fullmatch(cell) for cell in filled)

    def numbers(self) -> list[float] | None:
        return [float(cell) for cell in self.cells if cell] if self.all(_NUMBER) else None


def propose(head: Head) -> Proposal | None:
    """Propose a reader for the table of this head; None for no table of devices at times and places."""
    columns = list(_columns(head))
    if not 2 <= len(columns) <= _MOST_COLUMNS:
        return None
    return _Guessing(columns).proposal()


def has_times(head: Head) -> bool:
    """Tell if a column of the table is named like a time, or holds times."""
    return any(
        _time_format(it) or it.all(_DATE) or it.is_called("time") or it.is_called("start")
        for it in _columns(head)
    )


def _columns(head: Head) -> Iterator[_Column]:
    rows = [row.removeprefix("\ufeff") for row in head.rows]
    if len(rows) < 2:
        return
    separator = separator_of(rows[0], rows[1:])
    try:
        table = [[_with_point(cell.strip(), separator) for cell in cells_of(row, separator)] for row in rows]
    except ValueError:
        return
    width = len(table[0])
    body = [row for row in table[1:] if len(row) == width]
    if len(body) < 0.6 * (len(table) - 1):
        return
    named = not any(_looks_like_data(cell) for cell in table[0])
    for at in range(width):
        name = table[0][at] if named else ""
        cells = tuple(row[at] for row in (body if named else [table[0], *body]))
        yield _Column(at, name, cells)


def _with_point(cell: str, separator: str) -> str:
    """A number with a decimal comma, where commas separate no cells, with a point."""
    return cell.replace(",", ".") if separator != "," and re.fullmatch(r"-?\d+,\d+", cell) else cell


def _looks_like_data(cell: str) -> bool:
    return any(pattern.fullmatch(cell) for pattern in (_NUMBER, _ISO, _DATE, _OTHER_TIME))


class _Guessing:
    """Columns that are free yet, and what is known of the others."""

    def __init__(self, columns: Sequence[_Column]) -> None:
        self._columns = columns
        self._free = list(columns)
        self._notes: list[str] = []
        self._time_format = "auto"
        self._way = False  # cells hold several points

    def proposal(self) -> Proposal | None:
        """The map, if a table of positions or of stays at access points can be recognised at all."""
        places = self._positions()
        times = self._times()
        ap = None if places else self._named("ap", _is_label)
        if not places and ap is None:
            return None
        if not places and {"start", "end"} <= times.keys():
            reader, when = "intervals", {name: times[name] for name in ("start", "end")}
        else:
            time = times.get("time", times.get("start", times.get("end")))
            reader, when = "intervals" if ap else "csv", {"time": time or "..."}
            if self._way:
                when["time"] += f"+@point*{_PORTOS_S}"
                self._notes.append(
                    f"time: {_PORTOS_S} s between two points, as Porto's taxis have; put in yours"
                )
        device = self._device(times.values())
        if device is None and not times:
            return None
        options = {"device": "..." if device is None else self._called(device), **when, **places}
        if ap is not None:
            options["ap"] = self._called(ap)
        missing = [field for field, name in options.items() if name.startswith("...")]
        if missing:
            hint = "; if each file is one device's: device=@file" if "device" in missing else ""
            self._notes.append(
                f"could not tell which column is {', '.join(missing)}: put it for the dots{hint}"
            )
        return Proposal(reader, options, self._time_format, tuple(self._notes))

    def _called(self, column: _Column) -> str:
        return column.name if column.name and self._are_names else str(column.at)

    @property
    def _are_names(self) -> bool:
        names = [column.name for column in self._columns]
        return len(set(names)) == len(names) and not any(mark in name for name in names for mark in "+,=")

    def _named(self, field: str, fits: Callable[[_Column], bool]) -> _Column | None:
        called = [it for it in self._free if it.is_called(field) and fits(it)]
        found = next(iter(called), None)
        if found is not None:
            self._free.remove(found)
        return found

    def _device(self, times: Iterable[str]) -> _Column | None:
        """The first column of several labels that come again, with a name that says it, or else that which is
        at one place at a time; one fix of each is no movement, and no proposal."""
        again = [it for it in self._free if _is_label(it) and 1 < len(set(it.cells)) < len(it.cells)]
        called = [it for it in self._free if _is_label(it) and it.is_called("device")]
        # One label alone is the file of one device, and a few rows tell nothing.
        alone = (it for it in called if len(set(it.cells)) == 1 or len(it.cells) < _TELLING)
        found = next((it for it in called if it in again), None) or next(alone, None)
        if found is None and not called and again:
            when = {part for time in times for part in re.split(r"[+*]", time)}
            moments = list(zip(*(it.cells for it in self._columns if self._called(it) in when), strict=True))
            pairs = [len(set(zip(it.cells, moments, strict=True))) for it in again] if moments else [0]
            found = again[pairs.index(max(pairs))]
            self._notes.append(f"device: column {self._called(found)}, as its entries come again; look at it")
        if found is None and called:
            self._notes.append(
                f"device: column {self._called(called[0])} is named like one, but none of its first "
                f"{len(called[0].cells)} entries comes again"
            )
        if found is not None:
            self._free.remove(found)
        return found

    def _positions(self) -> dict[str, str]:
        lat, lon = self._named("lat", _is_degrees), self._named("lon", _is_degrees)
        if lat is not None and lon is not None:
            return {"lat": self._called(lat), "lon": self._called(lon)}
        self._free += [it for it in (lat, lon) if it is not None]
        self._free.sort(key=lambda it: it.at)
        for one, two in combinations([it for it in self._free if it.all(_FRACTION)], 2):
            spans = [max(map(abs, it.numbers() or [0.0])) for it in (one, two)]
            plane = one.name.lower() in _EAST and two.name.lower() in _NORTH
            if two.at == one.at + 1 and max(spans) <= 180.0 and min(spans) <= 90.0 and _are_near(one, two):
                lat, lon = (two, one) if spans[0] > 90.0 or plane else (one, two)
                self._free = [it for it in self._free if it not in (one, two)]
                sure = max(spans) > 90.0 or plane
                self._notes.append(
                    f"lat, lon: columns {self._called(lat)} and {self._called(lon)}, by their numbers"
                    + ("" if sure else "; they may be the other way round")
                )
                return {"lat": self._called(lat), "lon": self._called(lon)}
        if places := self._points():
            return places
        exact = {it.name.lower(): it for it in self._free if it.numbers() is not None}
        if {"x", "y"} <= exact.keys():
            self._free = [it for it in self._free if it not in (exact["x"], exact["y"])]
            return {axis: self._called(exact[axis]) for axis in ("x", "y")}
        return {}

    def _points(self) -> dict[str, str]:
        """The numbers of points in a cell: longitude first but in a pair of round brackets and in Rome."""
        for column in self._free:
            cells = [cell for cell in column.cells if cell]
            points = points_of(pa.array(cells, pa.string())).to_pylist()
            pairs = [point.split(" ") for cell in points if cell for point in cell.split(";")]
            if not pairs or points.count(None) > 0.4 * len(points):
                continue
            one, two = ([float(pair[at]) for pair in pairs] for at in (0, 1))
            most = [max(map(abs, numbers)) for numbers in (one, two)]
            if max(most) > 180.0 or min(most) > 90.0:
                continue
            rome = all(
                low < min(it) and max(it) < high for it, (low, high) in zip((one, two), _ROME, strict=True)
            )
            lat = int(most[0] > 90.0 or not (most[1] > 90.0 or rome or cells[0].startswith("(")))
            sure = max(most) > 90.0
            self._free.remove(column)
            self._way = any(";" in cell for cell in points if cell)
            name = self._called(column)
            self._notes.append(
                f"lat, lon: numbers {lat} and {1 - lat} of the points in column {name}, counted from 0"
                + ("" if sure else "; they may be the other way round")
            )
            return {"lat": f"{name}[{lat}]", "lon": f"{name}[{1 - lat}]"}
        return {}

    def _times(self) -> dict[str, str]:
        if days := self._day_and_slot():
            return {"time": days}
        found: dict[str, str] = {}
        kinds = {it.at: _time_format(it) for it in self._free}
        dates = [it for it in self._free if it.all(_DATE)]
        clocks = [it for it in self._free if it.all(_CLOCK)]
        clocks = [it for it in clocks if ":" in it.cells[0] or re.search("hour|time", it.name, re.IGNORECASE)]
        whole = [it for it in self._free if kinds[it.at]]
        for field in ("start", "end", "time"):
            column = next((it for it in whole if it.is_called(field)), None)
            if column is not None:
                found[field] = self._called(column)
                whole.remove(column)
        if "start" not in found or "end" not in found:
            pair = [it for it in self._free if kinds[it.at]]
            if len(pair) == 2 and _never_before(*pair):
                found = {"start": self._called(pair[0]), "end": self._called(pair[1])}
            elif not found and whole:
                found["time"] = self._called(whole[0])
        if not found and dates and clocks:
            found["time"] = f"{self._called(dates[0])}+{self._called(clocks[0])}"
            self._free = [it for it in self._free if it not in (dates[0], clocks[0])]
        if not found:
            found = self._other_times(clocks)
        if not found and (counted := self._named("time", lambda it: it.numbers() is not None)):
            found["time"] = self._counted(counted)
        used = [it for it in self._free if self._called(it) in found.values()]
        formats = {kinds[it.at] for it in used}
        if "unix_ms" in formats:
            self._time_format = "unix_ms"
            self._notes.append("times: numbers of milliseconds since 1970")
        self._free = [it for it in self._free if it not in used]
        if not found:
            odd = next((it for it in self._free if it.all(_OTHER_TIME) and not it.all(_NUMBER)), None)
            if odd is not None and odd.all(_CLOCK):
                self._notes.append(
                    f"time: column {self._called(odd)} has {odd.cells[0]!r}, a clock time without its day: "
                    "write the day before it (2024-01-31 22:00:00, after midnight the next)"
                )
            elif odd is not None:
                self._notes.append(
                    f"time: column {self._called(odd)} has {odd.cells[0]!r}: give its pattern "
                    '(--time-format "%Y-%m-%d %H:%M"), with year, month and day in it'
                )
        return found

    def _counted(self, column: _Column) -> str:
        """Numbers that are no seconds since 1970: of a unit that their size tells, or of an own clock."""
        name, values = self._called(column), column.numbers() or [0.0]
        for unit, most, factor in _UNITS:
            if most / 10 < min(values) and max(values) < most:
                self._notes.append(f"time: column {name} has {unit}")
                return f"{name}*{factor}"
        self._notes.append(f"time: column {name} counts from its own beginning")
        return name

    def _other_times(self, clocks: Sequence[_Column]) -> dict[str, str]:
        """Times that begin with the day or the month: two of a stay, one, or a date beside a clock."""
        odd = [it for it in self._free if it.all(_OTHER_TIME) and not it.all(_CLOCK)]
        odd = [it for it in odd if not it.all(_NUMBER) or _pattern(it.cells)]
        pattern = _pattern([cell for it in odd[:2] for cell in it.cells])
        if pattern is None:
            odd = odd[:1]
            pattern = _pattern(odd[0].cells) if odd else None
        if pattern is None:
            return {}
        self._time_format, sure = pattern
        used, found = odd[:1], {"time": self._called(odd[0])}
        if "%M" not in pattern[0] and clocks:
            used, found = [odd[0], clocks[0]], {"time": f"{found['time']}+{self._called(clocks[0])}"}
            self._time_format += " %H" + ":%M:%S"[: 3 * clocks[0].cells[0].count(":")]
        elif len(odd) > 1 and _ordered(odd[0], odd[1], pattern[0]):
            used, found = odd[:2], {"start": self._called(odd[0]), "end": self._called(odd[1])}
        self._free = [it for it in self._free if it not in used]
        if not sure:
            first = odd[0].cells[0]
            self._notes.append(f"time: {first!r} may be {pattern[0]} or begin with the month")
        return found

    def _day_and_slot(self) -> str:
        """A time in days and slots of half an hour, as data of phones have it."""
        days = [it for it in self._free if re.fullmatch("d|day|date_?id", it.name, re.IGNORECASE)]
        slots = [
            it for it in self._free if re.fullmatch("t|slot|time_?slot|timeslot", it.name, re.IGNORECASE)
        ]
        for day, slot in zip(days, slots, strict=False):
            numbers = (day.numbers() or [0.5]) + (slot.numbers() or [0.5])
            if all(number >= 0 and number.is_integer() for number in numbers):
                slots_a_day = next((most for most in _SLOTS if max(slot.numbers() or []) < most), None)
                if slots_a_day is not None:
                    self._free = [it for it in self._free if it not in (day, slot)]
                    length_s = 86_400 // slots_a_day
                    self._notes.append(f"time: {slots_a_day} slots a day, of {length_s} s each; look at it")
                    return f"{self._called(day)}*86400+{self._called(slot)}*{length_s}"
        return ""


def _are_near(one: _Column, two: _Column) -> bool:
    """Tell if the columns may be degrees of one region: metres of a walk spread wider."""
    return all(max(numbers) - min(numbers) < _REGION_DEG for it in (one, two) if (numbers := it.numbers()))


def _ordered(first: _Column, second: _Column, pattern: str) -> bool:
    """Tell if no time of the second column is before that of the first."""
    pairs = [(a, b) for a, b in zip(first.cells, second.cells, strict=True) if a and b]
    try:
        return all(datetime.strptime(a, pattern) <= datetime.strptime(b, pattern) for a, b in pairs)
    except ValueError:
        return False


def _pattern(cells: Iterable[str]) -> tuple[str, bool] | None:
    """The pattern of dates that begin with the day or the month, by all entries; and whether it is sure."""
    found = [pattern_of(cell) for cell in cells if cell]
    sure = {it for it in found if it is not None and it[1]}
    patterns = sure or {it for it in found if it is not None}
    return patterns.pop() if None not in found and len(patterns) == 1 else None


def _is_degrees(column: _Column) -> bool:
    numbers = column.numbers()
    return numbers is not None and max(map(abs, numbers)) <= 180.0


def _is_label(column: _Column) -> bool:
    return any(column.cells) and not column.all(_FRACTION) and not _time_format(column)


def _time_format(column: _Column) -> str:
    """The name of the time format that all of a column's entries have; empty if they have none."""
    filled = [cell for cell in column.cells if cell]
    if not filled:
        return ""
    numbers = column.numbers()
    if numbers is not None:
        if _pattern(filled):
            return ""
        if min(numbers) > MAX_UNIX_S and max(numbers) < 1e3 * MAX_UNIX_S:
            return "unix_ms"
        return "unix" if min(numbers) > _RECENT_S and max(numbers) < MAX_UNIX_S / 10 else ""
    try:
        for cell in filled:
            TIME_FORMATS["auto"](cell)
    except (ValueError, OverflowError):
        return ""
    return "" if column.all(_DATE) else "auto"


def _never_before(first: _Column, second: _Column) -> bool:
    kind = _time_format(first)
    if kind != _time_format(second):
        return False
    read = TIME_FORMATS[kind]
    pairs = [(a, b) for a, b in zip(first.cells, second.cells, strict=True) if a and b]
    return bool(pairs) and all(read(a) <= read(b) for a, b in pairs)
