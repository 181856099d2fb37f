"""Tables that no format fits: the columns that are proposed, and that an import takes them."""

from __future__ import annotations

import shlex
from datetime import datetime, timedelta

import pytest

from roambench.cli.main import main
from roambench.mobility.files import read_trace
from roambench.mobility.readers.detecting import UnknownFormat, detect, without_ap_list

POSITIONS = [("48.1372", "11.5756"), ("48.1374", "11.5758"), ("48.1380", "11.5760")]


def advice(path):
    with pytest.raises(UnknownFormat) as shown:
        detect([path])
    return shown.value.advice


@pytest.mark.parametrize(
    ("table", "columns", "notes"),
    [
        (
            "wer,wann,nord,ost\n"
            + "".join(
                f"{who},2020-05-01 1{at}:00:00,{n},{e}\n"
                for at, (who, (n, e)) in enumerate(zip("aba", POSITIONS, strict=True))
            ),
            "device=wer,time=wann,lat=nord,lon=ost",
            ["lat, lon: columns nord and ost, by their numbers; they may be the other way round", "device:"],
        ),
        (
            "".join(f"{who},2020-05-01,1{at}:00:00,116.{at}567,39.1{at}34\n" for at, who in enumerate("aab")),
            "device=0,time=1+2,lat=4,lon=3",
            ["lat, lon: columns 4 and 3, by their numbers", "device: column 0"],
        ),
        (
            "tagId;seenAt;gpsLat;gpsLng\n"
            + "".join(
                f"{who};{1588291200000 + at};{n};{e}\n"
                for at, (who, (n, e)) in enumerate(zip("abc", POSITIONS, strict=True))
            ),
            "device=tagId,time=seenAt,lat=gpsLat,lon=gpsLng",
            ["times: numbers of milliseconds since 1970"],
        ),
        (
            "LoginTime,LogoutTime,MACAddress,APName\n2020-05-01 10:00:00,2020-05-01 11:00:00,aa,x\n"
            "2020-05-01 10:00:00,2020-05-01 11:30:00,bb,x\n",
            "device=MACAddress,start=LoginTime,end=LogoutTime,ap=APName",
            [],
        ),
        (
            "a b bssid\n1588291200 anna x1\n1588291300 ben x2\n1588291400 anna x2\n",
            "device=b,time=a,ap=bssid",
            ["device: column b"],
        ),
    ],
)
def test_the_proposed_command_imports_the_table(tmp_path, capsys, table, columns, notes):
    path = tmp_path / "a table.csv"
    path.write_text(table)
    command, *shown = advice(path)
    assert columns in shlex.split(command)
    assert len(shown) == len(notes)
    assert all(line.startswith(note) for line, note in zip(shown, notes, strict=True))
    words = shlex.split(command)
    assert words[:3] == ["roambench", "trace", "import"]
    output = tmp_path / "t.parquet"
    words[words.index("t.parquet")] = str(output)
    with pytest.raises(SystemExit) as ended:
        main([*words[1:], "--aps", "1", "--steps", "48"])
    assert not ended.value.code, capsys.readouterr().err
    assert len(read_trace(output).device_names) >= 2


@pytest.mark.parametrize(
    ("header", "time", "options"),
    [
        ("bike_id,last_reported,lat,lon", "2023-05-08T06:13:0{}.123Z", ("time=last_reported", "")),
        ("asset|when|lat|lon", "08-Apr-2023 06:13:0{} AM", ("time=when", "'%d-%b-%Y %I:%M:%S %p'")),
        ("car,local_time,lat,lon", "2023/05/08 07:00:0{}PM", ("time=local_time", "'%Y/%m/%d %I:%M:%S%p'")),
        ("vehicle,stamp_time,lat,lon", "2023050806130{}", ("time=stamp_time", "%Y%m%d%H%M%S")),
        ("vehicle,ts,lat,lon", "168352638500000{}", ("time=ts*0.000001", "")),
        ("vehicle,ts,lat,lon", "45054.2590{}", ("time=ts*86400", "")),
    ],
    ids=["named like an end", "month's name and bars", "year first", "digits alone", "microseconds", "days"],
)
def test_times_of_other_systems_are_proposed_and_read(tmp_path, header, time, options):
    table = [f"v{at % 2},{time.format(at)},48.2{at},16.3{at}" for at in range(4)]
    mark = "|" if "|" in header else ","
    (tmp_path / "a.csv").write_text("\n".join([header, *(row.replace(",", mark) for row in table), ""]))
    columns, pattern = options
    command, *notes = advice(tmp_path / "a.csv")
    assert columns in command
    assert command.partition(" --time-format ")[2] == pattern
    assert not any("cannot be read" in note for note in notes)


