"""How long recorded movement takes to become a trace, and in how much memory, on files made here.

Run: python benchmarks/trace_import.py [--full] [--fixes N] [--cabs N] [--sumo-mb N] [--rows N]
Goals: 11 million GPS fixes in 537 cabspotting files in < 90 s and < 1 GB; 1 GB of SUMO FCD in a memory that
does not grow with the file. Tables (CSV) of stays and of fixes are told besides. Without --full a tenth of it
is read, and what that makes of the whole is marked as extrapolated.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from setting.figures import keep

from roambench.contract.draws import generator

GOAL_FIXES, GOAL_CABS, GOAL_S, GOAL_MB = 11_000_000, 537, 90.0, 1000.0
GOAL_SUMO_MB = 1000
SPAN_S = 24 * 86_400
VEHICLES = 400
TABLE_ROWS = 1_000_000


@dataclass(frozen=True, slots=True)
class Reached:
    seconds: float
    cpu_s: float
    peak_mb: float
    rows: int
    kept: int


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true", help="the sizes of the goals")
    parser.add_argument("--fixes", type=int, help="GPS fixes in all")
    parser.add_argument("--cabs", type=int, default=GOAL_CABS, help="files they lie in")
    parser.add_argument("--sumo-mb", type=int, help="size of the SUMO file")
    parser.add_argument("--rows", type=int, help="rows of each table")
    parser.add_argument("--only", choices=("cabspotting", "sumo-fcd", "tables"), help="one part of it")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(*given.child)
        return
    share = 1.0 if given.full else 0.1
    fixes = given.fixes or round(GOAL_FIXES * share)
    sumo_mb = given.sumo_mb or round(GOAL_SUMO_MB * share)
    with tempfile.TemporaryDirectory() as folder:
        if given.only in (None, "cabspotting"):
            cabspotting(Path(folder) / "cabs", given.cabs, fixes)
    with tempfile.TemporaryDirectory() as folder:
        if given.only in (None, "sumo-fcd"):
            sumo_fcd(Path(folder) / "fcd.xml", sumo_mb)
    with tempfile.TemporaryDirectory() as folder:
        if given.only in (None, "tables"):
            tables(Path(folder) / "table.csv", given.rows or round(TABLE_ROWS * share))


def cabspotting(cabs: Path, files: int, fixes: int) -> None:
    size_mb = write_cabs(cabs, files, fixes)
    print(f"cabspotting: {fixes:,} fixes in {files} files, {size_mb:,.0f} MB", flush=True)
    for box in ("37.7700,-122.4200,17500", ""):
        how = "its box" if box else "no box: read twice"
        told_gps(measured("cabspotting", str(cabs), box), fixes, how)


def sumo_fcd(file: Path, size_mb: int) -> None:
    for part_mb in (max(1, size_mb // 10), size_mb):
        write_fcd(file, part_mb)
        reached = measured("sumo-fcd", str(file), "")
        print(
            f"sumo-fcd: {part_mb:,} MB, {reached.rows:,} rows: {reached.seconds:.1f} s "
            f"({reached.cpu_s:.1f} of CPU), {part_mb / reached.seconds:.0f} MB/s, "
            f"peak {reached.peak_mb:,.0f} MB, {reached.kept:,} kept",
            flush=True,
        )


def tables(file: Path, rows: int) -> None:
    for reader in ("intervals", "csv"):
        write_table(file, rows, stays=reader == "intervals")
        reached = measured(reader, str(file), "" if reader == "intervals" else "37.7700,-122.4200,17500")
        print(
            f"{reader}: {reached.rows:,} rows, {file.stat().st_size / 1e6:,.0f} MB: {reached.seconds:.1f} s "
            f"({reached.cpu_s:.1f} of CPU), peak {reached.peak_mb:,.0f} MB, {reached.kept:,} fixes kept",
            flush=True,
        )


def told_gps(reached: Reached, fixes: int, how: str) -> None:
    line = (
        f"  {how}: {reached.seconds:.1f} s ({reached.cpu_s:.1f} of CPU), "
        f"{reached.rows / reached.seconds / 1e6:.2f} million rows/s, peak {reached.peak_mb:,.0f} MB, "
        f"{reached.kept:,} fixes kept"
    )
    if fixes == GOAL_FIXES and how == "its box":
        keep("trace_import 11 M fixes", reached.seconds, limit=f"CPU {reached.cpu_s:.0f}")
        keep("trace_import: memory", reached.peak_mb)
    if fixes != GOAL_FIXES:
        whole_s = reached.seconds * GOAL_FIXES / fixes
        print(f"{line}; extrapolated to {GOAL_FIXES:,}: {whole_s:.0f} s, memory not extrapolated", flush=True)
    else:
        print(
            f"{line}; of the goals {reached.seconds / GOAL_S:.2f} (time) "
            f"and {reached.peak_mb / GOAL_MB:.2f} (memory)"
        )


def measured(reader: str, path: str, box: str) -> Reached:
    """The import in a process of its own, whose peak memory is that of this import alone."""
    done = subprocess.run(
        [sys.executable, __file__, "--child", reader, path, *([box] if box else [])],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return Reached(**json.loads(done.stdout))


def child(reader: str, path: str, box: str = "") -> None:
    from roambench.mobility.importing import import_trace
    from roambench.mobility.projection import Box
    from roambench.mobility.recipe import Recipe

    started = time.perf_counter()
    area = Box.square(*(float(part) for part in box.split(","))) if box else None
    recipe = Recipe(
        box=area, steps=576 if reader == "cabspotting" else None, step_s=3600, aps=100, devices=None
    )
    found = import_trace(reader, [Path(path)], recipe)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        json.dumps(
            {
                "seconds": time.perf_counter() - started,
                "cpu_s": time.process_time(),
                "peak_mb": peak_mb,
                "rows": found.rows,
                "kept": len(found.trace.step),
            }
        )
    )


def write_cabs(folder: Path, cabs: int, fixes: int) -> float:
    """Random walks around San Francisco, newest first; returns their size in MB."""
    folder.mkdir()
    size = 0
    for cab in range(cabs):
        count = fixes // cabs + (cab < fixes % cabs)
        draw = generator(1, "cab", cab)
        phase = draw.uniform(0.0, 6.0, 2) + np.cumsum(draw.normal(0.0, 0.03, (count, 2)), axis=0)
        at = np.array((37.77, -122.42)) + 0.07 * np.sin(phase)
        times = 1_211_000_000 + np.sort(draw.integers(0, SPAN_S, count))[::-1]
        occupied = draw.integers(0, 2, count)
        rows = zip(at[:, 0].tolist(), at[:, 1].tolist(), occupied.tolist(), times.tolist(), strict=True)
        text = "".join(f"{lat:.5f} {lon:.5f} {taken} {t_s}\n" for lat, lon, taken, t_s in rows)
        size += (folder / f"new_cab{cab:04d}.txt").write_text(text)
    return size / 1e6


def write_table(path: Path, rows: int, *, stays: bool) -> None:
    """Stays of 5,000 devices at 500 access points, or as many fixes, in no order; times of ISO 8601."""
    draw = generator(3, "table")
    device, ap = draw.integers(0, 5000, rows), draw.integers(0, 500, rows)
    start_s = 1_438_300_800 + draw.integers(0, 30 * 86_400, rows)
    begins, ends = (
        np.char.replace(times.astype("datetime64[s]").astype(str), "T", " ").tolist()
        for times in (start_s, start_s + draw.integers(60, 7200, rows))
    )
    with path.open("w") as file:
        if stays:
            file.write("device,ap,start,end\n")
            found = zip(device.tolist(), ap.tolist(), begins, ends, strict=True)
            file.writelines(f"{who:08X},{at}-1,{begin},{end}\n" for who, at, begin, end in found)
            return
        file.write("user,time,lat,lon,venue_id\n")
        at_degrees = np.array((37.77, -122.42)) + draw.uniform(-0.07, 0.07, (500, 2))
        places = at_degrees.round(6).tolist()
        file.writelines(
            f"{who},{begin},{places[at][0]},{places[at][1]},v{at}\n"
            for who, at, begin in zip(device.tolist(), ap.tolist(), begins, strict=True)
        )


def write_fcd(path: Path, size_mb: int) -> None:
    """Timesteps of one second, `VEHICLES` vehicles in each, until the file is that large."""
    draw = generator(2, "fcd")
    lines = [
        f'        <vehicle id="v{number}" x="{x:.2f}" y="{y:.2f}" angle="270.00" type="DEFAULT_VEHTYPE" '
        f'speed="13.89" pos="5.10" lane="F1E1_0" slope="0.00"/>\n'
        for number, (x, y) in enumerate(draw.uniform(0.0, 3500.0, (VEHICLES, 2)))
    ]
    body = "".join(lines)
    written, t_s = 0, 0
    with path.open("w") as file:
        file.write('<?xml version="1.0" encoding="UTF-8"?>\n<fcd-export>\n')
        while written < size_mb * 1_000_000:
            written += file.write(f'    <timestep time="{t_s}.00">\n{body}    </timestep>\n')
            t_s += 1
        file.write("</fcd-export>\n")


if __name__ == "__main__":
    main()
