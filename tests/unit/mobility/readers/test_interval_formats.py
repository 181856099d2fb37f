"""Stays at access points: association logs, Wi-Fi events, base stations."""

from __future__ import annotations

import sys
import zipfile
from dataclasses import replace

import pytest

from roambench.cli.main import main
from roambench.contract.draws import generator
from roambench.contract.errors import TraceError
from roambench.mobility.association import NearestAp, RecordedAp
from roambench.mobility.importing import import_trace
from roambench.mobility.readers import READERS
from roambench.mobility.readers.opening import SourceOptions, read_files
from roambench.mobility.readers.overlaps import IntervalCollector
from roambench.mobility.recipe import Recipe
from roambench.mobility.ties import NearestApDrawn

MAP = {"device": "device", "ap": "lac_ci", "start": "from", "end": "till"}
MIDNIGHT = 1_438_300_800  # 2015-07-31T00Z
JUNE_1 = 1_401_580_800  # 2014-06-01T00Z


def stays(rows):
    return [(device, t_s, place) for device, t_s, _, _, place in rows]


def test_the_access_point_of_the_longest_summed_stay_counts(read, rows, account):
    fixes = read("intervals", "intervals/stays.csv", columns=MAP)
    # hour 0: 30 min at -1, 20 min at -2; hour 1: 5 + 10 min at -2, 15 min at -1, a tie: the first id
    assert stays(rows(fixes)) == [
        ("a", MIDNIGHT, "43024-1"),
        ("a", MIDNIGHT + 3600, "43024-1"),
        ("b", MIDNIGHT + 3600, "43024-3"),  # a stay without length is a sighting
    ]
    assert account(fixes) == (8, 5, 2, 1, 0)
    assert [row.line for row in fixes.malformed_rows] == [7, 9]


def test_access_points_without_positions_stand_on_a_grid_and_the_trace_says_so(tmp_path):
    from pathlib import Path

    path = Path(__file__).parents[1] / "fixtures" / "intervals" / "stays.csv"
    recipe = Recipe(start_utc_s=MIDNIGHT, steps=3)
    trace = import_trace("intervals", [path], recipe, SourceOptions(columns=MAP)).trace
    assert trace.provenance["coordinates"] == "synthetic"
    assert trace.ap_names == ("43024-1", "43024-2", "43024-3")
    assert [trace.ap_names[ap] for ap in NearestAp(trace).aps] == ["43024-1", "43024-1", "43024-3"]
    assert NearestAp(trace).distances_m.tolist() == [0.0, 0.0, 0.0]
    assert RecordedAp(trace).aps.tolist() == NearestAp(trace).aps.tolist()


def test_stations_at_one_place_are_told_apart_by_what_was_recorded(tmp_path):
    (tmp_path / "aps.csv").write_text("ap,x,y\nhigh,5,5\nlow,5,5\n")
    (tmp_path / "stays.csv").write_text("device,ap,start,end\na,low,0,3600\na,high,3600,7200\n")
    trace = import_trace("intervals", [tmp_path], Recipe(start_utc_s=0, steps=2)).trace
    assert [trace.ap_names[ap] for ap in RecordedAp(trace).aps] == ["low", "high"]
    assert (
        NearestAp(trace).aps.tolist() == RecordedAp(trace).aps.tolist()
    )  # of equally near ones the recorded
    assert NearestApDrawn(trace, 3).aps.tolist() == RecordedAp(trace).aps.tolist()
    assert NearestAp(replace(trace, ap=None)).aps.tolist() == [0, 0]


def test_positions_beside_the_stays_are_used_and_a_stay_elsewhere_is_malformed(read, rows, account):
    fixes = read("intervals", "intervals_positioned")
    assert rows(fixes) == [("d1", 0, 400.0, 300.0, "A2"), ("d1", 3600, 200.0, 100.0, "A1")]
    assert account(fixes) == (3, 2, 1, 0, 0)
    assert (fixes.plane, fixes.synthetic, fixes.stations.ids) == (True, False, ("A1", "A2", "A3"))
    assert "access point 'A9' has no position" in str(fixes.malformed_rows[0])


