"""Tables that no format fits: the columns that are proposed, and that an import takes them."""

from __future__ import annotations

import shlex

import pytest

from roambench.cli.main import main
from roambench.mobility.files import read_trace
from roambench.mobility.readers.detecting import UnknownFormat, detect

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
