"""Tables of stays that are parsed in blocks give what reading them line by line gives, odd rows included."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roambench.mobility.readers import READERS, gps_blocks, intervals
from roambench.mobility.readers.fixes import Fixes
from roambench.mobility.readers.moment_columns import moments
from roambench.mobility.readers.opening import SourceOptions, read_files
from roambench.mobility.readers.times import TIME_FORMATS

STAYS = [
    *("a,x,100,200", "b,y,150,4000", "a,y,200,3700", "a,x,3700,3700", "c,x,-5,5", "b,y,150,4000"),
    *("a,x,200,100", "a,x,0,99999999", "a,,1,2", ",x,1,2", "a,x,1", "a,x,1,2,3", " a ,x, 1,2", "a,z,1,2"),
    *("", "   ", 'a,"x",1,2', "a,x,1e2,200", "a,x,1_0,20", "a,x,100.9,200.1", "\u00e9,x,1,2", "a,x,1,2\r"),
    *(
        "a,x,2012-04-03 18:00:00,2012-04-03T19:00Z",
        "A" * 257 + ",x,1,2",
        "a,x,inf,2",
        "a,x,4e11,4e11",
        "off,x,1,2",
    ),
]
EVENTS = [
    *("100,a,x", "200,a,y", "150,b,x", "3000,a,OFF", "3000,a,x", "50,c,y", "100,a,x", "9000,c,off"),
    *("", "  ", "x,a,x", "100,,x", "100,a,", "100,a", "100,a,x,more", "60000000,b,y", "100,a, x", "100,a,z"),
]


def columns_of(fixes: Fixes) -> tuple[object, ...]:
    arrays = (fixes.device, fixes.place, fixes.t_utc_s, fixes.latitude, fixes.longitude)
    counts = (fixes.rows, fixes.used, fixes.malformed, fixes.duplicates, dict(fixes.left_out))
    told = [str(row) for row in fixes.malformed_rows]
    return (fixes.device_ids, fixes.place_ids, *(column.tolist() for column in arrays), *counts, told)


@pytest.mark.parametrize("positioned", [True, False])
@pytest.mark.parametrize(
    ("header", "samples"),
    [("device,ap,start,end", STAYS), ("time,device,ap", EVENTS)],
    ids=["stays", "events"],
)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_stays_in_blocks_are_those_read_line_by_line(
    header, samples, positioned, data, tmp_path_factory
) -> None:
    clean = data.draw(st.integers(0, len(samples)))  # of the samples the first are sound
    rows = data.draw(st.lists(st.sampled_from(samples[: max(4, clean)]), min_size=1, max_size=40))
    folder = tmp_path_factory.mktemp("stays")
    (folder / "stays.csv").write_bytes("\n".join(["", header, *rows]).encode())
    if positioned:
        (folder / "aps.csv").write_text("ap,x,y\nx,1,2\ny,3,4\n")
    options = SourceOptions(utc_offset_h=data.draw(st.sampled_from([None, 1.5])))
    found = []
    for block, odd, parse in ((1 << 20, 1 << 10, True), (120, 30, True), (1 << 20, 1 << 20, False)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(intervals, "_BLOCK_BYTES", block)
            patch.setattr(gps_blocks, "ODD_BYTES", odd)
            if not parse:
                patch.setattr(intervals, "cells_at_once", lambda *_: None)
            fixes, _ = read_files(READERS.load("intervals"), [folder], options, step_s=600)
            found.append(columns_of(fixes))
    assert found[0] == found[1] == found[2]


def test_a_clean_table_is_not_read_line_by_line(tmp_path, monkeypatch) -> None:
    path = tmp_path / "stays.csv"
    path.write_text("device,ap,start,end\n" + "".join(f"d{n},x,{n},{n + 5}\n" for n in range(50)))
    monkeypatch.setattr(intervals._Table, "_line_by_line", lambda *_: pytest.fail("line by line"))
    fixes, _ = read_files(READERS.load("intervals"), [path], step_s=600)
    assert (fixes.used, fixes.malformed) == (50, 0)


TIMES = [
    *("2012-04-03T18:00Z", "2012-04-03 18:00", "2012-11-09 22:01:31+00:00", "2012-11-09 22:01:31.739-05:30"),
    *("2012-11-09 22:01:31.999999", "2012-02-29 00:00:00", "2012-02-30 00:00:00", "2012-11-09 22:01:60"),
    *("2012-11-09 24:00:00", "2012-11-09 7", "2012-11-09 23", "2012-11-09 24", "2012-11-09T07", "2012-11-09"),
    *("0000-01-01 00:00:00", "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "1969-12-31 23:59:59.500"),
    *(
        "0001-01-01 00:00:00+01:00",
        "2012-11-09 22:01:31+24:00",
        "2012-11-09 22:01:31.5",
        "2012-11-9 22:01:31",
    ),
    *(
        "0",
        "-1",
        "1334620800",
        "1334620800.5",
        "-0.5",
        "999999999999",
        "9999999999999",
        "12345678901234567",
        "1e3",
    ),
    *(
        "+5",
        "1_0",
        "nan",
        "inf",
        "0x10",
        "1334620800123",
        "1334620799999.9",
        "Tue Apr 03 18:00:09 +0000 2012",
    ),
    *(
        "Tue Apr 31 18:00:09 +0000 2012",
        "Tue Abr 03 18:00:09 +0000 2012",
        "Tue Apr 03 18:00:09 -0430 2012",
        "x",
    ),
]


@pytest.mark.parametrize("time_format", sorted(TIME_FORMATS))
@settings(max_examples=150, deadline=None)
@given(texts=st.lists(st.sampled_from(TIMES), min_size=1, max_size=4))
def test_times_at_once_are_those_of_each_or_none(time_format, texts) -> None:
    try:
        found = moments(pa.chunked_array([texts]), time_format).tolist()
    except pa.ArrowException:
        return
    assert found == [TIME_FORMATS[time_format](text) for text in texts]


@pytest.mark.parametrize(
    ("time_format", "text"),
    [
        ("auto", "1334620800"),
        ("auto", "2012-04-03 18:00:09"),
        ("auto", "2012-04-03T18:00Z"),
        ("auto", "2012-04-03 18:00:09.250-04:00"),
        ("auto", "Tue Apr 03 18:00:09 +0000 2012"),
        ("iso", "2020-05-01 7"),
        ("unix", "-0.5"),
        ("unix_ms", "1334620800123"),
    ],
)
def test_usual_times_are_read_at_once(time_format: str, text: str) -> None:
    assert (
        moments(pa.chunked_array([[text] * 3]), time_format).tolist() == [TIME_FORMATS[time_format](text)] * 3
    )
