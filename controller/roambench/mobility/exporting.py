"""A trace into files of other formats: each tells its lines, and what they leave unsaid."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np

from roambench.contract.errors import ConfigError, TraceError
from roambench.contract.whole_file import replaced
from roambench.mobility.association import NearestAp, RecordedAp
from roambench.mobility.files import write_trace
from roambench.mobility.presence import with_presence
from roambench.mobility.trace import Trace

Absent = Literal["stand", "omit"]


@dataclass(frozen=True, slots=True)
class Written:
    """Lines by the file's suffix, the asked-for file under "", and what they leave unsaid, as sentences."""

    lines: dict[str, Iterable[str]]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Writer:
    """One output format. `omits` says whether it can leave out those that are absent."""

    name: str
    write: Callable[[Trace, Absent], Written]
    omits: bool


@dataclass(frozen=True, slots=True)
class ExportedTrace:
    """The files written, the asked-for one first, and what they do not say."""

    paths: tuple[Path, ...]
    notes: tuple[str, ...]


def export_trace(trace: Trace, path: Path, form: str, absent: Absent | None = None) -> ExportedTrace:
    """Write `trace` to `path` and what belongs beside it (same name, other ending).

    `absent`: whether devices that are away `stand` or are left out (`omit`); None: what the format's own
    programs need. Raises ConfigError for an unknown format or what it cannot do, TraceError where the trace
    or the disk does not allow it; no file is ever half written.
    """
    if form not in FORMATS:
        raise ConfigError([f"--format {form}: expected one of {', '.join(FORMATS)}"])
    if form == "parquet":
        if absent == "stand":
            raise ConfigError(["--absent stand: expected omit: the format keeps who is away"])
        write_trace(trace, path)
        return ExportedTrace((path,), ())
    writer = WRITERS[form]
    if absent == "omit" and not writer.omits:
        raise ConfigError([f"--absent omit: expected stand: {form} cannot leave out who is away"])
    if absent == "stand" and form == "csv":
        raise ConfigError(["--absent stand: expected omit: the format keeps who is away"])
    written = writer.write(trace, absent or "stand")
    paths = []
    for suffix, lines in written.lines.items():
        paths.append(path if not suffix else path.with_name(path.stem + suffix))
        _write_lines(lines, paths[-1])
    return ExportedTrace(tuple(paths), written.notes)


def _write_lines(lines: Iterable[str], path: Path) -> None:
    try:
        with replaced(path) as fresh, fresh.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in lines)
    except OSError as error:
        raise TraceError(f"{path}: cannot write the trace: {error.strerror or error}") from None


def _one(trace: Trace, absent: Absent) -> Written:
    """The ONE's ExternalMovement: a header of bounds, then `time id x y` at every step.

    Ids are device indices, times count from the trace's first step; positions are metres, read back as the
    same numbers. The simulator wants every node in its first sample and one constant interval, so absent
    devices `stand`. With `omit` only who is present is listed, which is how our own reader tells presence.
    """
    notes: tuple[str, ...] = ()
    if absent == "stand":
        trace, notes = _standing(trace)
    return Written({"": _samples(trace)}, notes)


def _samples(trace: Trace) -> Iterator[str]:
    bounds = [0.0, trace.steps * trace.step_s]
    for column in (trace.x_m, trace.y_m):
        bounds += [float(column.min(initial=0.0)), float(column.max(initial=0.0))]
    yield " ".join(_decimal(bound) for bound in bounds)
    rows = zip(*(column.tolist() for column in (trace.step, trace.device, trace.x_m, trace.y_m)), strict=True)
    for step, device, x_m, y_m in rows:
        yield f"{_decimal(step * trace.step_s)} {device} {_decimal(x_m)} {_decimal(y_m)}"


def _bonnmotion(trace: Trace, absent: Absent) -> Written:
    """BonnMotion's `.movements`: one line of waypoints `t x y` per device, and its `.params`.

    A waypoint at every step; between two of them BonnMotion's nodes move in a straight line. The last one
    stands at the end of the last step. The format has no absence: `absent` is always `stand`. Line i is the
    i-th device that ever comes; devices that never come have no line.
    """
    whole, notes = _standing(trace)
    return Written({"": _waypoints(whole), ".params": _parameters(whole)}, notes)


