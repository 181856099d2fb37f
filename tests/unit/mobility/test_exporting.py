"""Round trips: what a writer writes and our own reader reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from roambench.contract.errors import ConfigError, TraceError
from roambench.mobility.exporting import export_trace
from roambench.mobility.files import content_hash, read_trace, write_trace
from roambench.mobility.importing import import_trace
from roambench.mobility.presence import with_presence
from roambench.mobility.projection import PlaneBox
from roambench.mobility.recipe import Recipe
from roambench.mobility.trace import Trace
from roambench.mobility.walks import GENERATORS

THIRD = 1000.0 / 3.0  # has no short decimal form
BOX = PlaneBox(0.0, 0.0, 1000.0, 1000.0)


@pytest.fixture
def trace(make_trace) -> Trace:
    """Device 2 never comes, none is there at step 2; device 1 is away at first and at the end."""
    fixes = [(0, 0, 0.1, 0.2), (1, 0, THIRD, 0.2), (1, 1, 7.0, 8.0), (3, 0, 900.0, 0.2)]
    return make_trace(fixes, [(0.0, 0.0), (1000.0, 0.0)], devices=3, steps=5)


def read_back(reader: str, path: Path, **changes: object) -> Trace:
    recipe = Recipe(box=BOX, start_utc_s=0, steps=5, devices=None, aps=1)
    return import_trace(reader, [path], replace(recipe, **changes)).trace


def rows(trace: Trace) -> list[tuple[int, str, float, float]]:
    names = [trace.device_names[device] for device in trace.device.tolist()]
    return sorted(zip(trace.step.tolist(), names, trace.x_m.tolist(), trace.y_m.tolist(), strict=True))


def test_the_one_gets_every_node_in_every_sample(trace, tmp_path):
    done = export_trace(trace, tmp_path / "t.txt", "one")
    assert done.paths == (tmp_path / "t.txt",)
    assert done.notes[0].startswith("the format knows no absence: at 6 of 10 (device, step) pairs")
    lines = (tmp_path / "t.txt").read_text().splitlines()
    assert lines[:4] == [
        "0.0 18000.0 0.0 900.0 0.0 8.0",
        "0.0 0 0.1 0.2",
        "0.0 1 7.0 8.0",
        f"3600.0 0 {THIRD} 0.2",
    ]
    assert len(lines) == 11  # two nodes, five samples; the third never comes
    assert rows(read_back("one-movement", tmp_path / "t.txt")) == [
        (step, name[-1], x, y) for step, name, x, y in rows(with_presence(trace, "always"))
    ]


def test_the_one_without_the_absent_keeps_presence(trace, tmp_path):
    assert export_trace(trace, tmp_path / "t.txt", "one", "omit").notes == ()
    again = read_back("one-movement", tmp_path / "t.txt")
    assert rows(again) == [(step, name[-1], x, y) for step, name, x, y in rows(trace)]


def test_negative_positions_are_the_ones_to_shift(make_trace, tmp_path):
    export_trace(make_trace([(0, 0, -5.0, 2.0)], [], devices=1, steps=1), tmp_path / "t.txt", "one")
    assert (tmp_path / "t.txt").read_text() == "0.0 3600.0 -5.0 0.0 0.0 2.0\n0.0 0 -5.0 2.0\n"
    again = read_back("one-movement", tmp_path / "t.txt", steps=1)
    assert rows(again) == [(0, "0", 0.0, 2.0)]  # as the simulator itself does


def test_bonnmotion_stands_at_the_end_of_the_last_step(trace, tmp_path):
    done = export_trace(trace, tmp_path / "t.movements", "bonnmotion")
    assert done.paths == (tmp_path / "t.movements", tmp_path / "t.params")
    assert "knows no absence" in done.notes[0]
    lines = (tmp_path / "t.movements").read_text().splitlines()
    assert (
        lines[1]
        == "0.0 7.0 8.0 3600.0 7.0 8.0 7200.0 7.0 8.0 10800.0 7.0 8.0 14400.0 7.0 8.0 18000.0 7.0 8.0"
    )
    assert lines[0].endswith(" 14400.0 900.0 0.2 18000.0 900.0 0.2")
    assert len(lines) == 2
    assert (tmp_path / "t.params").read_text().split() == [
        "model=roambench",
        "x=900.0",
        "y=8.0",
        "duration=18000.0",
        "nn=2",
    ]
    assert rows(read_back("bonnmotion", tmp_path / "t.movements", steps=None)) == [
        (step, name[-1], x, y) for step, name, x, y in rows(with_presence(trace, "always"))
    ]


def test_a_table_keeps_names_presence_and_access_points(trace, tmp_path):
    named = replace(trace, device_names=("ann, the first", 'b"ob', "cat"))
    done = export_trace(named, tmp_path / "t.csv", "csv")
    assert done.paths == (tmp_path / "t.csv", tmp_path / "t-aps.csv")
    lines = (tmp_path / "t.csv").read_text().splitlines()
    assert lines[0] == "device,time,x,y,step,ap,distance_m"
    assert lines[3] == f'"b""ob",3600,7.0,8.0,1,AP0,{np.hypot(7.0, 8.0)}'
    assert lines[4] == f'"ann, the first",10800,900.0,0.2,3,AP1,{np.hypot(100.0, 0.2)}'
    assert (tmp_path / "t-aps.csv").read_text() == "ap,x,y\nAP0,0.0,0.0\nAP1,1000.0,0.0\n"
    recipe = Recipe(box=BOX, start_utc_s=0, steps=5, devices=None)
    again = import_trace("csv", [tmp_path / "t.csv"], recipe, aps_file=tmp_path / "t-aps.csv").trace
    assert rows(again) == rows(named)
    assert (again.ap_names, again.ap_x_m.tolist()) == (named.ap_names, [0.0, 1000.0])


def test_a_table_of_a_calendars_trace_keeps_its_times(trace, tmp_path):
    recorded = replace(trace, start_utc_s=1_334_620_800, ap=np.array([1, 1, 0, 0], np.int32))
    export_trace(recorded, tmp_path / "t.csv", "csv")
    lines = (tmp_path / "t.csv").read_text().splitlines()
    assert lines[1].split(",")[:2] == ["dev-0", "1334620800"]
    assert lines[4].split(",")[-2:] == ["AP0", str(np.hypot(900.0, 0.2))]  # the recorded one, not the nearest
    assert rows(read_back("csv", tmp_path / "t.csv", start_utc_s=1_334_620_800)) == rows(recorded)


def test_parquet_written_again_has_the_same_bytes(tmp_path):
    trace = GENERATORS.load("city").generate(7, {"devices": 40, "steps": 48})
    write_trace(trace, tmp_path / "one.parquet")
    export_trace(read_trace(tmp_path / "one.parquet"), tmp_path / "two.parquet", "parquet")
    assert (tmp_path / "two.parquet").read_bytes() == (tmp_path / "one.parquet").read_bytes()


def test_a_generated_city_comes_back_through_the_one_and_a_table(tmp_path):
    trace = GENERATORS.load("city").generate(7, {"devices": 40, "steps": 48})
    assert len(trace.step) > 40
    box = PlaneBox(0.0, 0.0, 20_000.0, 20_000.0)
    for form, reader in (("one", "one-movement"), ("csv", "csv")):
        export_trace(trace, tmp_path / "t.txt", form, "omit")
        start_s = trace.start_utc_s if form == "csv" else 0
        again = read_back(reader, tmp_path / "t.txt", box=box, steps=48, start_utc_s=start_s)
        assert again.x_m.tolist() != []
        assert sorted(again.x_m.tolist()) == sorted(trace.x_m.tolist())
        assert again.step.tolist() == trace.step.tolist()
    assert content_hash(again) != content_hash(trace)  # a table has no candidate places


@pytest.mark.parametrize(
    ("form", "absent", "message"),
    [
        ("gpx", None, "--format gpx: expected one of one, bonnmotion, csv, parquet"),
        ("bonnmotion", "omit", "bonnmotion cannot leave out who is away"),
        ("csv", "stand", "the format keeps who is away"),
        ("parquet", "stand", "the format keeps who is away"),
    ],
)
def test_what_a_format_cannot_do_is_refused(trace, tmp_path, form, absent, message):
    with pytest.raises(ConfigError, match=message):
        export_trace(trace, tmp_path / "t", form, absent)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_leaves_nothing_behind(trace, make_trace, tmp_path):
    empty = make_trace([], [(0.0, 0.0)], devices=1, steps=2)
    for form in ("one", "bonnmotion"):
        with pytest.raises(TraceError, match="no device is ever present"):
            export_trace(empty, tmp_path / "t", form)
    with pytest.raises(TraceError, match="has a line break"):
        export_trace(replace(trace, device_names=("a\nb", "c", "d")), tmp_path / "t", "csv")
    with pytest.raises(TraceError, match="cannot write the trace"):
        export_trace(trace, tmp_path / "none" / "t", "one")
    assert list(tmp_path.iterdir()) == []