def test_a_date_in_another_order_is_proposed_with_its_pattern(tmp_path, capsys):
    (tmp_path / "t.csv").write_text(
        "when;taxi no;x;y\n01/05/2020 10:00;t1;4.5;1.2\n01/05/2020 10:05;t2;4.5;1.2\n"
    )
    with pytest.raises(SystemExit) as ended:
        main(["trace", "import", "--detect", str(tmp_path / "t.csv")])
    assert not ended.value.code
    shown = capsys.readouterr()
    assert "--columns 'device=taxi no,time=when,x=x,y=y' --time-format '%d/%m/%Y %H:%M'" in shown.out
    assert "'01/05/2020 10:00' may be %d/%m/%Y %H:%M or begin with the month" in shown.out
    assert "t.csv: may be a table of csv: look at the columns of this command" in shown.err
    with pytest.raises(SystemExit) as ended:
        main(["trace", "import", "--detect", str(tmp_path / "t.csv"), "-o", str(tmp_path / "t.parquet")])
    assert ended.value.code == 2
    assert "look at the columns of this command, and type it" in capsys.readouterr().err
    assert not (tmp_path / "t.parquet").exists()


def test_a_table_of_our_own_names_gets_the_pattern_of_its_dates(tmp_path):
    path = tmp_path / "tags.csv"
    rows = [f"tag{hour % 2};{day:02}/09/2019 0{hour}:00;32.4;-7.2" for day in (7, 8) for hour in range(4)]
    path.write_text("\n".join(["device;time;lat;lon", *rows]))
    assert "--time-format '%d/%m/%Y %H:%M'" in advice(path)[0]
    assert [guess.reader for guess in detect([path], time_format="%d/%m/%Y %H:%M")] == ["csv"]


def test_a_table_of_our_own_names_gets_its_milliseconds(tmp_path):
    rows = [f"tag{at % 2},{1588291200000 + at},48.1{at},11.5" for at in range(4)]
    (tmp_path / "t.csv").write_text("\n".join(["device,time,lat,lon", *rows]))
    assert advice(tmp_path / "t.csv")[0].endswith("--time-format unix_ms")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "one line\n",
        "a,b\nc,d\n",
        "item,price\napple,1.25\npear,2.50\n",
        "Shall I compare thee, to a summer's day\nThou art more lovely, and more temperate\n",
        '"open,1\n"quote,2\n"of,3\n',
    ],
)
def test_what_is_no_table_of_movement_gets_no_command(tmp_path, text):
    (tmp_path / "t.txt").write_text(text)
    assert advice(tmp_path / "t.txt") == ()


def test_a_median_where_nobody_lives_gets_a_hint(tmp_path, capsys):
    rows = "".join(f"d,2020-05-01 1{at}:00:00,-73.99,40.73\n" for at in range(3))
    (tmp_path / "t.csv").write_text("device,time,lat,lon\n" + rows)
    with pytest.raises(SystemExit) as ended:
        main(["trace", "import", "csv", str(tmp_path / "t.csv"), "-o", str(tmp_path / "t"), "--aps", "1"])
    assert not ended.value.code
    assert "if latitude and longitude are swapped, name their columns" in capsys.readouterr().err


def test_of_a_table_sorted_by_device_the_device_is_at_one_place_at_a_time(tmp_path):
    """A head of forty lines shows one device, and its charge comes again as often as its number does."""
    rows = [
        f"{(at * 7 + who) % 50},{at:02d}.05.2026 1{minute // 60}:{minute % 60:02d},"
        f"{48.1 + who / 97:.4f},{11.5 + at / 89:.4f},{who}"
        for who in range(60)
        for at in range(10, 31)
        for minute in (0, 61, 122)
    ]
    (tmp_path / "t.csv").write_text("\n".join(["ladung,wann,latitude,longitude,nr", *rows]) + "\n")
    options = shlex.split(advice(tmp_path / "t.csv")[0])
    assert options[options.index("--columns") + 1] == "device=nr,time=wann,lat=latitude,lon=longitude"