def test_events_hold_until_the_next_and_off_ends_them(read, rows, account):
    fixes = read("intervals", "events.csv")
    assert stays(rows(fixes)) == [
        ("u1", 0, "LibBldg2AP1"),  # 1000 s and then 2000 s
        ("u2", 7200, "AcadBldg18AP2"),
    ]
    assert account(fixes) == (5, 3, 0, 0, 2)


def test_of_events_of_one_second_the_last_row_holds_and_the_last_of_all_ends_every_stay(tmp_path, rows):
    (tmp_path / "log.csv").write_text("time,device,ap\n100,a,x\n100,a,y\n50,b,x\n1900,c,x\n")
    fixes, _ = read_files(READERS.load("intervals"), [tmp_path / "log.csv"], step_s=600)
    # At x for no time, then at y until the last event of all, at 1900 s.
    assert {(who, at, place) for who, at, _, _, place in rows(fixes)} == {
        *(("a", at, "y") for at in (0, 600, 1200, 1800)),
        *(("b", at, "x") for at in (0, 600, 1200, 1800)),
        ("c", 1800, "x"),
    }


@pytest.mark.parametrize("name", ["telecom_new.csv", "telecom_old.csv"])
def test_both_headers_of_shanghai_telecom_are_read(name, read, rows):
    fixes = read("shanghai-telecom", name)
    station = (31.237872, 121.470259, "31.237872/121.470259")
    assert rows(fixes)[:2] == [
        ("u1", JUNE_1 + 2 * 3600, *station),  # 10:22 at UTC+8 is 02:22Z
        ("u1", JUNE_1 + 3 * 3600, *station),
    ]


def test_shanghais_bad_rows_and_far_stations_are_told(read, account):
    new, old = read("shanghai-telecom", "telecom_new.csv"), read("shanghai-telecom", "telecom_old.csv")
    assert account(new) == (4, 2, 1, 0, 1)
    assert new.left_out == {"stations outside Shanghai": 1}
    assert "telecom_new.csv:4: lat, lon is empty" in str(new.malformed_rows[0])
    assert account(old) == (4, 1, 3, 0, 0)
    assert [row.line for row in old.malformed_rows] == [3, 4, 5]


def test_a_workbook_is_read_like_its_csv(tmp_path, read, rows):
    import datetime

    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.append(["month", "date", "start time", "end time", "latitude", "longitude", "user id"])
    start = datetime.datetime(2014, 6, 1, 10, 22)
    sheet.append([201406, start, start, start.replace(hour=11, minute=9), 31.237872, 121.470259, "u1"])
    sheet.append([None] * 7)
    sheet.append([201406, start, None, None, 31.2, 121.4, "u1"])
    book.save(tmp_path / "data_6.1~6.15_.xlsx")
    fixes, _ = read_files(READERS.load("shanghai-telecom"), [tmp_path / "data_6.1~6.15_.xlsx"])
    assert rows(fixes) == rows(read("shanghai-telecom", "telecom_old.csv"))
    assert (fixes.rows, fixes.malformed, fixes.malformed_rows[0].line) == (2, 1, 4)


def test_without_openpyxl_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    (tmp_path / "a.xlsx").write_bytes(b"PK")
    with pytest.raises(TraceError, match=r"needs openpyxl: save it as CSV, or .* -m pip install 'openpyxl"):
        read_files(READERS.load("shanghai-telecom"), [tmp_path / "a.xlsx"])


def test_a_damaged_workbook_is_named(tmp_path):
    pytest.importorskip("openpyxl")
    (tmp_path / "a.xlsx").write_bytes(b"PK\x03\x04 no workbook")
    with pytest.raises(TraceError, match=r"a\.xlsx: not a readable workbook"):
        read_files(READERS.load("shanghai-telecom"), [tmp_path / "a.xlsx"])


