from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from roambench.contract.draws import generator
from roambench.contract.errors import TraceError
from roambench.mobility.files import TRACE_SCHEMA, content_hash, read_trace, write_trace

APS = [(0.0, 0.0), (7.5, 1.25)]
FIXES = [(0, 0, 1.0, 2.0), (0, 1, 3.0, 4.0), (2, 1, 5.0, 6.0)]


@pytest.fixture
def trace(make_trace):
    made = make_trace(FIXES, APS, devices=3, steps=4, places=[(9.0, 8.0)], start_utc_s=1_334_620_800)
    return replace(made, provenance={"seed": 4, "recipe": {"aps": 2}}, device_names=("a", "Zoë", "c\n"))


def rewritten(path, change):
    """The trace file at `path` with its header changed."""
    table = pq.read_table(path)
    header = json.loads(table.schema.metadata[b"roambench.trace"])
    change(header)
    pq.write_table(table.replace_schema_metadata({b"roambench.trace": json.dumps(header)}), path)


def test_a_trace_comes_back_as_it_was_written(trace, tmp_path):
    written = write_trace(trace, tmp_path / "t.parquet")
    back = read_trace(tmp_path / "t.parquet")
    assert written == content_hash(trace) == content_hash(back)
    for name in ("steps", "step_s", "start_utc_s", "device_names", "ap_names", "provenance"):
        assert getattr(back, name) == getattr(trace, name)
    for name in ("step", "device", "x_m", "y_m", "ap_x_m", "ap_y_m", "place_x_m", "place_y_m"):
        assert np.array_equal(getattr(back, name), getattr(trace, name))
        assert getattr(back, name).dtype == getattr(trace, name).dtype


def test_writing_again_what_was_read_gives_the_same_bytes(trace, tmp_path):
    write_trace(trace, tmp_path / "one.parquet")
    write_trace(read_trace(tmp_path / "one.parquet"), tmp_path / "two.parquet")
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "two.parquet").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.parquet", "two.parquet"]


def test_a_trace_without_fixes_or_places_survives_too(make_trace, tmp_path):
    write_trace(make_trace([], APS, devices=1, steps=2), tmp_path / "t.parquet")
    back = read_trace(tmp_path / "t.parquet")
    assert (len(back.step), len(back.place_x_m), back.ap_names) == (0, 0, ("AP0", "AP1"))


def test_the_hash_names_the_movement_and_nothing_else(trace):
    same = content_hash(replace(trace, provenance={}))
    assert same == content_hash(trace)
    changes = [
        {"steps": 5},
        {"start_utc_s": 0},
        {"x_m": trace.x_m + 1e-9},
        {"ap_names": ("AP0", "AP2")},
        {"place_x_m": trace.place_x_m + 1},
        {"device": np.array([0, 2, 1], np.int32)},
    ]
    assert len({same, *(content_hash(replace(trace, **change)) for change in changes)}) == 7


def test_other_tools_find_the_fixes_by_their_kind(trace, tmp_path):
    write_trace(trace, tmp_path / "t.parquet")
    rows = pq.read_table(tmp_path / "t.parquet", filters=[("kind", "=", "fix")]).to_pylist()
    assert rows[2] == {"kind": "fix", "name": None, "step": 2, "device": 1, "x_m": 5.0, "y_m": 6.0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda header: header.update(format=2), "format: expected 1, got 2"),
        (lambda header: header.update(steps="4"), "steps: expected int, got '4'"),
        (lambda header: header.update(steps=10**15), "steps is 1000000000000000"),
        (lambda header: header.update(step_s=float("inf")), "step_s: expected float, got inf"),
        (lambda header: header.update(steps=2), r"steps must lie in 0\.\.1"),
        (lambda header: header.update(content_hash="0" * 64), "content hash is"),
        (lambda header: header.pop("provenance"), "provenance: is missing"),
    ],
)
def test_a_header_that_does_not_fit_is_refused_by_name(trace, tmp_path, change, message):
    path = tmp_path / "t.parquet"
    write_trace(trace, path)
    rewritten(path, change)
    with pytest.raises(TraceError, match=rf"t\.parquet: .*{message}"):
        read_trace(path)