def taxi_times(command, folder):
    """Import as the command says, in steps of a second: (second, device, latitude) of each fix."""
    words = shlex.split(command)
    words[words.index("t.parquet")] = str(folder / "t.parquet")
    options = ("--step-s", "1", "--aps", "1", "--from", "1372636800", "--steps", "3600", "--metric", "metres")
    with pytest.raises(SystemExit) as ended:
        main([*words[1:], *options])
    assert not ended.value.code
    trace = read_trace(folder / "t.parquet")
    box = trace.provenance["recipe"]["box"]
    north = box["latitude"] - box["height_m"] / 2 / METRES_OF_A_DEGREE + trace.y_m / METRES_OF_A_DEGREE
    names = [trace.device_names[device] for device in trace.device]
    return list(zip(trace.step.tolist(), names, [round(float(at), 4) for at in north], strict=True))


METRES_OF_A_DEGREE = 111_195.0
PORTO = """"TRIP_ID","CALL_TYPE","ORIGIN_CALL","TAXI_ID","TIMESTAMP","MISSING_DATA","POLYLINE"
"T0","B","","20000589","1372636858","False","[[-8.618643,41.141412],[-8.618499,41.141376],[-8.620326,41.14251]]"
"T1","A","2002","20000589","1372637303","False","[[-8.639847,41.159826]]"
"T2","C","","20000320","1372636951","True","[]"
"T3","C","","20000320","1372636854","False","[[-8.574678,41.151981],[-8.574705,41.151942]]"
"T4","C","","20000320","1372636900","False","[[-8.574678,"
"""


def test_taxis_of_porto_are_proposed_with_a_time_for_each_point(tmp_path, capsys):
    (tmp_path / "train.csv").write_text(PORTO)
    command, *notes = advice(tmp_path / "train.csv")
    assert "device=TAXI_ID,time=TIMESTAMP+@point*15,lat=POLYLINE[1],lon=POLYLINE[0]" in shlex.split(command)
    assert [note.partition(":")[0] for note in notes] == [
        "lat, lon",
        "time",
        "1 of 8 rows looked at cannot be read, the first",
    ]
    assert taxi_times(command, tmp_path) == [
        (54, "20000320", 41.152),
        (58, "20000589", 41.1414),
        (69, "20000320", 41.1519),
        (73, "20000589", 41.1414),
        (88, "20000589", 41.1425),
        (503, "20000589", 41.1598),
    ]
    told = capsys.readouterr().err
    assert "train.csv:6: '[[-8.574678,' is no point: expected POINT(11.58 48.14)" in told
    assert "left out: 1 of 8 rows, without a point" in told
    assert "used: 6 of 8 rows" in told


