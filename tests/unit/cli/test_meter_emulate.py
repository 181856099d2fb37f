"""`roambench meter emulate` as people run it: a process of its own, read by the real driver."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import forked_commands

ROAMBENCH = str(Path(sys.executable).with_name("roambench"))


def roambench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return forked_commands.roambench(*arguments, cwd=Path.cwd())


@pytest.fixture
def emulate(tmp_path) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """Two emulated Smart Power 2 at ten times the pace: the process, and what it said of its meters."""
    options = ("--devices", "2", "--time-scale", "10", "--load", "train", "--dir", str(tmp_path))
    process = subprocess.Popen(
        [ROAMBENCH, "meter", "emulate", "--profile", "sp2-1.6", *options],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line.rstrip())
        if line.startswith("faults:"):
            break
    yield process, said
    process.kill()
    process.wait(60)
    process.stdout.close()


def test_it_tells_how_each_meter_is_read_and_that_works(emulate, tmp_path):
    _, said = emulate
    assert said[0].startswith("ODROID Smart Power 2, firmware 1.60")
    commands = [
        line.split("roambench ")[1].replace("'", "").split()
        for line in said
        if "roambench meter read" in line
    ]
    assert len(commands) == 6  # two meters, three ways
    assert [command[3] for command in commands[:3]] == [
        "smartpower2",
        "smartpower2-telnet",
        "smartpower2-websocket",
    ]
    for command in commands[:2]:
        shown = roambench(*command, "--seconds", "1.5", "--json")
        assert shown.returncode == 0, shown.stderr
        # 2.7 W within a meter's tolerance of 3.5 %
        watts = [float(found) for found in re.findall(r'"watts": ?([\d.]+)', shown.stdout)]
        assert len(watts) > 5
        assert all(abs(value / 2.7 - 1.0) < 0.035 for value in watts), shown.stdout


def test_ctrl_c_ends_it_in_order_and_tells_the_true_energy(emulate, tmp_path):
    process, _ = emulate
    lost = roambench("meter", "fault", str(tmp_path), "off@0:600", "--meter", "meter-01")
    assert lost.returncode == 0, lost.stderr
    while ",0.0," not in (tmp_path / "meter-01.csv").read_text():
        time.sleep(0.01)
    time.sleep(0.3)  # three seconds of device time without power
    assert process.stdout is not None
    process.send_signal(signal.SIGINT)
    rest = process.stdout.read()
    assert process.wait(60) == 0
    told = dict(re.findall(r"(meter-0\d): ([\d.]+ J true in [\d.]+ s)", rest))
    for name, watts in (("meter-01", None), ("meter-02", 2.7)):
        joules, seconds = map(float, re.findall(r"[\d.]+(?= J| s)", told[name]))
        if watts is None:
            assert 2.7 * seconds - joules > 2.7 * 2.5
        else:
            assert joules / seconds == pytest.approx(watts, abs=1e-3)
        assert "nan" in (tmp_path / f"{name}.csv").read_text().splitlines()[-1].split(",")
    assert not list(tmp_path.glob("*.tty"))


def test_every_mistake_of_the_command_line_is_told_in_one_go(tmp_path):
    wrong = roambench(
        "meter", "emulate", "--profile", "sp9", "--faults", "stall@3,fire@2", "--dir", str(tmp_path)
    )
    assert wrong.returncode == 2
    assert [line.split(":")[1].strip() for line in wrong.stderr.splitlines()] == [
        "unknown meter profile 'sp9'",
        "--faults",
        "--faults",
    ]
    unplug = roambench(
        "meter", "emulate", "--profile", "sp2-1.1", "--faults", "unplug@3:1", "--dir", str(tmp_path)
    )
    assert unplug.returncode == 2
    assert "unplug needs a serial port" in unplug.stderr
    nobody = roambench("meter", "fault", str(tmp_path), "drop@0")
    assert nobody.returncode == 1
    assert "does not answer" in nobody.stderr
    assert "Traceback" not in wrong.stderr + unplug.stderr + nobody.stderr


def test_the_profiles_are_listed():
    listed = roambench("list", "profiles")
    assert listed.returncode == 0
    for name in ("smartpower2-1.1", "smartpower2-100ms", "smartpower2-ytrikoz", "smartpower3-2.2"):
        assert name in listed.stdout
