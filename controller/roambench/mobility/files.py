"""Trace files: one Parquet file holds the fixes, the access points, the places and where it all came from.

Rows are of four kinds, in this order: `device` (name), `ap` (name, x_m, y_m), `place` (x_m, y_m) and `fix`
(step, device, x_m, y_m); the other columns of a row are null, so that any Parquet tool can read the file.
A trace that recorded access points has one column more, `ap`: for each fix the index of an `ap` row.
The schema's metadata hold steps, clock, provenance and the content hash. Equal traces give equal bytes.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from roambench.contract.errors import ConfigError, TraceError
from roambench.contract.json_values import from_json
from roambench.contract.whole_file import replaced
from roambench.mobility.trace import MAX_FIXES, MAX_STEPS, Trace

_KEY: Final = b"roambench.trace"


def _field(name: str, kind: pa.DataType, unit: str, description: str) -> pa.Field:
    return pa.field(name, kind, metadata={"unit": unit, "description": description})


TRACE_SCHEMA: Final = pa.schema(
    [
        _field(
            "kind", pa.dictionary(pa.int8(), pa.string()), "", "what the row is: device, ap, place or fix"
        ),
        _field("name", pa.string(), "", "of a device or access point"),
        _field("step", pa.int32(), "", "of a fix, from 0"),
        _field("device", pa.int32(), "", "of a fix: number of its device row, from 0"),
        _field("x_m", pa.float64(), "m", "to the east"),
        _field("y_m", pa.float64(), "m", "to the north"),
    ]
)
_AP: Final = _field("ap", pa.int32(), "", "of a fix: number of the recorded access point's row, from 0")
_KINDS: Final = ("device", "ap", "place", "fix")
_MAX_ROWS: Final = MAX_FIXES + 10_000_000  # devices, access points and places, too


_MAGIC: Final = b"PAR1"


@dataclass(frozen=True, slots=True)
class _Header:
    """Facts of a trace that the columns of its file do not hold."""

    format: Literal[1]
    steps: int
    step_s: float
    start_utc_s: int
    content_hash: str
    provenance: dict[str, Any]


def content_hash(trace: Trace) -> str:
    """BLAKE2b-256 over the trace's columns in canonical little-endian form, as 64 hex digits.

    It names the movement, not the file it is kept in: provenance is not part of it.
    """
    digest = hashlib.blake2b(digest_size=32)
    head = [trace.steps, float(trace.step_s), trace.start_utc_s, trace.device_names, trace.ap_names]
    _feed(digest, json.dumps(head, ensure_ascii=True, separators=(",", ":")).encode())
    for column in (trace.step, trace.device):
        _feed(digest, np.ascontiguousarray(column, "<i4").tobytes())
    if trace.ap is not None:
        _feed(digest, b"ap" + np.ascontiguousarray(trace.ap, "<i4").tobytes())
    for points in (trace.x_m, trace.y_m, trace.ap_x_m, trace.ap_y_m, trace.place_x_m, trace.place_y_m):
        _feed(digest, (np.ascontiguousarray(points, "<f8") + 0.0).tobytes())  # + 0.0: -0.0 equals 0.0
    return digest.hexdigest()


def write_trace(trace: Trace, path: Path) -> str:
    """Write `trace` to `path` (replaced as a whole, never half-written); returns its content hash."""
    found = content_hash(trace)
    header = _Header(1, trace.steps, float(trace.step_s), trace.start_utc_s, found, dict(trace.provenance))
    try:
        text = json.dumps(asdict(header), sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise TraceError(f"{path}: the trace's provenance cannot be written as JSON: {error}") from None
    table = _table(trace).replace_schema_metadata({_KEY: text.encode()})
    try:
        with replaced(path) as draft, draft.open("wb") as file:  # Arrow takes only names in UTF-8
            pq.write_table(table, file, compression="zstd")
    except OSError as error:
        raise TraceError(f"{path}: cannot write the trace: {error.strerror or error}") from None
    return found


def read_trace(path: Path) -> Trace:
    """Read what `write_trace` wrote. Raises TraceError, naming the file, for anything else."""
    try:
        with path.open("rb") as source:
            about = pq.read_metadata(source)
            schema = about.schema.to_arrow_schema()
            header = _header(path, schema.metadata or {})
            missing = [name for name in TRACE_SCHEMA.names if name not in schema.names]
            if missing:
                raise TraceError(f"{path}: column {missing[0]} is missing")
            if about.num_rows > _MAX_ROWS:  # of equal rows a million takes 20 kB
                raise TraceError(f"{path}: {about.num_rows:,} rows, expected at most {_MAX_ROWS:,}")
            wanted = [name for name in schema.names if name in (*TRACE_SCHEMA.names, _AP.name)]
            table = pq.ParquetFile(source, read_dictionary=["kind", "name"]).read(wanted)
    except TraceError:
        raise
    except (OSError, pa.ArrowException, ValueError) as error:
        if isinstance(error, FileNotFoundError):
            raise TraceError(f"{path}: no such trace file") from None
        if not _is_parquet(path):
            raise TraceError(
                f"{path}: expected a trace (Parquet), which movement in another format becomes by: "
                f"roambench trace import --detect {shlex.quote(str(path))} -o t.parquet"
            ) from None
        raise TraceError(f"{path}: not a readable Parquet file: {_first_line(error)}") from None
    try:
        trace = _trace(table, header)
    except TraceError as error:
        raise TraceError(f"{path}: {error}") from None
    except (pa.ArrowException, ValueError, TypeError, KeyError, OverflowError) as error:
        raise TraceError(f"{path}: not a trace: {_first_line(error)}") from None
    found = content_hash(trace)
    if found != header.content_hash:
        raise TraceError(f"{path}: content hash is {found[:12]}, the file says {header.content_hash[:12]}")
    return trace


def _table(trace: Trace) -> pa.Table:
    counts = (len(trace.device_names), len(trace.ap_names), len(trace.place_x_m), len(trace.step))
    devices, aps, places, fixes = counts
    kind = pa.DictionaryArray.from_arrays(
        pa.array(np.repeat(np.arange(4, dtype=np.int8), counts)), pa.array(_KINDS)
    )
    names = pa.concat_arrays(
        [pa.array([*trace.device_names, *trace.ap_names], pa.string()), pa.nulls(places + fixes, pa.string())]
    )
    none = pa.nulls(devices + aps + places, pa.int32())
    nowhere = pa.nulls(devices, pa.float64())
    columns = [
        kind,
        names,
        pa.concat_arrays([none, pa.array(trace.step, pa.int32())]),
        pa.concat_arrays([none, pa.array(trace.device, pa.int32())]),
        pa.concat_arrays([nowhere, pa.array(np.concatenate((trace.ap_x_m, trace.place_x_m, trace.x_m)))]),
        pa.concat_arrays([nowhere, pa.array(np.concatenate((trace.ap_y_m, trace.place_y_m, trace.y_m)))]),
    ]
    if trace.ap is None:
        return pa.Table.from_arrays(columns, schema=TRACE_SCHEMA)
    columns.append(pa.concat_arrays([none, pa.array(trace.ap, pa.int32())]))
    return pa.Table.from_arrays(columns, schema=TRACE_SCHEMA.append(_AP))


def _is_parquet(path: Path) -> bool:
    """Tell if it begins as one; what cannot be read may be one."""
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return True


def _header(path: Path, metadata: Mapping[bytes, bytes]) -> _Header:
    text = metadata.get(_KEY)
    if text is None:
        raise TraceError(f"{path}: a Parquet file, but not a roambench trace (make one: roambench trace)")
    try:
        header = from_json(_Header, text, f"{path}: trace header")
    except ConfigError as error:
        raise TraceError("; ".join(error.problems)) from None
    if not 1 <= header.steps <= MAX_STEPS:
        raise TraceError(f"{path}: trace header: steps is {header.steps}, expected 1 to {MAX_STEPS}")
    if not 0.0 < header.step_s <= 1e9 or abs(header.start_utc_s) > 1 << 40:
        raise TraceError(f"{path}: trace header: step_s or start_utc_s is no time")
    return header


def _trace(table: pa.Table, header: _Header) -> Trace:
    kinds = table["kind"]
    unknown = {str(kind) for kind in pc.unique(kinds).to_pylist()} - set(_KINDS)
    if unknown:
        raise TraceError(f"rows of unknown kind {sorted(unknown)[0][:80]!r}")
    part = {kind: _rows(table, pc.equal(kinds, kind)) for kind in _KINDS}
    return Trace(
        steps=header.steps,
        step_s=header.step_s,
        start_utc_s=header.start_utc_s,
        device_names=_names(part["device"]),
        ap_names=_names(part["ap"]),
        step=_column(part["fix"], "step", pa.int32()),
        device=_column(part["fix"], "device", pa.int32()),
        x_m=_column(part["fix"], "x_m", pa.float64()),
        y_m=_column(part["fix"], "y_m", pa.float64()),
        ap_x_m=_column(part["ap"], "x_m", pa.float64()),
        ap_y_m=_column(part["ap"], "y_m", pa.float64()),
        place_x_m=_column(part["place"], "x_m", pa.float64()),
        place_y_m=_column(part["place"], "y_m", pa.float64()),
        provenance=header.provenance,
        ap=_column(part["fix"], "ap", pa.int32()) if "ap" in table.column_names else None,
    )


def _rows(table: pa.Table, wanted: pa.ChunkedArray) -> pa.Table:
    """The rows that are wanted: no copy where they stand together, as `write_trace` has them."""
    count = pc.sum(wanted).as_py() or 0
    first = max(0, pc.index(wanted, True).as_py())
    together = pc.sum(wanted.slice(first, count)).as_py() or 0
    return table.slice(first, count) if together == count else table.filter(wanted)


def _column(table: pa.Table, name: str, kind: pa.DataType) -> npt.NDArray[Any]:
    column = table[name]
    if column.null_count:
        raise TraceError(f"column {name} has empty cells where it needs values")
    values: npt.NDArray[Any] = column.cast(kind).combine_chunks().to_numpy(zero_copy_only=False)
    return values


def _names(table: pa.Table) -> tuple[str, ...]:
    if table["name"].null_count:
        raise TraceError("a device or access point has no name")
    return tuple(table["name"].cast(pa.string()).to_pylist())


def _feed(digest: hashlib.blake2b, data: bytes) -> None:
    digest.update(len(data).to_bytes(8, "little"))
    digest.update(data)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
