"""`roambench meter calibrate` as a person uses it: a real process, a real port, an emulated meter."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import subprocess
import sys
from typing import IO

import pytest

from roambench.cli.main import main
from roambench.cli.meters.calibrate import serial_of, watts_of
from roambench.contract.errors import ConfigError
from roambench.emulation import control
from roambench.emulation.electric.power import IDLE, Activity
from roambench.emulation.feed import WorkFeed
from roambench.experiment.meter_calibration_file import read_meter_calibrations
from roambench.meters.ports import parse_port
from roambench.meters.traits import TRAITS

CLI = [sys.executable, "-m", "roambench.cli.main", "meter", "calibrate"]
REFERENCE = ("--reference", "lab meter 4", "--u-reference", "0.0005")


def until(stream: IO[str], text: str) -> str:
    """What is printed up to `text`; a question ends without a line's end."""
    told = ""
    while text not in told:
        char = stream.read(1)
        assert char, told
        told += char
    return told


def test_three_loads_over_a_real_port_end_as_the_meters_table_and_nothing_else_is_touched(
    start_emulator, tmp_path
):
    emulator = start_emulator({"gain": 1.021, "offset_w": 0.012}, time_scale=60.0, tolerance=0.0)
    file = tmp_path / "meters.toml"
    file.write_text("# of the lab\n[SP2-6]\nu_gain = 0.004 # a guess\n\n[SP2-7]\ngain = 1.5\nu_gain = 0.1\n")
    feed = WorkFeed(emulator.socket, "pi-00")
    process = subprocess.Popen(
        [*CLI, f"{emulator.port(0)}?serial=SP2-7", "-o", str(file), *REFERENCE, "--seconds", "2"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
    )
    with process, contextlib.closing(feed):
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        for activity, typed in (
            (IDLE, ["1.9 W"]),
            (Activity(busy_cores=4.0), ["five", "5.1"]),
            (Activity(busy_cores=2.0), ["3.5"]),
        ):
            until(process.stdout, "then press Enter: ")
            assert feed.send(activity, emulator.clock.now_ns())
            process.stdin.write("\n")
            process.stdin.flush()
            for answer in typed:
                until(process.stdout, "or V ohm): ")
                process.stdin.write(f"{answer}\n")
                process.stdin.flush()
        told, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert errors == "expected watts (1.912 W), or 5.098 V 0.375 A, or 5.098 V 13.6 ohm, got 'five'\n"
    assert "how far the gain depends on the power: ± 0." in told
    assert "was: gain 1.5, offset 0.0 W of no date" in told
    found = read_meter_calibrations(file)
    made = found["SP2-7"]
    register = TRAITS.load("smartpower2").gain
    assert abs(made["gain"] / (1.021 * register) - 1.0) < 2.0 * made["u_gain"] < 0.004
    assert abs(made["offset_w"] - 0.012 * register) < 2.0 * made["u_offset_w"] < 0.008
    assert (made["reference"], made["u_reference"]) == ("lab meter 4", 0.0005)
    assert dt.date.fromisoformat(made["date"]) >= dt.date(2026, 1, 1)
    assert file.read_text().startswith("# of the lab\n[SP2-6]\nu_gain = 0.004 # a guess\n\n[SP2-7]")
    assert found["SP2-6"]["u_gain"] == 0.004


def test_a_meter_whose_output_is_off_has_no_point_and_the_file_stays(start_emulator, tmp_path):
    emulator = start_emulator({"telnet_port": 0, "autorun": False}, time_scale=60.0, boots=True)
    port = f"{control.addresses(emulator.socket)['pi-00']['telnet']}?serial=SP2-7"
    options = ("--driver", "smartpower2-telnet", "-o", str(tmp_path / "meters.toml"), "--seconds", "1")
    result = subprocess.run(
        [*CLI, port, *options, *REFERENCE],
        input="\n2\n\n5\n",
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 1
    assert "its output is off; zero is no point of a calibration" in result.stderr
    assert not (tmp_path / "meters.toml").exists()


@pytest.mark.parametrize(
    ("port", "file", "complaint"),
    [
        (
            "/dev/null",
            "",
            "expected the meter's serial number, which no USB device tells here: /dev/null?serial=",
        ),
        (
            "/dev/null?serial=A7",
            "[SP2-6]\nu_gain = -1\n",
            "meters.toml:2: SP2-6.u_gain: expected a number",
        ),
        (
            "/dev/null?serial=A7",
            "[SP2-6]\nu_gain = 1.0\ndate = 'spring'\n",
            "date: expected a date, YYYY-MM-DD",
        ),
    ],
)
def test_mistakes_are_named_before_the_port_is_opened(port, file, complaint, tmp_path, capsys):
    (tmp_path / "meters.toml").write_text(file)
    with pytest.raises(SystemExit) as ended:
        main(["meter", "calibrate", port, "-o", str(tmp_path / "meters.toml"), *REFERENCE])
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err
    assert (tmp_path / "meters.toml").read_text() == file


def test_the_true_power_is_watts_or_volts_and_amperes_or_volts_at_a_resistor():
    assert watts_of(" 1.912W") == watts_of("1.912") == 1.912
    assert watts_of("5.098 V 0.375 A") == watts_of("5.098V, .375a") == pytest.approx(1.91175)
    assert watts_of("5.098 V 13.6 ohm") == watts_of("5.098 v 13.6Ω") == pytest.approx(1.91101, abs=1e-5)
    for text in ("", "5 V", "5 V 0 ohm", "-1", "1e3", "nan", "5 A 2 V", "5 V 2 W"):
        with pytest.raises(ConfigError, match="expected watts"):
            watts_of(text)


def test_a_usb_bridge_tells_its_serial_number_under_any_of_its_names(monkeypatch):
    from serial.tools import list_ports, list_ports_common

    bridge = list_ports_common.ListPortInfo("/dev/roambench-meter")
    bridge.serial_number = "02A1C001"
    monkeypatch.setattr(list_ports, "comports", lambda include_links: [bridge] if include_links else [])
    assert serial_of(parse_port("smartpower2", "/dev/roambench-meter")) == "02A1C001"
    assert serial_of(parse_port("smartpower2", "/dev/roambench-meter?serial=B2")) == "B2"
