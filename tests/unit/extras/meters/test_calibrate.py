"""`roambench meter calibrate` with a kernel's sensor, a PPK2, a Joulescope and a plug."""

from __future__ import annotations

import asyncio
import io
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from joulescope_double import Plugged
from mqtt_broker import Broker
from roambench.cli.main import main
from roambench.emulation.electric.power import Activity, PiPower
from roambench.emulation.feed import WorkFeed
from roambench.emulation.sysfs import SysfsFolder
from roambench.experiment.meter_calibration_file import read_meter_calibrations

#: True watts of the loads, in the order in which the command asks for them.
LOADS_W = (2.0, 5.0, 3.5)
GAIN, OFFSET_W = 1.03, 0.02


class Person(io.TextIOBase):
    """Who connects a load when asked for one, then says what it is."""

    def __init__(self, connect: Callable[[float], None], loads_w: tuple[float, ...] = LOADS_W) -> None:
        self._lines = self._typed(connect, loads_w)

    @staticmethod
    def _typed(connect: Callable[[float], None], loads_w: tuple[float, ...]) -> Iterator[str]:
        for watts in loads_w:
            connect(watts)
            yield "\n"
            yield f"{watts} W\n"

    def readline(self, size: int | None = -1, /) -> str:  # type: ignore[override]
        return next(self._lines, "")


def calibrated(
    driver: str,
    port: str,
    person: Person,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    most_u_gain: float = 2e-3,
) -> None:
    """The line of the meter M1 that the command writes holds the true gain and offset."""
    monkeypatch.setattr(sys, "stdin", person)
    file = folder / "meters.toml"
    options = ["--driver", driver, "-o", str(file), "--reference", "lab meter", "--u-reference", "0.0005"]
    with pytest.raises(SystemExit) as ended:
        main(["meter", "calibrate", port, *options, "--seconds", "1"])
    assert not ended.value.code
    made = read_meter_calibrations(file)["M1"]
    assert made["gain"] == pytest.approx(GAIN, abs=2.0 * made["u_gain"] * GAIN)
    assert made["offset_w"] == pytest.approx(OFFSET_W, abs=2.0 * made["u_offset_w"])
    assert made["u_gain"] < most_u_gain


def test_a_kernels_sensor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = SysfsFolder(tmp_path / "sys")

    def connect(watts: float) -> None:
        mw = 1e3 * (GAIN * watts + OFFSET_W)
        lines = f"name ina226\nin1_input 5000\ncurr1_input {mw / 5:.0f}\npower1_input {1e3 * mw:.0f}\n"
        folder.write(lines.encode())

    connect(LOADS_W[0])
    port = f"ina226?root={tmp_path / 'sys'}&interval_ms=50&serial=M1"
    calibrated("hwmon", port, Person(connect), tmp_path, monkeypatch)


def test_a_joulescope(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usb = Plugged("u/js220/000415")
    monkeypatch.setitem(sys.modules, "pyjoulescope_driver", usb.module())

    def connect(watts: float) -> None:
        usb.amps = (GAIN * watts + OFFSET_W) / 5.0

    calibrated("joulescope", "js220/000415?serial=M1", Person(connect), tmp_path, monkeypatch)


def test_a_ppk2_as_a_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start_emulator) -> None:
    pytest.importorskip("ppk2_api")
    power = PiPower(idle_w=2.0, core_w=1.0)
    emulator = start_emulator(
        {"power": power, "gain": GAIN, "offset_w": OFFSET_W}, profile="ppk2", tolerance=0.0, time_scale=1.0
    )
    feed = WorkFeed(emulator.socket, "pi-00")
    cores = {power.watts(Activity(busy_cores=n)): n for n in (0.0, 1.0, 2.5)}

    def connect(watts: float) -> None:
        assert feed.send(Activity(busy_cores=cores[watts]), emulator.clock.now_ns())

    loads_w = tuple(cores)
    port = f"{emulator.port(0)}?mode=source&volts=5&serial=M1"
    try:
        person = Person(connect, (loads_w[0], loads_w[2], loads_w[1]))
        calibrated("ppk2", port, person, tmp_path, monkeypatch)
    finally:
        feed.close()


def test_a_plug_that_publishes_by_mqtt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("paho.mqtt.client")
    broker = Broker(tmp_path)
    ended, watts = threading.Event(), [2.0]

    async def publish() -> None:
        async with broker.running():
            while not ended.is_set():
                await broker.publish("plug", f"{GAIN * watts[0] + OFFSET_W:.4f}")
                await asyncio.sleep(0.03)

    def connect(load_w: float) -> None:
        watts[0] = load_w

    publisher = threading.Thread(target=asyncio.run, args=(publish(),))
    publisher.start()
    try:
        while not broker.answers():
            ended.wait(0.02)
        port = f"127.0.0.1:{broker.port}/plug?period_s=0.05&serial=M1"
        calibrated("mqtt", port, Person(connect), tmp_path, monkeypatch, 0.02)  # whole tenths of a watt
    finally:
        ended.set()
        publisher.join()