ROME = """156;2013-07-01 00:00:54.739166+00;POINT(41.8883670000000 12.48777000)
187;2013-07-01 01:00:55.148+01;POINT(41.92854333 12.4690366666667)
156;2013-07-01 01:01:09.79+01;POINT(41.88836 12.48776)
"""


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        (ROME, "device=0,time=1,lat=2[0],lon=2[1]"),
        (
            "taxi;when;geom\n"
            + ROME.replace("POINT(41.", "SRID=4326;POINT Z (12.4 41.")
            .replace(" 12.48", " 7 ")
            .replace(";SRID=4326;POINT Z", ";POINT Z")
            .replace("41.92854333 12.4690366666667", "41.92854333 7"),
            "device=taxi,time=when,lat=geom[1],lon=geom[0]",
        ),
        (
            "taxi,when,geom\n"
            + '156,2013-07-01T00:00:54Z,"{""type"":""Point"",""coordinates"":[12.4,41.888367]}"\n'
            + '187,2013-07-01T00:00:55Z,"{""type"":""Point"",""coordinates"":[12.5,41.92854333]}"\n'
            + '156,2013-07-01T00:01:09Z,"{""type"":""Point"",""coordinates"":[12.4,41.88836]}"\n',
            "device=taxi,time=when,lat=geom[1],lon=geom[0]",
        ),
        (
            "taxi,when,place\n"
            + '156,2013-07-01T00:00:54Z,"(41.888367, 12.4)"\n187,2013-07-01T00:00:55Z,"(41.92854333, 12.5)"\n'
            + '156,2013-07-01T00:01:09Z,"(41.88836, 12.4)"\n',
            "device=taxi,time=when,lat=place[0],lon=place[1]",
        ),
        (
            "taxi;start;way\n156;2013-07-01 00:00:54;LINESTRING(12.4 41.888367, 12.4 41.88836)\n"
            "187;2013-07-01 00:00:55;LINESTRING Z(12.5 41.92854333 3)\n",
            "device=taxi,time=start+@point*15,lat=way[1],lon=way[0]",
        ),
    ],
    ids=["Rome", "WKT of longitude first and heights", "GeoJSON", "a pair", "a line"],
)
def test_a_point_in_a_cell_is_read_in_its_order(tmp_path, table, columns):
    (tmp_path / "taxi.txt").write_text(table)
    command, *_ = advice(tmp_path / "taxi.txt")
    assert columns in shlex.split(command)
    assert taxi_times(command, tmp_path) == [(54, "156", 41.8884), (55, "187", 41.9285), (69, "156", 41.8884)]


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        (
            "device=TAXI_ID,lat=POLYLINE[1],lon=POLYLINE[0]",
            "give the seconds between two, --columns time=COLUMN+@point*15",
        ),
        (
            "device=TAXI_ID,lat=POLYLINE[1],lon=TRIP_ID",
            "expected two numbers of one column, such as lat=way[1],lon=way[0]",
        ),
        ("device=TAXI_ID,lat=POLYLINE[1],lon=TAXI_ID[0]", "expected two numbers of one column"),
        (
            "time=TIMESTAMP+@point*15,lat=TRIP_ID,lon=POLYLINE",
            "expected lat=COLUMN[1],lon=COLUMN[0] beside it",
        ),
        (
            "device=TAXI_ID,time=TIMESTAMP+@point*15,lat=TRIP_ID[1],lon=TRIP_ID[0]",
            "'T0' is no point: expected POINT",
        ),
    ],
)
def test_columns_of_points_that_make_no_sense_are_a_sentence(tmp_path, capsys, columns, sentence):
    (tmp_path / "train.csv").write_text(PORTO)
    with pytest.raises(SystemExit):
        main(
            [
                "trace",
                "import",
                "csv",
                str(tmp_path / "train.csv"),
                "-o",
                str(tmp_path / "t"),
                "--columns",
                columns,
            ]
        )
    told = capsys.readouterr().err
    assert sentence in told
    assert "Traceback" not in told


@pytest.mark.parametrize("header", ["vehicle_id,time,lat,lon", "bus,abfahrt,lat,lon"])
def test_clock_times_without_a_day_are_no_proposal_but_a_sentence(tmp_path, capsys, header):
    rows = [f"bus{at % 3},{(22 + at // 10) % 24:02}:{at % 10:02}:00,48.1{at:02},11.5" for at in range(40)]
    (tmp_path / "past_midnight.csv").write_text("\n".join([header, *rows]))
    with pytest.raises(SystemExit) as ended:
        main(["trace", "import", "--detect", str(tmp_path / "past_midnight.csv")])
    assert ended.value.code == 2
    shown = capsys.readouterr()
    assert "22:00:00" in shown.out + shown.err
    assert "its day" in shown.out + shown.err


def test_a_guess_alone_checks_all_options_and_prints_them(tmp_path, capsys):
    file = tmp_path / "a.csv"
    file.write_text("device,time,lat,lon\nd,0,48.1,11.5\n")
    words = ["trace", "import", "--detect", str(file)]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--top", "-1", "--box", "x", "--time-zone", "Mars", "--ap-columns", "ap=n"])
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert "--top is -1" in told
    assert "--box x: expected" in told
    assert "--time-zone: 'Mars'" in told
    with pytest.raises(SystemExit) as ended:
        main([*words, "--ap-columns", "ap=n"])
    assert (ended.value.code, "--ap-columns: expected --ap-source" in capsys.readouterr().err) == (2, True)
    with pytest.raises(SystemExit) as ended:
        main(
            [*words, "--columns", "time=time", "--top", "0", "--box", "48.1,11.5,900", "--strict", "--plane"]
        )
    assert not ended.value.code
    assert capsys.readouterr().out == (
        f"roambench trace import csv {file} -o t.parquet --columns time=time --box 48.1,11.5,900 --top 0 "
        "--plane --strict\n"
    )
    file.write_text("vehicle,ts,lat,lon\n" + "v,1683526385000000,48,11\n" * 9)
    with pytest.raises(SystemExit) as ended:
        main([*words, "--top", "0"])
    command = capsys.readouterr().out.splitlines()[0]
    assert command.startswith(f"roambench trace import csv {file} -o t.parquet --columns ")
    assert command.endswith(" --top 0")


