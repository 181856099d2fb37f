from __future__ import annotations

from pathlib import Path

import pytest

from problem_lines import without_lines
from roambench.contract.errors import ConfigError
from roambench.experiment.load import load_experiment
from roambench.experiment.meter_calibration_file import read_meter_calibrations
from roambench.runs.measured.meters import device_meter

GOOD = """
[pi-01]
gain = 1.02
offset_w = 0.004
u_gain = 0.0025
u_offset_w = 0.003
date = "2026-03-01"
reference = "bench supply 7"
u_reference = 0.001

["CP2104-0042"]
u_gain = 0.004
"""
EXPERIMENT = """
[trace]
file = "walk.csv"
[energy]
calibration_file = "meters.toml"
[energy.meters.pi-02]
u_gain = 0.01
"""


def experiment(folder: Path, meters: str) -> Path:
    (folder / "walk.csv").write_text("device,time,x,y\n")
    (folder / "meters.toml").write_text(meters)
    path = folder / "experiment.toml"
    path.write_text(EXPERIMENT)
    return path


def test_an_experiment_takes_its_meters_calibrations_from_a_file_beside_it(tmp_path: Path) -> None:
    section = load_experiment(experiment(tmp_path, GOOD)).energy
    assert set(section.meters) == {"pi-01", "pi-02", "CP2104-0042"}
    # The run folder needs the file no more.
    meter = device_meter("pi-01", (), section)
    assert meter.calibrated
    known = meter.calibration
    assert (known.gain, known.offset_w, known.u_gain, known.u_offset_w) == (1.02, 0.004, 0.0025, 0.003)
    assert (known.reference, known.u_reference) == ("bench supply 7", 0.001)
    assert device_meter("pi-02", (), section).calibration.u_gain == 0.01
    assert not device_meter("pi-03", (), section).calibrated


def test_every_mistake_in_a_calibration_file_is_named_at_once(tmp_path: Path) -> None:
    path = tmp_path / "meters.toml"
    path.write_text(
        "pi-00 = 3\n[pi-01]\ngain = 0.0\nu_gain = 0.001\nofset_w = 1.0\n[pi-02]\ngain = 1.0\n"
        "[pi-03]\nu_gain = 0.001\nu_reference = 0.002\n"
    )
    with pytest.raises(ConfigError) as caught:
        read_meter_calibrations(path)
    named = [
        problem.removeprefix(f"{path}: ").split(":")[0] for problem in without_lines(caught.value.problems)
    ]
    assert named == [
        "pi-00",
        "pi-01.gain",
        "pi-01.ofset_w",
        "pi-02.u_gain",
        "pi-03.reference",
        "pi-03.u_reference",
    ]


def test_mistakes_in_the_file_and_in_the_experiment_are_reported_together(tmp_path: Path) -> None:
    path = experiment(tmp_path, "[pi-01]\nu_gain = -1\n")
    path.write_text(EXPERIMENT.replace("u_gain = 0.01", "u_gain = 0.01\nu_reference = 0.02"))
    with pytest.raises(ConfigError) as caught:
        load_experiment(path, ["energy.gain=0"])
    text = str(caught.value)
    assert "meters.toml:2: pi-01.u_gain" in text
    assert "experiment.toml:8: energy.meters.pi-02.u_reference" in text
    assert "--set: energy.gain" in text


def test_a_calibration_file_that_is_not_there_or_no_toml_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_meter_calibrations(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("[pi-01\n")
    with pytest.raises(ConfigError, match="not TOML"):
        read_meter_calibrations(tmp_path / "bad.toml")
