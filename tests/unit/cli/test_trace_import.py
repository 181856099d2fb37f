"""`roambench trace import`, run as a user runs it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from roambench.cli.main import main
from roambench.mobility.files import read_trace

FIXTURES = Path(__file__).resolve().parents[1] / "mobility" / "fixtures"


def roambench(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["trace", "import", *(str(argument) for argument in arguments)])
    return int(ended.value.code or 0)


def test_a_guess_alone_is_told_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert roambench("--detect", FIXTURES / "one_snapshot.txt") == 0
    told = capsys.readouterr()
    assert told.out == f"roambench trace import one-snapshot {FIXTURES}/one_snapshot.txt -o t.parquet\n"
    assert told.err == (
        f"looks like one-snapshot: {FIXTURES}/one_snapshot.txt: its first line is a time in brackets\n"
    )


def test_a_guessed_format_is_imported_where_an_output_is_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "t.parquet"
    command = ("--detect", FIXTURES / "one_snapshot.txt", "-o", output, "--step-s", "60", "--aps", "1")
    assert roambench(*command) == 0
    told = capsys.readouterr().err
    assert "3 of 10 rows are malformed and were left out; the first:" in told
    assert f"{FIXTURES}/one_snapshot.txt:6: time 'sixty' is not a number" in told
    assert "left out: 3 of 10 rows, snapshot headers" in told
    trace = read_trace(output)
    assert (trace.steps, trace.device_names) == (3, ("p0", "c1"))
    assert trace.provenance["reading"]["malformed"] == 3  # type: ignore[index]
    assert trace.provenance["coordinates"] == "metres"


def test_nothing_that_is_known_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "poem.txt").write_text("roses are red\n")
    assert roambench("--detect", tmp_path / "poem.txt") == 2
    assert "no known format; see `roambench list readers`" in capsys.readouterr().err


def test_strict_refuses_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "t.parquet"
    assert (
        roambench("one-snapshot", FIXTURES / "one_snapshot.txt", "-o", output, "--aps", "1", "--strict") == 2
    )
    assert "3 of 10 rows are malformed, and --strict refuses them" in capsys.readouterr().err
    assert not output.exists()


def test_a_plane_takes_a_box_from_its_corner_and_seconds_as_times(tmp_path: Path) -> None:
    output = tmp_path / "t.parquet"
    command = ("ns2", FIXTURES / "rwp_shifted.ns_movements", "-o", output, "--box", "10,10,500,500")
    assert roambench(*command, "--from", "30", "--steps", "3", "--step-s", "30", "--aps", "1") == 0
    trace = read_trace(output)
    assert trace.x_m.tolist() == pytest.approx([60.0, 100.0, 100.0])
    assert trace.y_m.tolist() == pytest.approx([0.0, 0.0, 10.0])


def test_a_box_of_the_other_kind_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ("ns2", FIXTURES / "rwp_shifted.ns_movements", "-o", tmp_path / "t.parquet")
    assert roambench(*command, "--box", "40.7,-74,500") == 2
    assert "which needs one of X,Y,WIDTH,HEIGHT in metres" in capsys.readouterr().err


def test_access_points_come_from_a_file(tmp_path: Path) -> None:
    output = tmp_path / "t.parquet"
    command = ("tsmc2014", FIXTURES / "tsmc2014.txt", "-o", output, "--box", "40.705,-74.01,8000")
    assert roambench(*command, "--ap-source", FIXTURES / "aps.csv", "--steps", "24") == 0
    trace = read_trace(output)
    assert trace.ap_names == ("north", "south")
    assert (trace.ap_y_m[0] - trace.ap_y_m[1]) == pytest.approx(1110.4, abs=0.5)  # 0.01 degrees at 40.7 N
    assert [source["name"] for source in trace.provenance["sources"]] == [  # type: ignore[attr-defined]
        "tsmc2014.txt",
        "aps.csv",
    ]


def test_every_place_can_be_an_access_point(tmp_path: Path) -> None:
    output = tmp_path / "t.parquet"
    command = ("rvf", FIXTURES / "rvf", "-o", output, "--steps", "24", "--ap-source", "places")
    assert roambench(*command) == 0
    assert read_trace(output).ap_names == ("v1", "v2")


def test_hosts_that_are_access_points_are_given_as_ranges(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "t.parquet"
    command = ("one-contacts", FIXTURES / "one_contacts.txt", "-o", output, "--step-s", "60")
    assert roambench(*command, "--ap-hosts", "0-1") == 0
    assert "its access points stand on a made-up grid" in capsys.readouterr().err
    trace = read_trace(output)
    assert (trace.ap_names, trace.device_names, trace.steps) == (("0", "1"), ("12", "13"), 2)


def test_all_mistakes_come_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ("csv", "--ap-hosts", "9-1", "--ap-source", tmp_path / "no.csv", "--reduce", "mean")
    command += ("--utc-offset-h", "nan", "--top", "-1")
    assert roambench(*command) == 2
    assert capsys.readouterr().err.splitlines() == [
        "roambench: PATH: missing, the files or directories to import",
        "roambench: -o: missing, the trace file to write",
        "roambench: --ap-hosts 9-1: expected a host or a range of hosts, for example 0-9",
        f"roambench: --ap-source {tmp_path}/no.csv: expected draw, places, stations or a file that exists",
        "roambench: --top is -1, expected at least 1",
        "roambench: --reduce is 'mean', expected one of first, last, mode",
        "roambench: --utc-offset-h nan: expected hours, -24 to 24",
    ]


def test_a_file_in_the_formats_place_points_to_detect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert roambench(FIXTURES / "aps.csv", "-o", tmp_path / "t.parquet") == 2
    assert "it is a file: --detect guesses its format" in capsys.readouterr().err


def test_a_simulation_of_too_many_steps_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "far.csv").write_text("device,time,x,y\nd,0,1,1\nd,90000000,1,1\n")
    command = ("csv", tmp_path / "far.csv", "-o", tmp_path / "t.parquet", "--aps", "1")
    assert roambench(*command, "--step-s", "1") == 2
    assert "it lasts 90,000,001 steps of 1 s, more than 10,000,000" in capsys.readouterr().err


def test_every_policy_of_the_recipe_is_an_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "t.parquet"
    others = [
        f"b{hour}{name},2012-04-18T{hour:02d}:05:00Z,40.736,-73.990,q\n"
        for hour in range(1, 5)
        for name in "xyz"
    ]
    (tmp_path / "c.csv").write_text(
        "device,time,lat,lon,place\n"
        "a,2012-04-17T00:10:00Z,40.735,-73.990,p\n"
        "a,2012-04-17T00:20:00Z,40.736,-73.990,q\n"
        "a,2012-04-17T00:30:00Z,40.736,-73.990,q\n"
        "a,2012-04-17T05:30:00Z,40.736,-73.990,q\n"
        "a,2012-04-17T07:30:00Z,40.736,-73.990,q\n" + "".join(others)
    )
    command = ["csv", str(tmp_path / "c.csv"), "-o", str(output), "--steps", "30", "--aps", "1", "--top", "1"]
    command += ["--from", "2012-04-17", "--reduce", "mode", "--presence", "hold:1", "--outage", "mark"]
    assert roambench(*command, "--metric", "degrees", "--ap-draw", "mohawk") == 0
    assert capsys.readouterr().err.splitlines()[-2:] == [
        "22 steps without any device of the source, in 3 runs: in 18 likely no device came; 4 look "
        "like holes in the recording, since many devices come at these hours on other days (marked)",
        "1 of 30 steps lie before the first fix of the source or after its last",
    ]
    trace = read_trace(output)
    assert trace.step.tolist() == [0, 1, 5, 6, 7, 8]
    assert len(set(trace.y_m.tolist())) == 1  # q each time
    assert trace.provenance["outages"] == [[1, 4]]
    recipe = trace.provenance["recipe"]
    assert isinstance(recipe, dict)
    found = {key: recipe[key] for key in ("reduce", "presence", "outage", "metric", "ap_draw")}
    assert list(found.values()) == ["mode", "hold:1", "mark", "degrees", "mohawk"]


def test_policies_that_do_not_exist_are_told_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("csv", FIXTURES / "tsmc2014.txt", "-o", tmp_path / "t.parquet", "--presence", "hold")
    assert roambench(*command, "--ap-draw", "pandas", "--outage", "heal") == 2
    assert capsys.readouterr().err.splitlines() == [
        "roambench: --outage is 'heal', expected one of keep, drop, mark",
        "roambench: --ap-draw is 'pandas', expected one of pcg64, pcg64_text, mohawk",
        "roambench: --presence is 'hold', expected event, hold:STEPS, interval or always, for example hold:6",
    ]


def test_a_box_may_be_given_by_its_corners(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [(30.1961, -97.8395), (30.3511, -97.6819), (30.3511, -97.8396), (30.1960, -97.7)]
    text = "".join(f"d{index},{index},{lat},{lon},p{index}\n" for index, (lat, lon) in enumerate(rows))
    (tmp_path / "c.csv").write_text("device,time,lat,lon,place\n" + text)
    command = ("csv", tmp_path / "c.csv", "-o", tmp_path / "t.parquet", "--steps", "1", "--aps", "1")
    assert roambench(*command, "--from", "0", "--box-corners", "30.1961,-97.8395,30.3511,-97.6819") == 0
    trace = read_trace(tmp_path / "t.parquet")
    assert trace.device_names == ("d0", "d1")
    assert (trace.x_m[0], trace.y_m[0]) == pytest.approx((0.0, 0.0), abs=1e-6)
    capsys.readouterr()
    assert roambench(*command, "--box-corners", "30,-97,31", "--box", "1,2,3") == 2
    assert capsys.readouterr().err == "roambench: --box-corners: not together with --box\n"
    assert roambench(*command, "--box-corners", "30,-97,31") == 2
    assert "expected SOUTH,WEST,NORTH,EAST in degrees" in capsys.readouterr().err


def counted(told: str) -> dict[str, tuple[int, int]]:
    """By reason how many of how many rows (or fixes), of the lines `left out: N of M rows, reason`."""
    found = re.findall(
        r"^left out: (\d+) of (?:the )?(\d+) (?:rows|fixes that the rows make), (.*)$", told, re.M
    )
    used = re.findall(r"^used: (\d+) of (?:the )?(\d+) ", told, re.M)
    return {
        reason: (int(count), int(of)) for count, of, reason in [*found, *((n, of, "used") for n, of in used)]
    }


def test_every_row_is_accounted_for_once_in_what_the_import_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(4)
    rows = [
        f"u{user},{1_334_620_800 + second},{40.735 + north:.6f},{-73.99 + east:.6f}"
        for user, second, north, east in zip(
            rng.zipf(1.5, 5000) % 300,
            rng.integers(-3 * 86_400, 9 * 86_400, 5000),
            rng.normal(0, 0.06, 5000),
            rng.normal(0, 0.06, 5000),
            strict=True,
        )
    ]
    rows += rows[:40]  # said twice
    rows += ["u1,noon,40.7,-74", "u2,1334620800,91,0", ",1334620800,40.7,-74"]
    (tmp_path / "c.csv").write_text("\n".join(["device,time,lat,lon", *rows]) + "\n")
    output = tmp_path / "t.parquet"
    command = ("csv", tmp_path / "c.csv", "-o", output, "--from", "2012-04-17", "--steps", "72", "--aps", "5")
    assert roambench(*command, "--top", "50", "--box", "40.735,-73.99,17500") == 0
    told = capsys.readouterr().err
    assert "3 of 5043 rows are malformed" in told
    parts = counted(told)
    assert set(parts) == {
        *("duplicates", "outside the box", "outside the window", "more fixes of a step", "used"),
        "of devices that are not among the 50 busiest",
    }
    assert {of for _, of in parts.values()} == {5043}
    assert sum(count for count, _ in parts.values()) == 5043 - 3
    assert parts["duplicates"][0] == 40
    assert parts["used"][0] == len(read_trace(output).step)


def test_of_stays_the_fixes_that_they_make_are_accounted_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        f"p{phone},a{phone % 3},2015-07-31 0{phone}:30:00,2015-07-31 0{phone + 2}:30:00" for phone in range(6)
    ]
    (tmp_path / "c.csv").write_text("\n".join(["device,ap,start,end", *rows]) + "\n")
    command = (
        "intervals",
        tmp_path / "c.csv",
        "-o",
        tmp_path / "t.parquet",
        "--utc-offset-h",
        "8",
        "--top",
        "5",
    )
    assert roambench(*command, "--from", "2015-07-30T18:00", "--steps", "6") == 0
    told = capsys.readouterr().err
    # 6 stays of 3 hours each; local midnight is 16 h UTC, and the window begins two hours later.
    assert counted(told) == {
        "outside the window": (3, 18),
        "of devices that are not among the 5 busiest": (1, 18),
        "used": (14, 18),
    }
    assert len(read_trace(tmp_path / "t.parquet").step) == 14


def test_a_window_without_a_length_ends_with_the_data_and_a_longer_one_has_no_outages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "c.csv").write_text("device,time,lat,lon\n" + "d,2012-04-17T05:10:00Z,40.7,-74\n")
    command = ("csv", tmp_path / "c.csv", "-o", tmp_path / "t.parquet", "--aps", "1")
    assert roambench(*command) == 0
    assert read_trace(tmp_path / "t.parquet").steps == 6
    capsys.readouterr()
    assert roambench(*command, "--steps", "744") == 0
    told = capsys.readouterr().err
    assert (
        told.splitlines()[-1] == "743 of 744 steps lie before the first fix of the source or after its last"
    )
    assert "holes" not in told
    assert "box: 17,500 m around 40.7000, -74.0000, the median fix (--box gives another)" in told


@pytest.mark.parametrize("steps", ["10000001", "2000000000", "99999999999999999999"])
def test_more_steps_than_a_trace_holds_are_refused_before_anything_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], steps: str
) -> None:
    command = ("csv", tmp_path / "none.csv", "-o", tmp_path / "t.parquet", "--steps", steps)
    assert roambench(*command) == 2
    assert capsys.readouterr().err == (
        f"roambench: --steps is {int(steps):,}, expected at most 10,000,000, what a trace file holds\n"
    )


def test_devices_that_never_leave_are_not_held_for_ever(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"d{device},2012-04-17T00:10:00Z,40.7,-74\n" for device in range(60))
    (tmp_path / "c.csv").write_text("device,time,lat,lon\n" + rows)
    command = ("csv", tmp_path / "c.csv", "-o", tmp_path / "t.parquet", "--aps", "1", "--step-s", "60")
    assert roambench(*command, "--steps", "1000000", "--from", "2012-04-17", "--presence", "always") == 2
    assert "devices are there in 60,000,000 steps together, more than 50,000,000" in capsys.readouterr().err


def test_an_offset_that_changes_nothing_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("tsmc2014", FIXTURES / "tsmc2014.txt", "-o", tmp_path / "t.parquet", "--utc-offset-h", "-4")
    assert roambench(*command) == 2
    assert "--utc-offset-h: times of tsmc2014 are UTC, or say their own offset" in capsys.readouterr().err


def test_statistics_set_no_utc_hour_beside_a_local_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    rows = "".join(f"d{hour % 5},2012-04-17T{hour:02d}:10:00Z,40.7,-74\n" for hour in range(24))
    (tmp_path / "c.csv").write_text("device,time,lat,lon\n" + rows)
    output = tmp_path / "t.parquet"
    assert roambench("csv", tmp_path / "c.csv", "-o", output, "--aps", "1") == 0

    def told(*options: str) -> tuple[str, list[str]]:
        capsys.readouterr()
        with pytest.raises(SystemExit):
            main(["trace", "stats", str(output), *options])
        text = capsys.readouterr().out
        row = next(line for line in text.splitlines() if "present at 8 h" in line)
        return text, re.split(r" {2,}", row.strip())

    text, row = told()
    assert "Devices present by hour of the day (UTC)" in text
    assert "give --utc-offset-h; by the sun it is about UTC-5 h there" in " ".join(text.split())
    assert row[:4] == ["present at 8 h", "41", "--", "--"]
    text, row = told("--utc-offset-h", "-4")
    assert "Devices present by hour of the day (UTC-4 h)" in text
    assert row[:4] == ["present at 8 h", "41", "1", "-98 %"]


def test_an_unusual_header_is_quoted_with_the_option_that_names_its_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "c.csv").write_text("wer,wann,leveys,pituus\nann,2012-04-17T00:10:00Z,40.7,-74\n")
    output = tmp_path / "t.parquet"
    assert roambench("csv", tmp_path / "c.csv", "-o", output) == 2
    assert capsys.readouterr().err == (
        f"roambench: {tmp_path}/c.csv:1: cannot tell which column is device, time, lat, lon: the first line "
        "has wer, wann, leveys, pituus; name them with --columns device=...,time=...,lat=...,lon=... (a+b "
        "joins two columns, numbers are positions from 0); `roambench trace import --detect FILE` proposes "
        "them\n"
    )
    assert roambench("intervals", tmp_path / "c.csv", "-o", output) == 2
    assert "the first line has wer, wann, leveys, pituus; name them with --columns device=...,ap=..." in (
        capsys.readouterr().err
    )
    assert roambench("--detect", tmp_path / "c.csv") == 2
    told = capsys.readouterr().err
    assert "no known format; see `roambench list readers`. As a table it is csv" in told
    assert "the first line has wer, wann, leveys, pituus" in told


@pytest.mark.parametrize(
    ("text", "columns", "reader"),
    [
        (
            "wer,wann,leveys,pituus\nann,2012-04-17T00:10:00Z,40.7,-74\n",
            "device=wer,time=wann,lat=leveys,lon=pituus",
            "csv",
        ),
        ("ann;5;40.7;-74\nbob;6;40.7;-74\n", "device=0,time=1,lat=2,lon=3", "csv"),
        (
            "x,lac,ci,start,end\na,43024,21932,2015-07-31 14:38:39,2015-08-01 00:14:45\n",
            "device=x",
            "intervals",
        ),
        ("x,zone,start,end\na,7,2015-07-31 14:38:39,2015-08-01 00:14:45\n", "device=x,ap=zone", "intervals"),
    ],
)
def test_a_guess_goes_by_the_given_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, columns: str, reader: str
) -> None:
    (tmp_path / "c.csv").write_text(text)
    output = tmp_path / "t.parquet"
    command = (
        "--detect",
        tmp_path / "c.csv",
        "-o",
        output,
        "--columns",
        columns,
        "--aps",
        "1",
        "--steps",
        "2",
    )
    assert roambench(*command) == 0
    assert f"looks like {reader}: " in capsys.readouterr().err
    assert read_trace(output).device_names[0] in ("ann", "a")
    assert roambench("--detect", tmp_path / "c.csv") == 2


@pytest.mark.parametrize(
    ("reader", "text"),
    [
        ("csv", "step,taxi,lat,lon,unixtime\n0,abboip,37.75,-122.39,1211033630\n"),
        (
            "intervals",
            "device,lac,ci,start,end\n28F6A15F,43024,21932,2015-07-31 14:38:39,2015-08-01 00:14:45\n",
        ),
    ],
)
def test_names_of_held_out_data_sets_are_usual_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], reader: str, text: str
) -> None:
    (tmp_path / "c.csv").write_text(text)
    output = tmp_path / "t.parquet"
    assert roambench("--detect", tmp_path / "c.csv", "-o", output, "--aps", "1") == 0
    assert f"looks like {reader}: " in capsys.readouterr().err
    assert read_trace(output).device_names in (("abboip",), ("28F6A15F",))


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (
            "a,1588291200000,40,-74",
            "'1588291200000' is not a time in seconds; are these milliseconds (--time-format unix_ms)?",
        ),
        (
            "a,1050000000000,40,-74",
            "'1050000000000' is not a time in seconds; are these milliseconds (--time-format unix_ms)?",
        ),
        (
            "a,1588291200000000,40,-74",
            "'1588291200000000' is not a time in seconds; are these microseconds "
            "(--columns time=COLUMN*1e-6)?",
        ),
        (
            "a,1588291200000000000,40,-74",
            "'1588291200000000000' is not a time in seconds; are these nanoseconds "
            "(--columns time=COLUMN*1e-9)?",
        ),
        (
            "a,01/05/2020 10:00,40,-74",
            "'01/05/2020 10:00' is neither ISO 8601 (2012-04-17T10:00Z) nor seconds since 1970: give its "
            'pattern: --time-format "%d/%m/%Y %H:%M" (or %m before %d)',
        ),
        (
            "a,1588291200,116.4,39.9",
            "116.4, 39.9 is not a latitude and a longitude in degrees (are they swapped?)",
        ),
    ],
)
def test_a_row_of_another_convention_says_which_it_may_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], row: str, reason: str
) -> None:
    (tmp_path / "c.csv").write_text(f"device,time,lat,lon\n{row}\n")
    assert roambench("csv", tmp_path / "c.csv", "-o", tmp_path / "t.parquet") == 2
    told = capsys.readouterr().err
    assert told.startswith("roambench: c.csv: no readable fix at all: 1 malformed rows, the first is ")
    assert told.endswith(f"c.csv:2: {reason}\n")


def test_a_time_that_ends_in_utc_is_one(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("device,time,lat,lon\na,2020-05-01 10:00:00 UTC,40,-74\n")
    output = tmp_path / "t.parquet"
    assert roambench("csv", tmp_path / "c.csv", "-o", output, "--aps", "1", "--from", "2020-05-01T10") == 0
    assert read_trace(output).step.tolist() == [0]


def test_too_few_places_for_the_access_points_say_how_many_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("tsmc2014", FIXTURES / "tsmc2014.txt", "-o", tmp_path / "t.parquet")
    assert roambench(*command, "--aps", "3") == 2
    assert "cannot draw 3 access points from 2 places: give --aps 2 or fewer" in capsys.readouterr().err
    assert roambench(*command) == 0
    told = capsys.readouterr().err
    assert "access points: all of the 2 places, as there are not 100 to draw" in told
    assert len(read_trace(tmp_path / "t.parquet").ap_names) == 2


def test_a_short_window_opens_where_somebody_is_if_nobody_is_at_midnight(tmp_path: Path) -> None:
    rows = [f"{who},1900-01-01 07:3{at}:00,40.7,-74" for at in (1, 5, 6) for who in "ab"]
    (tmp_path / "c.csv").write_text("device,time,lat,lon\n" + "\n".join(rows) + "\n")
    output = tmp_path / "t.parquet"
    assert roambench("csv", tmp_path / "c.csv", "-o", output, "--step-s", "60", "--steps", "3") == 0
    found = read_trace(output)
    assert (found.start_utc_s % 86_400, found.step.tolist()) == (7 * 3600 + 35 * 60, [0, 0, 1, 1])
