"""Traces whose source recorded an access point for every fix."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from roambench.contract.errors import TraceError
from roambench.mobility.association import RecordedAp
from roambench.mobility.files import content_hash, read_trace, write_trace
from roambench.mobility.selection import busiest_devices, window, with_aps

APS = [(0.0, 0.0), (30.0, 40.0)]
FIXES = [(0, 0, 0.0, 0.0), (0, 1, 30.0, 0.0), (1, 1, 0.0, 0.0), (2, 1, 0.0, 0.0)]


@pytest.fixture
def trace(make_trace):
    plain = make_trace(FIXES, APS, devices=2, steps=3, places=[(1.0, 1.0)])
    return replace(plain, ap=np.array([1, 1, 0, 1], np.int32))


def test_recorded_aps_are_served_whatever_the_distance(trace):
    rule = RecordedAp(trace)
    placement = rule.placement(0)
    assert (placement.devices.tolist(), placement.aps.tolist()) == ([0, 1], [1, 1])
    assert placement.distances_m.tolist() == [50.0, 40.0]
    assert rule.placement(1).aps.tolist() == [0]


def test_a_trace_that_recorded_none_says_so(trace):
    with pytest.raises(TraceError, match="records no access point"):
        RecordedAp(replace(trace, ap=None)).placement(0)


@pytest.mark.parametrize(
    ("aps", "reason"),
    [([1, 1, 0], "differ in length"), ([1, 1, 0, 2], r"0\.\.1"), ([-1, 1, 0, 1], r"0\.\.1")],
)
def test_a_column_that_cannot_be_is_refused(trace, aps, reason):
    with pytest.raises(TraceError, match=reason):
        replace(trace, ap=np.array(aps, np.int32))


def test_files_keep_the_column_and_are_as_before_without_it(trace, tmp_path):
    file, again, plain = tmp_path / "t.parquet", tmp_path / "u.parquet", tmp_path / "p.parquet"
    assert write_trace(trace, file) == content_hash(trace)
    back = read_trace(file)
    assert back.ap is not None
    assert (back.ap.tolist(), back.ap.dtype) == ([1, 1, 0, 1], np.dtype(np.int32))
    write_trace(back, again)
    assert again.read_bytes() == file.read_bytes()
    write_trace(replace(trace, ap=None), plain)
    assert "ap" not in pq.read_schema(plain).names
    assert read_trace(plain).ap is None


def test_a_file_with_holes_in_the_column_is_refused(trace, tmp_path):
    file = tmp_path / "t.parquet"
    write_trace(trace, file)
    table = pq.read_table(file)
    holes = table.set_column(table.column_names.index("ap"), "ap", pa.nulls(len(table), pa.int32()))
    pq.write_table(holes, file)
    with pytest.raises(TraceError, match="column ap has empty cells"):
        read_trace(file)


def test_the_hash_tells_recorded_aps_apart(trace):
    other = replace(trace, ap=np.array([1, 1, 0, 0], np.int32))
    hashes = {content_hash(trace), content_hash(other), content_hash(replace(trace, ap=None))}
    assert len(hashes) == 3


def test_parts_of_a_trace_keep_their_fixes_aps_and_newly_drawn_aps_drop_them(trace):
    later = window(trace, 1, 2)
    assert later.ap is not None
    assert later.ap.tolist() == [0, 1]
    busiest = busiest_devices(trace, 1)
    assert busiest.ap is not None
    assert busiest.ap.tolist() == [1, 0, 1]
    assert with_aps(trace, 1, seed=1).ap is None
