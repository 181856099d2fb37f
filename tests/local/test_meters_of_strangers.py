"""A local fleet behind a firmware of another, installed package, and one whose emulator ends."""

import json
import re
from pathlib import Path

import pytest

from foreign_packages import install, roambench

BOX = r"""
import re

from roambench.contract.records import Reading, ReadingFlag
from roambench.meters.driver import Driver, row_of
from roambench.emulation.profiles import FirmwareProfile, Sensor, Transport
from roambench.meters.frames.parser import FrameParser
from roambench.meters.sources.serial_port import SerialPort
from roambench.meters.traits import MeterTraits

LINE = re.compile(rb"U (\d{1,2}\.\d{3}) P (\d{1,3}\.\d{3})")


class BoxFrames(FrameParser):
    def __init__(self):
        super().__init__(period_s=0.1)

    def _line(self, line, received_ns):
        match = LINE.fullmatch(line)
        if match is None:
            self._reject(line)
            return None
        ns, flags = self._stamp(received_ns)
        volts, watts = float(match[1]), float(match[2])
        return Reading(ns, volts, watts / volts if volts else 0.0, watts, flags=ReadingFlag(flags))


BOX = Driver(
    name="box",
    summary="Box over USB serial, ten lines a second",
    address="/dev/ttyACM0",
    options=(),
    power="",
    traits=row_of("box"),
    source=lambda port: SerialPort(port.address, 115200),
    frames=lambda port: BoxFrames(),
)
BOX_TRAITS = MeterTraits("box", 0.1, 0.1, 0.0, 0.02, 0.01)


def line(at):
    return b"U %.3f P %.3f\n" % (at.volts, at.watts)


class WearsOut:
    left = 250

    def __call__(self, at):
        self.left -= 1
        return b"U %.3f P %.3f\n" % (at.volts, at.watts / (self.left > 0))


def firmware(name, spell, drivers):
    return FirmwareProfile(
        name=name,
        product="Box",
        traits="box",
        sensor=Sensor.PAC1933,
        period_s=0.1,
        lines={Transport.SERIAL: spell},
        boot=(),
        output_s=0.1,
        boot_s=0.2,
        messages=(),
        version="1",
        drivers=drivers,
    )


GOOD = firmware("box", line, {Transport.SERIAL: "box"})
WEARY = firmware("weary", WearsOut(), {Transport.SERIAL: "box"})
UNREAD = firmware("unread", line, {})
"""
POINTS = {
    "roambench.meters": {"box": "pocket_bench.box:BOX"},
    "roambench.traits": {"box": "pocket_bench.box:BOX_TRAITS"},
    "roambench.meter_profiles": {
        "box": "pocket_bench.box:GOOD",
        "weary": "pocket_bench.box:WEARY",
        "unread": "pocket_bench.box:UNREAD",
    },
}
EXPERIMENT = """
systems = ["mohawk"]
trace = { parameters = { devices = 40, steps = 48 }, steps = 2 }
fleet = { agents = 1 }
learning = { model = "mlp", images_per_device = 20 }
energy = { idle_baseline_s = 4 }
rounds = { rest_s = 0 }
local = { time_scale = 8 }
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("package"), {"pocket_bench/box.py": BOX}, POINTS)


def test_a_firmware_that_prints_nothing_but_readings_is_read_by_the_driver_it_names(
    tmp_path: Path, site: Path
) -> None:
    (tmp_path / "box.toml").write_text(EXPERIMENT)
    done = roambench(tmp_path, "run", "box.toml", "--full", "--set", 'local.meter_profile="box"', site=site)
    assert done.returncode == 0, done.stderr
    against = re.search(r"measured against true\s+([+-][\d.]+) %", done.stdout)
    assert against is not None, done.stdout
    assert abs(float(against[1])) < 2.0
    assert re.search(r"pi-01 +box \(box\)", done.stdout)


def test_a_firmware_that_no_driver_reads_is_a_mistake_before_the_start(tmp_path: Path, site: Path) -> None:
    (tmp_path / "box.toml").write_text(EXPERIMENT)
    done = roambench(tmp_path, "run", "box.toml", "--set", 'local.meter_profile="unread"', site=site)
    assert done.returncode == 2
    assert "local.meter_profile: meter profile unread: no driver reads its serial" in done.stderr
    assert "expected one of box, hwmon, " in done.stderr  # those there are
    assert not (tmp_path / "runs").exists()


def test_a_firmware_whose_code_fails_ends_the_run_with_one_sentence(tmp_path: Path, site: Path) -> None:
    (tmp_path / "box.toml").write_text(EXPERIMENT)
    done = roambench(
        tmp_path,
        "run",
        "box.toml",
        "--set",
        'local.meter_profile="weary"',
        *("--set", "trace.steps=40"),
        *("--set", "local.sgd_step_s=2"),  # so that the run outlives the firmware's 25 s on any machine
        site=site,
    )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "pi-01, profile weary: __call__ fails with ZeroDivisionError" in done.stderr
    number = BOX.splitlines().index(next(row for row in BOX.splitlines() if "self.left > 0" in row)) + 1
    assert f"box.py:{number})" in done.stderr
    state = json.loads((tmp_path / "runs" / "experiment/latest/mohawk" / "run.json").read_text())
    assert state["state"] == "failed"
