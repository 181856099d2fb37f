"""An imported trace beside its source, read anew: rows, presence and aggregated models, by other code.

Run: python benchmarks/traces/check.py TRACE FORMAT SOURCE... [--ap-hosts 0,1] [--columns device=0,time=1,...]
FORMAT: tdrive, csv, intervals (a file per device, or the columns), one-contacts, ns2, sumo-fcd.

Nothing of roambench is used but the trace file itself: its columns, and the window and step of its recipe.
Import with --top 0, and degrees with --box-corners (here --corners). What a format means says docs/traces.md.
The exit code is 1 where anything differs. Data checked so: the same page, "Checked by another reader".
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow.parquet as pq

Sighting = tuple[str, float, float, float]  # device, second, north, east
Stay = tuple[str, str, float, float]  # device, access point, from, until


@dataclass(frozen=True)
class Imported:
    """What a trace file says."""

    pairs: frozenset[tuple[int, str]]
    aps: Mapping[tuple[int, str], str]
    rows: int
    recipe: Mapping[str, Any]
    offset_h: float


def imported(path: Path) -> Imported:
    """The trace of a file: tables of devices, access points, places and fixes, one below the other."""
    table = pq.read_table(path)
    columns = table.to_pydict()
    about = json.loads(table.schema.metadata[b"roambench.trace"])["provenance"]
    names: dict[str, list[str]] = defaultdict(list)
    pairs, aps = set(), {}
    for row, kind in enumerate(columns["kind"]):
        if columns["step"][row] is None:
            names[kind].append(columns["name"][row])
            continue
        pair = (columns["step"][row], columns["device"][row])
        pairs.add(pair)
        if "ap" in columns:
            aps[pair] = columns["ap"][row]
    devices, stations = names["device"], names["ap"]
    return Imported(
        frozenset((step, devices[device]) for step, device in pairs),
        {(step, devices[device]): stations[ap] for (step, device), ap in aps.items()},
        about["reading"]["rows"],
        about["recipe"],
        about.get("utc_offset_h") or 0.0,
    )


def lines(paths: list[Path]) -> Iterator[tuple[Path, str]]:
    """All lines with something in them, file by file."""
    for path in paths:
        files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
        for file in files:
            for line in file.read_text().splitlines():
                if line.strip():
                    yield file, line


def second(text: str) -> float:
    """Of an ISO 8601 time or a number."""
    if re.match(r"\d{4}-", text):
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return float(text)


def sightings(form: str, paths: list[Path], columns: Mapping[str, str], offset_h: float) -> list[Sighting]:
    """Of formats that say who was seen where and when; rows that are none are passed over."""
    found: list[Sighting] = []
    if form == "sumo-fcd":
        for path in paths:
            for step in ElementTree.parse(path).getroot().iter("timestep"):
                at_s = float(step.get("time", "nan"))
                found += [(v.get("id", ""), at_s, float(v.get("y", "")), float(v.get("x", ""))) for v in step]
        return found
    header: list[str] = []
    for _, line in lines(paths):
        cells = next(csv.reader([line]))
        try:
            if form == "tdrive":
                device, time, east, north = cells
                at_s = second(time) - offset_h * 3600
            elif not header:
                header = cells
                continue
            else:
                device, time, north, east = (
                    cells[header.index(columns[name])] for name in ("device", "time", "lat", "lon")
                )
                at_s = second(time)
            found.append((device, at_s, float(north), float(east)))
        except ValueError:
            print(f"passed over: {line[:60]}")
    return found


def movement(paths: list[Path]) -> list[Sighting]:
    """Of SUMO's ns-2 pair: every node at the beginning of every second in which it is active."""
    text = "\n".join(line for _, line in lines(paths))
    times = {
        word: {node: float(at) for at, node in re.findall(rf'ns_ at (\S+) "\$g\((\d+)\) {word}"', text)}
        for word in ("start", "stop")
    }
    return [
        (node, float(at), 0.0, 0.0)
        for node, start in times["start"].items()
        for at in range(int(-(-start // 1)), int(times["stop"][node]) + 1)
        if at < times["stop"][node]
    ]


def stays(form: str, paths: list[Path], aps: frozenset[str], columns: Mapping[str, str]) -> list[Stay]:
    """Of formats that say who was at which access point from when to when."""
    found: set[Stay] = set()
    if form == "intervals":
        for file, line in lines(paths):
            cells = line.split()
            device, ap, start, end = (
                file.name.partition(".")[0] if columns[name] == "@file" else cells[int(columns[name])]
                for name in ("device", "ap", "start", "end")
            )
            if float(end) >= float(start):
                found.add((device, ap, float(start), float(end)))
            else:
                print(f"passed over: {line[:60]}")
        return sorted(found)
    since: dict[tuple[str, str], float] = {}
    last_s = 0.0
    for _, line in lines(paths):
        at, word, one, two, what = line.split()[:5]
        last_s = max(last_s, float(at))
        if word != "CONN" or (one in aps) == (two in aps):
            continue
        pair = (two, one) if one in aps else (one, two)
        if what == "up":
            since.setdefault(pair, float(at))
        elif pair in since:
            found.add((*pair, since.pop(pair), float(at)))
    return sorted([*found, *((*pair, start, max(start, last_s)) for pair, start in since.items())])


def expected(
    found: list[Sighting] | list[Stay], recipe: Mapping[str, Any]
) -> dict[tuple[int, str], dict[str, float]]:
    """(step, device) in the window and the box; for stays the seconds at each access point."""
    start_s, step_s, steps, box = (recipe[name] for name in ("start_utc_s", "step_s", "steps", "box"))
    there: dict[tuple[int, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for device, first, second_, third in found:
        if isinstance(first, str):
            begin, end = float(second_) - start_s, float(third) - start_s
            step = int(begin // step_s)
            while True:
                seconds = min(end, (step + 1) * step_s) - max(begin, step * step_s)
                if 0 <= step < steps:
                    there[step, device][first] += seconds
                step += 1
                if step * step_s >= end:
                    break
        elif in_box(float(second_), float(third), box):
            step = int((first - start_s) // step_s)
            if 0 <= step < steps:
                there[step, device]
    return there


def in_box(north: float, east: float, box: Mapping[str, Any]) -> bool:
    """Whether a position in degrees lies in the box that --box-corners gave; planes are not cut."""
    if "corners" not in box:
        return True
    south, west, top, right = box["corners"]
    return bool(south <= north <= top and west <= east <= right)


def aggregated(pairs: frozenset[tuple[int, str]], steps: int) -> list[float]:
    """Models per step of HierFAVG and of MOHAWK (k2 = 2, 5, 10) if nobody fails: docs/algorithms.md."""
    present: list[set[str]] = [set() for _ in range(steps)]
    for step, device in pairs:
        present[step].add(device)
    totals = [sum(len(now & then) for now, then in pairwise(present))]
    for k2 in (2, 5, 10):
        trained: set[str] = set()
        totals.append(0)
        for step, now in enumerate(present):
            totals[-1] += len(now & trained)
            trained -= now
            if step and step % k2 == 0:
                trained.clear()
            if step < steps - 1:
                trained |= now
    return [total / max(1, steps - 1) for total in totals]


def main() -> int:
    """Compare; print both; 0 if they agree."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("trace", type=Path)
    parser.add_argument("form", metavar="format")
    parser.add_argument("sources", nargs="+", type=Path)
    parser.add_argument("--ap-hosts", default="")
    parser.add_argument("--columns", default="")
    parser.add_argument("--corners", default="", help="SOUTH,WEST,NORTH,EAST, as the import was given")
    given = parser.parse_args()
    columns = dict(part.split("=") for part in given.columns.split(",") if part)
    trace = imported(given.trace)
    recipe = dict(trace.recipe)
    if given.corners:
        recipe["box"] = {"corners": [float(part) for part in given.corners.split(",")]}
    found: list[Sighting] | list[Stay]
    if given.form in ("intervals", "one-contacts"):
        found = stays(given.form, given.sources, frozenset(given.ap_hosts.split(",")), columns)
    elif given.form == "ns2":
        found = movement(given.sources)
    else:
        found = sightings(given.form, given.sources, columns, trace.offset_h)
    there = expected(found, recipe)
    pairs, steps = frozenset(there), recipe["steps"]
    elsewhere = sum(
        trace.aps.get(pair) != min(seconds, key=lambda ap: (-seconds[ap], ap))
        for pair, seconds in there.items()
        if seconds
    )
    ours, theirs = aggregated(pairs, steps), aggregated(trace.pairs, steps)
    print(f"rows of the source: {trace.rows:,} in the trace's account; {len(found):,} read here")
    print(f"steps {steps}, devices {len({device for _, device in pairs})}")
    print(f"present (device, step): {len(trace.pairs):,} in the trace, {len(pairs):,} here")
    print(f"differing: {len(pairs ^ trace.pairs)}; at another access point: {elsewhere}")
    for name, one, two in zip(("HierFAVG", "MOHAWK 2", "MOHAWK 5", "MOHAWK 10"), theirs, ours, strict=True):
        print(f"{name} aggregated per step: {one:.3f} in the trace, {two:.3f} here")
    return int(pairs != trace.pairs or elsewhere > 0)


if __name__ == "__main__":
    sys.exit(main())