def test_files_that_are_no_traces_say_what_is_wrong(tmp_path, trace):
    with pytest.raises(TraceError, match="no such trace file"):
        read_trace(tmp_path / "absent.parquet")
    (tmp_path / "text").write_text("step,device\n0,1\n")
    with pytest.raises(TraceError, match=r"expected a trace|not a readable Parquet file"):
        read_trace(tmp_path / "text")
    pq.write_table(pa.table({"step": [1]}), tmp_path / "other.parquet")
    with pytest.raises(TraceError, match="not a roambench trace"):
        read_trace(tmp_path / "other.parquet")
    write_trace(trace, tmp_path / "t.parquet")
    pq.write_table(pq.read_table(tmp_path / "t.parquet").drop_columns(["x_m"]), tmp_path / "t.parquet")
    with pytest.raises(TraceError, match="column x_m is missing"):
        read_trace(tmp_path / "t.parquet")
    with pytest.raises(TraceError, match="cannot write"):
        write_trace(trace, tmp_path / "no such folder" / "t.parquet")


@pytest.mark.lengthy
def test_a_file_of_more_rows_than_a_trace_has_is_refused_before_they_fill_the_memory(tmp_path):
    """62 million equal rows are a file of 1.4 MB; their columns would be 2 GB."""
    header = {"format": 1, "steps": 3, "step_s": 60.0, "start_utc_s": 0, "content_hash": "", "provenance": {}}
    schema = TRACE_SCHEMA.with_metadata({b"roambench.trace": json.dumps(header).encode()})
    count = 2_000_000
    kinds = pa.DictionaryArray.from_arrays(
        pa.array(np.full(count, 3, np.int8)), pa.array(["a", "b", "c", "fix"])
    )
    zeros = (pa.array(np.zeros(count, kind)) for kind in (np.int32, np.int32, np.float64, np.float64))
    rows = pa.Table.from_arrays([kinds, pa.nulls(count, pa.string()), *zeros], schema=schema)
    path = tmp_path / "t.parquet"
    with pq.ParquetWriter(path, schema, compression="zstd") as file:
        for _ in range(31):
            file.write_table(rows)
    assert path.stat().st_size < 2_000_000
    reading = (
        "import re, sys; from pathlib import Path; from roambench.mobility.files import read_trace\n"
        "try: read_trace(Path(sys.argv[1]))\n"
        "except Exception as error: print(type(error).__name__, error)\n"
        # Not ru_maxrss: that begins with the parent's.
        "print(re.search('VmHWM:\\\\s*([0-9]+) kB', Path('/proc/self/status').read_text())[1])"
    )
    ran = subprocess.run([sys.executable, "-c", reading, path], capture_output=True, text=True, check=True)
    answer, peak_kib = ran.stdout.splitlines()
    assert answer == f"TraceError {path}: 62,000,000 rows, expected at most 60,000,000"
    assert int(peak_kib) < 600_000


def test_a_trace_of_more_fixes_than_it_may_have_is_refused(trace):
    many = np.broadcast_to(np.zeros(1, np.int32), 50_000_001)
    with pytest.raises(
        TraceError, match=r"50,000,001 fixes, expected at most 50,000,000: take fewer devices"
    ):
        replace(trace, step=many, device=many, x_m=many, y_m=many)


def test_rows_in_any_order_of_kinds_are_read(trace, tmp_path):
    path = tmp_path / "t.parquet"
    write_trace(trace, path)
    table = pq.read_table(path)
    kinds = table["kind"].to_pylist()
    assert kinds[:3] == ["device"] * 3
    order = [0, *range(len(kinds) - 1, len(kinds) - 4, -1), *range(1, len(kinds) - 3)]
    order[1:4] = reversed(order[1:4])  # the fixes in their own order between the devices
    pq.write_table(table.take(order), path)
    assert content_hash(read_trace(path)) == content_hash(trace)


def test_damaged_bytes_raise_a_trace_error_or_read_the_same_trace(trace, tmp_path):
    path = tmp_path / "t.parquet"
    write_trace(trace, path)
    sound, draw, refused = path.read_bytes(), generator(1, "damage"), 0
    for _ in range(300):
        damaged = bytearray(sound)
        for at in draw.integers(0, len(sound), 3):
            damaged[at] = draw.integers(0, 256)
        path.write_bytes(damaged[: int(draw.integers(1, 2 * len(sound)))])
        try:
            assert content_hash(read_trace(path)) == content_hash(trace)
        except TraceError:
            refused += 1
    assert refused > 200