def test_data_at_a_pole_are_said_to_need_another_box(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("device,time,lat,lon\nd,1588291200000000000,89.995,0.5\n")
    words = ["csv", str(tmp_path / "a.csv"), "-o", str(tmp_path / "t.parquet"), "--columns", "time=time*1e-9"]
    with pytest.raises(SystemExit) as ended:
        main(["trace", "import", *words])
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "roambench: box centre 89.995, 0.5: expected a latitude within 85 degrees and a longitude within "
        "180; it is the median fix: give another with --box\n"
    )


def test_a_table_that_is_recognised_gets_its_command_too(tmp_path, capsys):
    (tmp_path / "excel.csv").write_text("sep=;\ndevice;time;lat;lon\nd;2023-05-01 08:00:00;48,11;11,52\n")
    with pytest.raises(SystemExit) as ended:
        main(["trace", "import", "--detect", str(tmp_path / "excel.csv")])
    assert not ended.value.code
    assert capsys.readouterr().out == f"roambench trace import csv {tmp_path}/excel.csv -o t.parquet\n"


@pytest.mark.parametrize(
    ("header", "row", "columns"),
    [
        (
            "Gerät;Anmeldung;Abmeldung;Zugangspunkt",
            "{mac};{begin:%d.%m.%Y %H:%M:%S};{end:%d.%m.%Y %H:%M:%S};{ap}",
            "device=Gerät,start=Anmeldung,end=Abmeldung,ap=Zugangspunkt",
        ),
        (
            "Uhrzeit;Datum;Client;AP",
            "{begin:%H:%M};{begin:%d.%m.%Y};{mac};{ap}",
            "device=Client,time=Datum+Uhrzeit,ap=AP",
        ),
    ],
)
def test_a_wlan_log_of_a_german_campus_is_imported_with_its_list_of_access_points(
    tmp_path, header, row, columns
):
    begin, hour = datetime(2024, 3, 14, 8, 15), timedelta(hours=1)
    stays = [
        row.format(mac=f"79-F0-2E-8D-28-A{who}", begin=begin + at * hour, end=begin + (at + 1) * hour, ap=ap)
        for at, ap in enumerate(["Mensa", "Bibliothek", "Mensa"])
        for who in range(2)
    ]
    (tmp_path / "wlan.csv").write_bytes("\r\n".join([header, *stays, ""]).encode("latin-1"))
    places = "Zugangspunkt;Breite;Länge\nMensa;49,01;8,41\nBibliothek;49,02;8,42\n"
    (tmp_path / "orte.csv").write_bytes(places.encode("latin-1"))
    paths, ap_list = without_ap_list([tmp_path / "wlan.csv", tmp_path / "orte.csv"])
    with pytest.raises(UnknownFormat) as shown:
        detect(paths, ap_list=ap_list)
    words = shlex.split(shown.value.advice[0])
    assert columns in words
    words[words.index("t.parquet")] = str(tmp_path / "t.parquet")
    with pytest.raises(SystemExit) as ended:
        main([*words[1:], "--from", "2024-03-14T08:00", "--steps", "3"])
    assert not ended.value.code
    trace = read_trace(tmp_path / "t.parquet")
    assert trace.device_names == ("79:f0:2e:8d:28:a0", "79:f0:2e:8d:28:a1")
    assert trace.ap_names == ("Bibliothek", "Mensa")
    assert trace.ap[:2].tolist() == [1, 1]
    assert trace.ap_y_m[0] - trace.ap_y_m[1] == pytest.approx(1112, abs=2)
