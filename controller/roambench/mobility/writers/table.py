"""A table (CSV): who is where and served by which access point, one row per (step, device).

    device,time,x,y,step,ap,distance_m

`time` is in seconds since 1970 UTC, or since a simulation's start. `ap` is the one that the trace recorded,
else the nearest. The access points go into a second table, `ap,x,y`. The `csv` reader reads the first, and
the second as its `--ap-source`. Not in it: candidate places, devices that never come, empty steps at the end.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Final

from roambench.contract.errors import TraceError
from roambench.mobility.association import NearestAp, RecordedAp
from roambench.mobility.trace import Trace
from roambench.mobility.writers.writer import Absent, Writer, Written, decimal


def write(trace: Trace, absent: Absent) -> Written:
    """`absent` is always `omit`. Raises TraceError for names that no table can hold."""
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
        served = list(zip(names, map(decimal, rule.distances_m.tolist()), strict=True))
    rows = zip(*(column.tolist() for column in (trace.step, trace.device, trace.x_m, trace.y_m)), strict=True)
    for (step, device, x_m, y_m), (ap, distance) in zip(rows, served, strict=True):
        time_s = trace.start_utc_s + step * trace.step_s
        time = str(int(time_s)) if time_s == int(time_s) else decimal(time_s)
        yield _row((trace.device_names[device], time, decimal(x_m), decimal(y_m), str(step), ap, distance))


def _access_points(trace: Trace) -> Iterator[str]:
    yield "ap,x,y"
    for name, x_m, y_m in zip(trace.ap_names, trace.ap_x_m.tolist(), trace.ap_y_m.tolist(), strict=True):
        yield _row((name, decimal(x_m), decimal(y_m)))


def _row(cells: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(cells)
    return text.getvalue()


TABLE: Final = Writer("csv", "a table of every fix, and one of the access points", write, omits=True)