def _waypoints(trace: Trace) -> Iterator[str]:
    times = [_decimal(step * trace.step_s) for step in range(trace.steps)]
    end = _decimal(trace.steps * trace.step_s)
    order = np.lexsort((trace.step, trace.device))
    for rows in np.split(order, np.flatnonzero(np.diff(trace.device[order])) + 1):
        points = [
            f"{_decimal(x)} {_decimal(y)}" for x, y in zip(trace.x_m[rows], trace.y_m[rows], strict=True)
        ]
        waypoints = [f"{time} {point}" for time, point in zip(times, points, strict=True)]
        yield " ".join([*waypoints, f"{end} {points[-1]}"])


def _parameters(trace: Trace) -> Iterator[str]:
    yield "model=roambench"
    yield f"x={_decimal(trace.x_m.max())}"
    yield f"y={_decimal(trace.y_m.max())}"
    yield f"duration={_decimal(trace.steps * trace.step_s)}"
    yield f"nn={len(np.unique(trace.device))}"


def _tables(trace: Trace, absent: Absent) -> Written:
    """A table (CSV): who is where and served by which access point, one row per (step, device).

        device,time,x,y,step,ap,distance_m

    `time` is in seconds since 1970 UTC, or since a simulation's start. `ap` is the one that the trace
    recorded, else the nearest. The access points go into a second table, `ap,x,y`. The `csv` reader reads the
    first, and the second as its `--ap-source`. Not in it: candidate places, devices that never come, empty
    steps at the end. `absent` is always `omit`. Raises TraceError for names that no table can hold.
    """
    for name in (*trace.device_names, *trace.ap_names):
        if "\n" in name or "\r" in name:
            raise TraceError(f"the name {name[:32]!r} has a line break: no table can hold it")
    tables: dict[str, Iterator[str]] = {"": _fixes(trace)}
    if trace.ap_names:
        tables["-aps.csv"] = _access_points(trace)
    return Written(dict(tables))


def _fixes(trace: Trace) -> Iterator[str]:
    yield "device,time,x,y,step,ap,distance_m"
    served = [("", "")] * len(trace.step)
    if trace.ap_names:
        rule = NearestAp(trace) if trace.ap is None else RecordedAp(trace)
        names = (trace.ap_names[ap] for ap in rule.aps.tolist())
        served = list(zip(names, map(_decimal, rule.distances_m.tolist()), strict=True))
    rows = zip(*(column.tolist() for column in (trace.step, trace.device, trace.x_m, trace.y_m)), strict=True)
    for (step, device, x_m, y_m), (ap, distance) in zip(rows, served, strict=True):
        time_s = trace.start_utc_s + step * trace.step_s
        time = str(int(time_s)) if time_s == int(time_s) else _decimal(time_s)
        yield _row((trace.device_names[device], time, _decimal(x_m), _decimal(y_m), str(step), ap, distance))


def _access_points(trace: Trace) -> Iterator[str]:
    yield "ap,x,y"
    for name, x_m, y_m in zip(trace.ap_names, trace.ap_x_m.tolist(), trace.ap_y_m.tolist(), strict=True):
        yield _row((name, _decimal(x_m), _decimal(y_m)))


def _row(cells: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(cells)
    return text.getvalue()


def _standing(trace: Trace) -> tuple[Trace, tuple[str, ...]]:
    """The trace with everybody always there: absent devices stand where they last were (or will first be).

    With a sentence on how many absences that hides. Raises TraceError where no device ever comes.
    """
    if not len(trace.step):
        raise TraceError("no device is ever present in this trace: there is no position to write")
    whole = with_presence(trace, "always")
    hidden = len(whole.step) - len(trace.step)
    if not hidden:
        return whole, ()
    return whole, (
        f"the format knows no absence: at {hidden} of {len(whole.step)} (device, step) pairs the device is "
        "away, there it stands where it last was",
    )


def _decimal(value: float) -> str:
    """The shortest text that reads back as the same number."""
    return repr(float(value))


#: Formats besides our own Parquet (`mobility.files`).
WRITERS: Final[Mapping[str, Writer]] = {
    writer.name: writer
    for writer in (
        Writer("one", _one, omits=True),
        Writer("bonnmotion", _bonnmotion, omits=False),
        Writer("csv", _tables, omits=True),
    )
}
FORMATS: Final = (*WRITERS, "parquet")
