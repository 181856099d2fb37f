"""The table of a sweep for people and for programs: terminal, Parquet, CSV, JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from rich.console import Console

from roambench.contract.json_values import without_nan
from roambench.report import numbers
from roambench.report.console import print_table as print_whole
from roambench.report.improvement import Improvement
from roambench.report.quantities import Quantity
from roambench.report.spread import Spread
from roambench.report.table import ReportTable
from roambench.runner.screen import say, warn
from roambench.runs.parquet import write_table
from roambench.runs.whole_file import write_whole
from roambench.study.sweep.metrics import metric_of
from roambench.study.sweep.points import Point, text
from roambench.study.sweep.results import SweepTable
from roambench.study.sweep.sweep_folder import PointEnd, SweepFolder

#: Raised when a key changes its meaning or disappears; new keys do not raise it.
SCHEMA: Final = "roambench.sweep/2"
_NONE: Final = "–"
_ARROWS: Final = {"higher": " ↑", "lower": " ↓", "": ""}


def write_results(
    folder: SweepFolder, table: SweepTable, points: Sequence[Point], outcomes: Sequence[PointEnd | None]
) -> list[Path]:
    """table.parquet, table.csv and table.json, and runs.csv, which has a row per run that finished, each
    replaced as a whole; RunError where that is refused."""
    columns = _columns(table)
    paths = [folder.path / name for name in ("table.parquet", "table.csv", "table.json", "runs.csv")]
    arrays = {name: _array(values) for name, values in columns.items()}
    about = {f"{name}_mean": _about(table, name) for name in table.metrics}
    fields = [pa.field(name, array.type, metadata=about.get(name)) for name, array in arrays.items()]
    write_table(paths[0], pa.table(arrays, schema=pa.schema(fields)))
    write_whole(paths[1], _csv(columns, zip(*columns.values(), strict=True)))
    document = without_nan(sweep_document(folder, table, points, outcomes))
    write_whole(paths[2], json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
    runs = (
        (*(value for _, value in point.row), point.seed, *(outcome.figure(name) for name in table.metrics))
        for point, outcome in zip(points, outcomes, strict=True)
        if outcome is not None and outcome.finished
    )
    write_whole(paths[3], _csv((*table.keys, "seed", *table.metrics), runs))
    return paths


def _csv(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(head)
    for row in rows:
        writer.writerow(
            ["" if cell is None else cell if isinstance(cell, float) else text(cell) for cell in row]
        )
    return lines.getvalue()


def _about(table: SweepTable, name: str) -> dict[str, str]:
    """Metadata of a column of means, in the words of `api.columns`."""
    metric, basis = _metric(name), table.basis[name]
    about = {"better": table.better[name], "unit": "" if metric.share else metric.unit, "basis": basis or ""}
    about["uncertainty"] = f"{name}_u" if basis else ""
    return {key: value for key, value in about.items() if value}


def print_table(table: SweepTable, console: Console) -> None:
    """`mean ± sd [± u] (n)`; n only where it is not the number of runs that finished, and `?` behind figures
    of runs that are not sure. The reasons are below.

    An arrow behind a metric says whether higher or lower values of it are better. Keys with one value for all
    rows and metrics without any figure are left to the files.
    """
    keys = [key for key in table.keys if key == "system" or len({repr(v) for v in _values(table, key)}) > 1]
    metrics = [name for name in table.metrics if any(row.metrics[name].n for row in table.rows)]
    rows = []
    for row in table.rows:
        values = dict(row.values)
        runs = str(row.runs) if row.finished == row.runs else f"{row.finished} of {row.runs}"
        cells = [
            part
            for name in metrics
            for part in (
                cell(name, row.metrics[name], row.finished),
                *([factor(row.beside.get(name))] if name in table.compared else ()),
            )
        ]
        cells = cells if row.sure else [f"{one} ?" if one != _NONE else one for one in cells]
        rows.append((*(_NONE if values[key] is None else text(values[key]) for key in keys), runs, *cells))
    titles = [
        part
        for name in metrics
        for part in (
            f"{_title(table, name)}{_ARROWS[table.better[name]]}",
            *(["beside"] if name in table.compared else ()),
        )
    ]
    head = (*_short(keys), "runs", *titles)
    print_whole(
        ReportTable("sweep", "", "", head, tuple(rows), numeric_from=len(keys)), console, most_rows=None
    )
    for way in sorted({table.better[name] for name in metrics} - {""}):
        say(console, f"{_ARROWS[way].strip()} {way} is better")
    if any((row.metrics[name].n or 0) > 1 for row in table.rows for name in metrics):
        say(console, "±: the standard deviation over the runs; `roambench report` has intervals of the mean")
    if table.compared:
        say(console, "beside: the factor to the sweep's `beside`, from pairs of a seed [95 % interval]")
    if any(row.metrics[name].u for row in table.rows for name in metrics):
        say(console, "[± ]: what meters, or models, may have wrong in the mean (k = 2)")
    for doubt in (doubt for row in table.rows for doubt in row.doubts):
        warn(console, f"! {doubt}")
    without = [_title(table, name) for name in table.metrics if name not in metrics]
    if without:
        say(console, f"no figures: {', '.join(without)}")


def _title(table: SweepTable, name: str) -> str:
    return _metric(name).heading(table.basis[name])


def _values(table: SweepTable, key: str) -> list[Any]:
    return [dict(row.values)[key] for row in table.rows]


def _short(keys: Sequence[str]) -> list[str]:
    """The last part of each key, where that tells it from the others."""
    ends = [key.rpartition(".")[2] for key in keys]
    return [end if ends.count(end) == 1 else key for key, end in zip(keys, ends, strict=True)]


def cell(name: str, found: Spread, finished: int) -> str:
    """91.2 ± 0.4 %; 12.0 ± 1.4 (2 of 3); 91.2 % for a single run; 120.1 ± 8.4 [± 2.3] J of energies."""
    if found.mean is None:
        return _NONE
    metric = _metric(name)
    scale, places, unit = (100.0, 1, " %") if metric.share else (1.0, metric.places, "")
    shown = f"{scale * found.mean:,.{places}f}"
    if found.sd is not None:
        shown += f" ± {scale * found.sd:,.{places}f}"
    if found.u:
        shown += f" [± {numbers.uncertainty(found.u)}]"
    return shown + unit + (f" ({found.n} of {finished})" if found.n != finished else "")


def factor(found: Improvement | None) -> str:
    """54 [48, 62] %; 54 % of a single pair."""
    if found is None or found.factor is None:
        return _NONE
    ends = found.factor_interval
    shown = f"{100.0 * found.factor:.0f}"
    if ends is not None and ends.half > 1e-9:
        shown += f" [{100.0 * ends.low:.0f}, {100.0 * ends.high:.0f}]"
    return f"{shown} %"


def _metric(name: str) -> Quantity:
    metric = metric_of(name)
    assert metric is not None, name  # the sweep file was checked
    return metric


def _columns(table: SweepTable) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {key: _values(table, key) for key in table.keys}
    columns["runs"] = [row.runs for row in table.rows]
    columns["finished"] = [row.finished for row in table.rows]
    columns["sure"] = [row.sure for row in table.rows]
    columns["doubts"] = ["; ".join(row.doubts) for row in table.rows]
    for name in table.metrics:
        parts = ("mean", "sd", "n", "u") if table.basis[name] else ("mean", "sd", "n")
        for part in parts:
            columns[f"{name}_{part}"] = [getattr(row.metrics[name], part) for row in table.rows]
        if table.basis[name]:
            columns[f"{name}_basis"] = [table.basis[name]] * len(table.rows)
        if name in table.compared:
            found = [row.beside.get(name) for row in table.rows]
            ends = [one.factor_interval if one else None for one in found]
            columns[f"{name}_factor"] = [one.factor if one else None for one in found]
            columns[f"{name}_factor_low"] = [one.low if one else None for one in ends]
            columns[f"{name}_factor_high"] = [one.high if one else None for one in ends]
            columns[f"{name}_factor_n"] = [one.pairs if one else 0 for one in found]
    return columns


def _array(values: list[Any]) -> Any:
    """Numbers stay numbers; a column of several kinds, or of lists, becomes text."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {float}:
        return pa.array(values, pa.float64())
    if kinds in ({int}, {bool}, {str}):
        return pa.array(values)
    if kinds <= {int, float}:
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    return pa.array([None if value is None else text(value) for value in values], pa.string())


