"""Agents of this machine that read meters of another process: to them a port like any other.

Kinder than reality: a pseudo-terminal loses nothing, and the meter's board draws the same all the time,
as busy as this machine may be.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import roambench as rb
from roambench.contract.errors import ConfigError

pytestmark = [
    pytest.mark.lengthy,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("workers_of_one_server"),
]
EXPERIMENT = {
    "systems": ["mohawk"],
    "trace": {"parameters": {"devices": 40, "steps": 48}, "steps": 2},
    "fleet": {"agents": 2},
    "learning": {"model": "mlp", "images_per_device": 20},
    "energy": {"idle_baseline_s": 4},
    "rounds": {"rest_s": 0.0},
    "local": {"time_scale": 1.0, "sgd_step_s": 0.05, "upload_mbit_s": 0.0, "download_mbit_s": 0.0},
}


@pytest.fixture
def port(tmp_path: Path) -> Iterator[str]:
    """A Smart Power 3 behind which a board idles, in a process that knows nothing of the run."""
    folder = tmp_path / "meter"
    words = ["meter", "emulate", "--profile", "smartpower3-2.2", "--load", "idle", "--dir", str(folder)]
    command = [sys.executable, "-m", "roambench.cli.main", *words]
    meter = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    end_s = time.monotonic() + 60.0
    while not (folder / "meter-01.tty").exists():
        assert time.monotonic() < end_s
        time.sleep(0.05)
    yield f"{folder / 'meter-01.tty'}?interval_ms=100"
    meter.terminate()
    meter.wait(20)


@pytest.mark.parametrize(("devices", "reader"), [(2, ""), (1, "&reader=controller")])
def test_a_laptop_and_one_meter_are_a_bench(tmp_path: Path, port: str, devices: int, reader: str) -> None:
    meters = {"pi-01": {"driver": "smartpower3", "port": port + reader}}
    (run,) = rb.run(
        EXPERIMENT, set={"local.meters": meters, "fleet.agents": devices}, runs_dir=tmp_path / "runs"
    )
    assert run.state == "finished"
    energy = {row["device"]: row for row in run.energy(by=["device"])}
    assert len(energy) == devices
    metered = energy["pi-01"]
    # What that process says of its board: it idles at 1.9 W, all the time.
    assert metered["gap_s"] < 0.05 * metered["covered_s"]
    mean_w, u_w = (metered[name] / metered["covered_s"] for name in ("energy_j", "u_energy_j"))
    assert abs(mean_w - 1.9) < 3.0 * u_w
    assert 0.0 < u_w < 0.05
    names = [board.device for board in run.summary.energy.boards]
    traits = dict(zip(names, (board.meter.traits.name for board in run.summary.energy.boards), strict=True))
    assert traits["pi-01"] == "smartpower3-100ms"
    # Its truth is not known here, and none is printed.
    emulated = {path.stem for path in (run.path / "truth").glob("*.csv")}
    assert emulated == ({"pi-02"} if devices == 2 else set())
    truths = {board.device: board.truth for board in run.summary.energy.boards}
    assert truths["pi-01"] is None
    assert run.summary.energy.truth is None or devices == 2
    trained = [row for row in run.phases if row["phase"] == "train"]
    assert trained


def test_meters_that_cannot_be_are_mistakes_before_anything_starts(tmp_path: Path) -> None:
    meters = {"pi-03": {"port": "/dev/x"}, "pi-01": {"driver": "smartpower4", "port": "/dev/x"}, "left": {}}
    with pytest.raises(ConfigError) as found:
        rb.run(EXPERIMENT, set={"local.meters": meters, "local.time_scale": 4.0}, runs_dir=tmp_path)
    mistakes = "\n".join(found.value.problems)
    assert "local.time_scale: expected 1 beside meters: a real one runs no faster, got 4.0" in mistakes
    assert "local.meters.pi-03: expected a device of this machine: pi-01 to pi-02" in mistakes
    assert "local.meters.left: expected a device of this machine" in mistakes
    assert 'got "smartpower4", did you mean smartpower' in mistakes
    assert "port" in mistakes
