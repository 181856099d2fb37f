"""Tables as people publish them: their times, separators, sums, addresses and lists of access points."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from roambench.cli.main import main
from roambench.contract.errors import ConfigError, TraceError
from roambench.mobility.files import read_trace
from roambench.mobility.readers.documents import Head
from roambench.mobility.readers.fixes import ReaderOptions
from roambench.mobility.readers.formats import checkins
from roambench.mobility.readers.proposing import propose
from roambench.mobility.readers.spellings import one_spelling
from roambench.mobility.readers.stations import read_stations
from roambench.mobility.readers.tables import separator_of
from roambench.mobility.readers.times import pattern_of
from roambench.mobility.readers.zones import REPEATED, SKIPPED, WITHOUT_ZONE, time_form


def imported(*words: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["trace", "import", *map(str, words)])
    return int(ended.value.code or 0)


@pytest.mark.parametrize(
    ("text", "form", "zone", "second"),
    [
        ("01.05.2023 08:00", "%d.%m.%Y %H:%M", "", 1682928000),
        ("01.05.2023 08:00", "%d.%m.%Y %H:%M", "Europe/Berlin", 1682920800),
        ("05/01/23 08:00 PM", "%m/%d/%y %I:%M %p", "", 1682971200),
        ("2023-05-01 08:00+0200", "%Y-%m-%d %H:%M%z", "Asia/Tokyo", 1682920800),
        ("2023-05-01 08:00", "auto", "+02:00", 1682920800),
        ("2023-05-01T08:00Z", "auto", "Europe/Berlin", 1682928000),
        ("1682928000", "auto", "Europe/Berlin", 1682928000),
    ],
)
def test_a_time_is_read_as_the_user_says(text: str, form: str, zone: str, second: int) -> None:
    read = time_form(form, zone, Counter())
    assert read.one(text) == second
    assert np.array_equal(read.at_once(pa.array([text] * 40)), [second] * 40)


@pytest.mark.parametrize(
    ("text", "form", "second"),
    [
        ("2024-07-04", "auto", 1720044000),
        ("2024-07-04", "iso", 1720044000),
        ("20240704T060000", "iso", 1720065600),
        ("20240704T060000-04", "iso", 1720087200),
        ("20240704", "iso", 1720044000),
    ],
)
def test_a_day_alone_and_the_basic_form_are_of_the_zone(text: str, form: str, second: int) -> None:
    doubts: Counter[str] = Counter()
    assert time_form(form, "Europe/Berlin", doubts).one(text) == second
    assert doubts[WITHOUT_ZONE] == (not text.endswith("-04") or text.count("-") > 1)


def test_hours_that_a_clock_shows_twice_or_never_are_counted() -> None:
    told: Counter[str] = Counter()
    read = time_form("auto", "Europe/Copenhagen", told)
    texts = ["2018-10-28 01:30", "2018-10-28 02:30", "2018-10-28 03:30", "2018-03-25 02:30"]
    assert [read.one(text) for text in texts] == list(read.at_once(pa.array(texts)))
    assert told == {WITHOUT_ZONE: 8, REPEATED: 2, SKIPPED: 2}


@pytest.mark.parametrize(
    ("form", "zone"), [("%H:%M", ""), ("%d.%m.", ""), ("%Q%Y%m%d", ""), ("auto", "Mars/Base"), ("us", "")]
)
def test_what_is_no_form_or_zone_is_a_mistake(form: str, zone: str) -> None:
    with pytest.raises(ConfigError, match=r"^time_(format|zone): .* such as"):
        time_form(form, zone, Counter())


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("31.12.2023 23:59:58", ("%d.%m.%Y %H:%M:%S", True)),
        ("12/31/23, 11:59 PM", ("%m/%d/%y, %I:%M %p", True)),
        ("01-02-2023", ("%d-%m-%Y", False)),
        ("2023-01-02", None),  # as ISO 8601 has it
        ("2023/05/08 07:00:05PM", ("%Y/%m/%d %I:%M:%S%p", True)),
        ("08-Apr-2023 06:13 AM", ("%d-%b-%Y %I:%M %p", True)),
        ("8 April 2023, 06:13", ("%d %B %Y, %H:%M", True)),
        ("20230508061305", ("%Y%m%d%H%M%S", True)),
        ("08-Foo-2023", None),
        ("2023-2024-2025", None),
        ("00000000000000", None),
    ],
)
def test_the_pattern_of_a_date_in_another_order_is_named(text: str, pattern: tuple[str, bool] | None) -> None:
    assert pattern_of(text) == pattern


@pytest.mark.parametrize(
    ("rows", "separator"),
    [
        (["0;48,1;11,5", "1;48,2;11,6"], ";"),
        (["name;time, local;x", "a;2020-01-01;1,5"], ";"),
        (["device,time,note", "a,2020-01-01 10:00,b;c"], ","),
        (["a\tb,c\td", "1\t2\t3"], "\t"),
        (["2020-01-01 10:00 48.1", "2020-01-01 10:01 48.2"], " "),
        (['"x;y",2', '"z",3'], ","),
    ],
)
def test_a_table_is_parted_by_what_divides_all_its_lines_alike(rows: list[str], separator: str) -> None:
    assert separator_of(rows[0], rows[1:]) == separator


def test_a_time_may_be_a_sum_of_days_and_slots_and_positions_of_cells() -> None:
    table = b"uid,d,t,x,y\n1,0,3,10,20\n1,1,47,11,20\n"
    columns = {"device": "uid", "time": "d*86400+t*1800", "x": "x*500", "y": "y*500"}
    fixes = checkins.read(io.BytesIO(table), ReaderOptions(columns=columns))
    assert list(fixes.t_utc_s) == [5400, 86400 + 84600]
    assert list(fixes.longitude) == [5000.0, 5500.0]
    with pytest.raises(ConfigError, match="expected a sum only of time, lat, lon, x, y"):
        checkins.read(io.BytesIO(table), ReaderOptions(columns=columns | {"device": "uid*2"}))


def test_a_named_column_counts_before_one_with_a_usual_name() -> None:
    table = b"device,time,lat,lon,east,north\na,2020-01-01,48,11,100,200\n"
    fixes = checkins.read(io.BytesIO(table), ReaderOptions(columns={"x": "east", "y": "north"}))
    assert (fixes.plane, list(fixes.longitude), list(fixes.latitude)) == (True, [100.0], [200.0])
    both = {"x": "east", "y": "north", "lat": "lat", "lon": "lon"}
    with pytest.raises(ConfigError, match="lat and lon, or x and y, not both"):
        checkins.read(io.BytesIO(table), ReaderOptions(columns=both))


@pytest.mark.parametrize("option", ["--columns", "--time-zone", "--time-format"])
def test_a_format_with_columns_of_its_own_refuses_options_of_tables(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert imported("sumo-fcd", tmp_path, "-o", tmp_path / "t.parquet", option, "a=b") == 2
    assert f"{option}: sumo-fcd has its own columns and times" in capsys.readouterr().err


def test_a_column_that_is_not_there_is_no_usual_one_instead(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.csv").write_text("device,ap,start,end\na,b,2020-01-01T00:00Z,2020-01-01T01:00Z\n")
    assert imported("intervals", tmp_path / "s.csv", "-o", tmp_path / "t", "--columns", "start=begun") == 2
    assert "no column 'begun' for start" in capsys.readouterr().err


def test_an_address_is_one_in_every_spelling_and_with_its_networks_name() -> None:
    same = [
        "AA-BB-CC-DD-EE-0F",
        "aa:bb:cc:dd:ee:0f",
        "aabb.ccdd.ee0f",
        "AABBCCDDEE0F",
        "AA-BB-CC-DD-EE-0F:a b",
    ]
    others = ["ap-1", "123456789012", "aa:bb:cc:dd:ee", "AA-BB:CC-DD-EE-0F", ""]
    assert one_spelling(pa.array(same + others)).to_pylist() == ["aa:bb:cc:dd:ee:0f"] * 5 + others


def head(*rows: str) -> Head:
    return Head("t.csv", rows)


def test_a_device_is_a_column_whose_entries_come_again() -> None:
    rows = [f"{at},2020-01-01 10:{at % 60:02d},48.1{at},11.5{at}" for at in range(10, 40)]
    found = propose(head("id,when,latitude,longitude", *rows))
    assert found is not None
    assert found.columns["device"] == "..."
    rows = [f"{at},{at % 3},2020-01-01 10:{at % 60:02d},48.1{at},11.5{at}" for at in range(10, 40)]
    found = propose(head("id,tag,when,latitude,longitude", *rows))
    assert found is not None
    assert found.columns["device"] == "tag"


def test_degrees_that_are_called_x_and_y_are_no_metres() -> None:
    rows = [f"{at % 3},2020-01-01 10:00,11.5{1000 + at},48.1{1000 + at}" for at in range(20)]
    shown = head("device,time,x,y", *rows)
    assert checkins.recognises(shown) is None
    found = propose(shown)
    assert found is not None
    assert (found.columns["lat"], found.columns["lon"]) == ("y", "x")
    metres = [f"{at % 3},2020-01-01 10:00,{at * 100}.25,{at * 90}.5" for at in range(20)]
    assert checkins.recognises(head("device,time,x,y", *metres)) is not None


def test_days_and_slots_are_proposed_as_their_sum() -> None:
    rows = [f"{at % 3},{at // 7},{at % 48},{at},{at}" for at in range(40)]
    found = propose(head("uid,d,t,x,y", *rows))
    assert found is not None
    assert found.columns["time"] == "d*86400+t*1800"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (
            "WigleWifi-1.4,appRelease=2.26\nMAC,SSID,CurrentLatitude,CurrentLongitude\n"
            "AA:00:00:00:00:01,n,48.0,11.0\naa:00:00:00:00:01,n,48.2,11.2\n",
            ("aa:00:00:00:00:01",),
        ),
        ("radio,mcc,net,area,cell,unit,lon,lat\nLTE,262,2,801,9,0,11.1,48.1\n", ("LTE 262 2 801 9",)),
        # One country's file has no header.
        ("GSM,232,1,101,7,0,11.1,48.1,1000,3,1,1459813819,1459813819,0\n", ("GSM 232 1 101 7",)),
        ("UMTS,232,1,101,7,,11,48.1,1000,3,1,1459813819,1459813819,\n", ("UMTS 232 1 101 7",)),
    ],
)
def test_lists_of_wigle_and_opencellid_are_access_points(
    text: str, names: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "aps.csv"
    file.write_text(text)
    stations, _ = read_stations(file, plane=False)
    assert (stations.ids, [round(at, 6) for at in stations.latitude]) == (names, [48.1])
    assert imported("--detect", file) == 2
    assert "It lists access points, no movement: give it as --ap-source" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("taxis", "said"),
    [
        ("device,time,lat,lon\na,2024-03-04T05:00Z,48,11\nb,2024-03-04T05:00Z,48.01,11\n", "looks like csv"),
        ("Taxi,Zeit,Nord,Ost\na,2024-03-04 05:00,48.10,11.20\na,2024-03-04 06:00,48.11,11.21\n", "--columns"),
    ],
)
def test_a_list_of_access_points_among_files_of_movement_is_proposed_as_such(
    taxis: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "taxis.csv").write_text(taxis)
    (tmp_path / "aps.csv").write_text("Name;lat;lon\nnorth;48,02;11\nsouth;48;11\n")
    assert imported("--detect", tmp_path / "aps.csv", tmp_path / "taxis.csv") == 0
    printed = capsys.readouterr()
    assert f"looks like a list of access points, no movement: {tmp_path}/aps.csv" in printed.err
    assert said in printed.err + printed.out
    if "looks like csv" in said:
        out = tmp_path / "t.parquet"
        assert (
            imported("--detect", tmp_path / "aps.csv", tmp_path / "taxis.csv", "-o", out, "--steps", "1") == 0
        )
        assert read_trace(out).ap_names == ("north", "south")
    else:
        assert printed.out.splitlines()[0].endswith(f"--ap-source {tmp_path}/aps.csv")
        assert printed.out.splitlines()[0].count("aps.csv") == 1
    (tmp_path / "more.csv").write_text("ap,lat,lon\neast,48,12\n")
    assert imported("--detect", *(tmp_path / f"{name}.csv" for name in ("aps", "taxis", "more"))) == 2
    assert "more.csv: lists access points, as" in capsys.readouterr().err


def test_a_day_alone_is_one_of_the_zone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s.csv").write_text("device,ap,start,end\na,x,2024-07-04,2024-07-05\n")
    words = ("intervals", tmp_path / "s.csv", "-o", tmp_path / "t.parquet", "--time-zone", "Europe/Berlin")
    assert imported(*words, "--from", "2024-07-04", "--steps", "48") == 0
    assert read_trace(tmp_path / "t.parquet").step.tolist() == [*range(24)]
    assert "times: 2 without a zone, taken as Europe/Berlin" in capsys.readouterr().err


def test_a_row_with_more_cells_than_the_header_is_malformed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, words = tmp_path / "a.csv", ("-o", tmp_path / "t.parquet", "--steps", "1")
    file.write_text('device,time,lat,lon\na,0,52,5,13,4\nb,60,52.5,13.4,,\nc,70,52.5,13.4, ,""\n')
    assert imported("csv", file, *words) == 0
    assert f"{file}:2: 6 columns, the header has 4" in capsys.readouterr().err
    assert read_trace(tmp_path / "t.parquet").device_names == ("b", "c")
    file.write_text("device,time,lat,lon\na,0,52,5,13,4\nb,60,52,5,13,4\n")
    assert imported("--detect", file) == 2
    assert "2 of 2 rows looked at cannot be read, the first: a.csv:2: 6 columns" in capsys.readouterr().err
    file.write_text("device time lat lon note\na 0 52.5 13.4 at the corner\n")
    assert imported("csv", file, *words) == 0


@pytest.mark.parametrize("reader", ["csv", "intervals", "one-path"])
def test_the_first_step_begins_where_it_is_asked_to(tmp_path: Path, reader: str) -> None:
    file, out = tmp_path / "a.txt", tmp_path / "t.parquet"
    file.write_text(
        {
            "csv": "device,time,x,y\nd,600,10,0\nd,2400,40,0\nd,6000,70,0\n",
            "intervals": "device,ap,start,end\nd,10,0,1800\nd,40,1800,4500\nd,70,4500,9000\n",
            "one-path": "0 0 9000 0 150 0 0\n0 0,0,0 9000,150,0\n",
        }[reader]
    )
    words = (reader, file, "-o", out, "--from", "1970-01-01T00:30Z", "--steps", "2", "--aps", "1")
    assert imported(*words) == 0
    trace = read_trace(out)
    assert (trace.start_utc_s, trace.step.tolist()) == (1800, [0, 1])
    if reader == "intervals":
        assert trace.ap is not None
        assert [trace.ap_names[ap] for ap in trace.ap] == ["40", "70"]
    else:
        assert np.diff(trace.x_m).tolist() == pytest.approx([30.0 if reader == "csv" else 60.0])


def test_a_day_of_a_zone_is_a_step_from_its_midnight(tmp_path: Path) -> None:
    file, out = tmp_path / "a.csv", tmp_path / "t.parquet"
    file.write_text("device,time,lat,lon\na,2024-01-01T04:00Z,40,-74\na,2024-01-02T04:00Z,40,-74\n")
    words = ("--step-s", "86400", "--from", "2024-01-01", "--time-zone", "America/New_York", "--steps", "1")
    assert imported("csv", file, "-o", out, *words) == 0
    trace = read_trace(out)
    assert (trace.start_utc_s, len(trace.step)) == (1_704_085_200, 1)


def test_the_first_step_is_a_time_of_the_zone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "a.csv", tmp_path / "t.parquet"
    file.write_text("device,time,lat,lon\na,2018-07-28 02:30,55,11\n")
    words = ("csv", file, "-o", out, "--steps", "1", "--time-zone")
    for begin, zone in (("2018-07-28T02:00", "Europe/Berlin"), ("2018-07-28T00:00Z", "+02:00")):
        assert imported(*words, zone, "--from", begin) == 0
        assert read_trace(out).start_utc_s == 1_532_736_000
        assert len(read_trace(out).step) == 1
    assert imported(*words, "Europe/Nowhere", "--from", "2018-07-28") == 2
    assert capsys.readouterr().err.count("--time-zone: 'Europe/Nowhere', expected a zone") == 1


def test_a_list_of_access_points_has_a_column_map_and_names_a_few_of_its_wrong_rows(tmp_path: Path) -> None:
    file = tmp_path / "aps.csv"
    file.write_text("tower;north;east\n" + "".join(f"{at};x;1\n" for at in range(40)) + "a;48,5;11,5\n")
    columns = {"ap": "tower", "lat": "north", "lon": "east"}
    with pytest.raises(TraceError) as refused:
        read_stations(file, plane=False, columns=columns)
    assert str(refused.value).splitlines()[5:] == [f"{file}: and 35 more rows"]
    file.write_text("tower;north;east\na;48,5;11,5\n")
    assert read_stations(file, plane=False, columns=columns)[0].ids == ("a",)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "aps.csv:1: expected a CSV of access points (ap, lat, lon); it is empty"),
        (
            '{"type":"FeatureCollection"}\n',
            "aps.csv:1: expected a CSV of access points (ap, lat, lon); it begins w",
        ),
        (
            "\x89PNG\r\n\x1a\n",
            "aps.csv:1: expected a CSV of access points (ap, lat, lon); it begins with ?PNG",
        ),
        (
            "name;leveys\na;48\n",
            "aps.csv:1: no column lat, lon: the first line has name, leveys; name them with",
        ),
        ("ap,lat,lon\na,48\u00b0N,11\n", "aps.csv:2: lat '48\u00b0N' is not a number"),
        (
            "ap,lat,lon\na,48,11\na,48,11\n",
            "aps.csv:3: access point 'a' is there already: expected each once",
        ),
        (
            "ap,lat,lon\na,9,11\nb,38,11\n",
            "none of its 2 access points lies in the box around 48.0000, 11.0000; the nearest, b, is 1,",
        ),
        ("ap,lat,lon\na,11,48\n", "with their two columns exchanged 1 do (--ap-columns)"),
    ],
)
def test_what_is_no_list_of_access_points_here_is_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, sentence: str
) -> None:
    (tmp_path / "c.csv").write_text("device,time,lat,lon\na,2020-01-01,48,11\n")
    (tmp_path / "aps.csv").write_text(text, encoding="utf-8")
    words = ("csv", tmp_path / "c.csv", "-o", tmp_path / "t.parquet", "--ap-source", tmp_path / "aps.csv")
    assert imported(*words) == 2
    assert sentence in capsys.readouterr().err


def test_access_points_outside_the_box_are_counted_and_may_be_points(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "c.csv").write_text("device,time,lat,lon\na,2020-01-01,48,11\n")
    (tmp_path / "aps.csv").write_text("ap;geom\na;POINT(11 48)\nb;POINT(20 48)\n")
    words = ("csv", tmp_path / "c.csv", "-o", tmp_path / "t.parquet", "--ap-source", tmp_path / "aps.csv")
    assert imported(*words, "--ap-columns", "ap=ap,lat=geom[1],lon=geom[0]") == 0
    assert "access points: 1 of 2 lie outside the box and are left out" in capsys.readouterr().err
    assert read_trace(tmp_path / "t.parquet").ap_names == ("a",)
    assert imported(*words[:4], "--aps", "aps.csv") == 2
    assert "a file of them is --ap-source aps.csv" in " ".join(
        capsys.readouterr().err.replace("\u2502", " ").split()
    )


def test_the_zone_of_times_that_name_none_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "a.csv", tmp_path / "t.parquet"
    file.write_text("device,time,lat,lon\na,28.10.2018 02:30,55,11\n")
    pattern = ("--time-format", "%d.%m.%Y %H:%M")
    assert imported("csv", file, "-o", out, *pattern) == 0
    assert "times: 1 without a zone, taken as UTC (--time-zone gives another)" in capsys.readouterr().err
    assert imported("csv", file, "-o", out, *pattern, "--time-zone", "Europe/Berlin") == 0
    told = capsys.readouterr().err
    assert "times: 1 lie in an hour that clocks of Europe/Berlin show twice" in told
    assert read_trace(out).device_names == ("a",)
