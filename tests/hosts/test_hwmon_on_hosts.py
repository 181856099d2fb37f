"""A host whose meter is a sensor of the kernel: an emulated tree of sysfs on its card, read by its agent."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from by_chance import assert_by_chance, whole_runs_off_u
from hosts.lab.bench_hosts import BenchHosts
from hosts.lab.bench_run import ONE_BOARD, BenchRun
from hosts.lab.cli import roambench
from roambench.emulation.electric.power import PiPower
from roambench.emulation.spec import EmulatedDevice, EmulatorSpec
from roambench.provision.agent_asks import ask_agent
from roambench.provision.inventory.load import load_bench
from roambench.provision.ssh.hosts import open_link
from roambench.runs.measured.accounts import account_run

HOST = "pi1"
TREE = "/srv/hwmon"
PORT = f"ina219?root={TREE}"


class Sensor:
    """An emulated INA219 whose tree lies on the host; the board that hangs on it draws `idle_w`."""

    def __init__(self, hosts: BenchHosts, folder: Path, idle_w: float = 1.9) -> None:
        folder.mkdir()
        there = Path(f"/proc/{hosts.state()[HOST]['init']}/root{TREE}")
        there.mkdir(parents=True, exist_ok=True)
        spec = EmulatorSpec(
            devices=(EmulatedDevice(HOST, "", sysfs_dir=str(there), power=PiPower(idle_w=idle_w)),),
            profile="ina219",
            tolerance=0.0,
            socket_path=str(folder / "s"),
            truth_dir=str(folder),
        )
        (folder / "spec.json").write_text(spec.to_json())
        words = [sys.executable, "-m", "roambench.emulation", str(folder / "spec.json")]
        self._process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        self.truth = folder / f"{HOST}.csv"
        while not (there / "hwmon0" / "power1_input").exists():
            assert self._process.poll() is None
            time.sleep(0.05)

    def unbind(self) -> None:
        """The emulator ends, and its attributes are gone."""
        self._process.terminate()
        self._process.wait()


def provision(hosts: BenchHosts, text: str) -> None:
    hosts.bench.write_text(text)
    said = roambench("fleet", "provision", hosts.bench, "--only", HOST, timeout_s=280)
    assert said.code == 0, said


def meter_of(text: str, more: str = "") -> str:
    """The bench file in which the host's meter is that sensor."""
    first, second = text.split("meter = {", 1)
    return f'{first}meter = {{ driver = "hwmon", port = "{PORT}{more}", {second}'


@pytest.fixture
def described(provisioned: BenchHosts) -> Iterator[str]:
    """The bench file as it was; it is so again, and the tree is gone from the card."""
    text = provisioned.bench.read_text()
    yield text
    provision(provisioned, text)
    provisioned.inside(HOST, f"rm -r {TREE}")


def told(hosts: BenchHosts, fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """What the host's agent says of its meter, as soon as that fits."""
    bench = load_bench(hosts.bench)
    deadline_s = time.monotonic() + 60.0
    while True:
        with open_link(bench, bench.host(HOST)) as link:
            meter = ask_agent(link, "status")["meter"]
        if fits(meter):
            return meter
        assert time.monotonic() < deadline_s, meter
        time.sleep(1.0)


def test_a_sensor_of_the_kernel_measures_a_run_and_its_faults_are_told(
    provisioned: BenchHosts, described: str, tmp_path: Path
) -> None:
    sensor = Sensor(provisioned, tmp_path / "sensor")
    provision(provisioned, meter_of(described))
    assert told(provisioned, lambda meter: meter["state"] == "ok")["description"]["driver"] == "hwmon"
    run = BenchRun(provisioned.bench, tmp_path / "run", *ONE_BOARD)
    with run.finished() as folder:
        sensor.unbind()  # what it knows of the last seconds is written then
        (folder.path / "truth").mkdir(exist_ok=True)
        shutil.copy(sensor.truth, folder.path / "truth")
        (board,) = account_run(folder, list(folder.read_log())).devices
    assert board.whole_run.coverage > 0.95
    assert_by_chance(whole_runs_off_u([board]))

    assert told(provisioned, lambda meter: meter["state"] == "lost")["detail"]

    full = Sensor(provisioned, tmp_path / "full", 30.0)
    flags = told(provisioned, lambda meter: meter["state"] == "ok" and meter["last"]["flags"])["last"][
        "flags"
    ]
    assert flags & 32  # SATURATED

    provision(provisioned, meter_of(described, "&shunt_uohm=10000"))
    said = told(provisioned, lambda meter: meter["state"] == "unavailable")
    assert "shunt" in said["detail"]
    full.unbind()
