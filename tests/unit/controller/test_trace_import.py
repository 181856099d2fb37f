"""`roambench trace import`, run as a user runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from roambench.controller.cli import main
from roambench.mobility.files import read_trace

FIXTURES = Path(__file__).resolve().parents[1] / "mobility" / "fixtures"


def roambench(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["trace", "import", *(str(argument) for argument in arguments)])
    return int(ended.value.code or 0)


def test_a_guess_alone_is_told_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert roambench("--detect", FIXTURES / "one_snapshot.txt") == 0
    told = capsys.readouterr()
    assert told.out == ""
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
    command += ("--utc-offset-h", "nan")
    assert roambench(*command) == 2
    assert capsys.readouterr().err.splitlines() == [
        "roambench: PATH: missing, the files or directories to import",
        "roambench: -o: missing, the trace file to write",
        "roambench: --ap-hosts 9-1: expected a host or a range of hosts, for example 0-9",
        f"roambench: --ap-source {tmp_path}/no.csv: expected draw, places, stations or a file that exists",
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
    (tmp_path / "c.csv").write_text(
        "device,time,lat,lon,place\n"
        "a,2012-04-17T00:10:00Z,40.735,-73.990,p\n"
        "a,2012-04-17T00:20:00Z,40.736,-73.990,q\n"
        "a,2012-04-17T00:30:00Z,40.736,-73.990,q\n"
        "a,2012-04-17T05:30:00Z,40.736,-73.990,q\n"
    )
    command = ["csv", str(tmp_path / "c.csv"), "-o", str(output), "--steps", "7", "--aps", "1"]
    command += ["--from", "2012-04-17", "--reduce", "mode", "--presence", "hold:1", "--outage", "mark"]
    assert roambench(*command, "--metric", "degrees", "--ap-draw", "mohawk") == 0
    assert capsys.readouterr().err.splitlines()[-1] == (
        "5 steps without any device, in 2 runs: 4 are outages of the recording, marked; in 1 nobody was there"
    )
    trace = read_trace(output)
    assert trace.step.tolist() == [0, 1, 5, 6]
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