def sweep_document(
    folder: SweepFolder, table: SweepTable, points: Sequence[Point], outcomes: Sequence[PointEnd | None]
) -> dict[str, Any]:
    """Table and points in plain JSON types; units are in the metrics' names."""
    return {
        "schema": SCHEMA,
        "fleet": points[0].fleet,
        "keys": list(table.keys),
        "metrics": list(table.metrics),
        "better": dict(table.better),
        "basis": dict(table.basis),
        "rows": [
            {
                "values": dict(row.values),
                "runs": row.runs,
                "finished": row.finished,
                "sure": row.sure,
                "doubts": list(row.doubts),
                "metrics": {
                    name: {"mean": found.mean, "sd": found.sd, "n": found.n, "u": found.u}
                    for name, found in row.metrics.items()
                },
                "beside": {
                    name: {
                        "factor": found.factor,
                        "interval": [ends.low, ends.high] if (ends := found.factor_interval) else None,
                        "pairs": found.pairs,
                    }
                    for name, found in row.beside.items()
                },
            }
            for row in table.rows
        ],
        "points": [
            {
                "values": dict(point.row),
                "seed": point.seed,
                "state": "open" if outcome is None else "finished" if outcome.finished else "failed",
                "reason": "" if outcome is None else outcome.reason,
                "doubts": [] if outcome is None else list(outcome.doubts),
                "figures": {} if outcome is None else dict(outcome.figures),
                "folder": folder.folder_of(point).relative_to(folder.path).as_posix(),
            }
            for point, outcome in zip(points, outcomes, strict=True)
        ],
    }