@pytest.mark.lengthy
def test_a_workbook_whose_texts_unpack_to_more_than_any_is_refused_before_it_is_read(tmp_path):
    """A kilobyte on the disk can become a megabyte of the texts that a workbook's cells share."""
    path = tmp_path / "a.xlsx"
    texts = tmp_path / "texts"
    with texts.open("wb") as file:
        file.truncate(537_919_488)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as parts:
        parts.write(texts, "xl/sharedStrings.xml")
    with pytest.raises(TraceError, match=r"a\.xlsx: .*'xl/sharedStrings\.xml' unpacks to 537,919,488 bytes"):
        read_files(READERS.load("shanghai-telecom"), [path])


def test_stays_weighed_device_by_device_give_the_same_fixes():
    draw = generator(3, "stays")
    together, apart = IntervalCollector("f"), IntervalCollector("f", at_once=7)
    for _ in range(300):
        start_s = int(draw.integers(0, 200_000))
        device, ap = f"d{draw.integers(0, 20)}", f"a{draw.integers(0, 6)}"
        for stays in (together, apart):
            stays.add(device, ap, start_s, start_s + 9000)
    whole, parts = (stays.fixes_without_positions(3600) for stays in (together, apart))
    assert len(whole.device) > 600
    for name in ("device", "place", "t_utc_s", "latitude", "longitude"):
        assert getattr(parts, name).tolist() == getattr(whole, name).tolist()


@pytest.mark.parametrize("axes", ["lat,lon", "x,y"])
def test_positions_in_the_table_of_the_stays_are_the_access_points(tmp_path, axes):
    (tmp_path / "stays.csv").write_text(
        f"device,ap,start,end,{axes}\na,one,0,3600,1.5,2.5\na,two,3600,7200,1.51,2.51\nb,three,0,3600,,\n"
    )
    found = import_trace("intervals", [tmp_path / "stays.csv"], Recipe(start_utc_s=0, steps=2))
    assert found.trace.provenance.get("coordinates") != "synthetic"
    assert found.trace.ap_names == ("one", "two")
    assert [row.line for row in found.malformed_rows] == [4]  # an access point without a position


@pytest.mark.parametrize(("lat", "sound"), [(50.0, True), (51.0, False)])
def test_an_access_point_has_one_position(tmp_path, lat, sound):
    (tmp_path / "aps.csv").write_text(f"ap,lat,lon\nA,50,8\nA,{lat},8\n")
    (tmp_path / "log.csv").write_text("device,ap,start,end\nd,A,0,3600\n")
    files = [tmp_path / "log.csv", tmp_path / "aps.csv"]
    if sound:
        import_trace("intervals", files, Recipe(start_utc_s=0, steps=1))
        return
    with pytest.raises(TraceError, match=r"aps.csv:3: access point 'A' is there already: expected each once"):
        import_trace("intervals", files, Recipe(start_utc_s=0, steps=1))


def test_the_box_that_cuts_access_points_is_named(tmp_path, capsys):
    (tmp_path / "aps.csv").write_text("ap,lat,lon\nA,50,8\nB,51,8\n")
    (tmp_path / "log.csv").write_text("device,ap,start,end\nd,A,0,7200\nd,B,7200,10800\n")
    words = ["intervals", str(tmp_path / "log.csv"), str(tmp_path / "aps.csv")]
    with pytest.raises(SystemExit) as ended:
        main(["trace", "import", *words, "-o", str(tmp_path / "t.parquet"), "--from", "0", "--steps", "3"])
    assert ended.value.code == 0
    told = capsys.readouterr().err
    assert "box: 17,500 m around 50.0000, 8.0000, the median fix (--box gives another)" in told
    assert "access points: 1 of 2 lie outside the box and are left out" in told
