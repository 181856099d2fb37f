"""`roambench calibrate` tells what is wrong before it starts anything."""

from __future__ import annotations

import json

import pytest

from roambench.cli import main as cli
from roambench.contract.errors import ConfigError, RunError
from roambench.energy.links.sweep import SweepSettings
from roambench.experiment.load import load_experiment
from roambench.experiment.sections import Experiment
from roambench.instrument.calibration_run import PLAN, CalibrationPlan, chosen_devices
from roambench.runs.folder import RunFolder


@pytest.fixture
def experiment(tmp_path):
    path = tmp_path / "bench.toml"
    path.write_text("[fleet]\nagents = 3\n")
    return path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--devices", "pi-01,pi-09"], "--devices: expected names of pi-01 to pi-03, got 'pi-09'"),
        (["--rates", "2,fast"], "--rates: expected numbers with commas between them, got '2,fast'"),
        (["--sizes", "0"], "calibration: sizes is"),
        (["--rates", "5"], "calibration: rates is"),
        (["--windows", "0"], "calibration: windows is 0, expected at least 1"),
        (
            ["--rates", "20,40", "--sizes", "1", "--repeats", "10"],
            "4 of 4 settings have windows below 10 s, which do not count (rule R7): --repeats 50 makes",
        ),
        (["--min-s", "2", "--sizes", "0.5"], "--min-s 10 --repeats 100 makes all of them long enough"),
    ],
)
def test_wrong_words_cost_nothing(experiment, tmp_path, capsys, words, said):
    with pytest.raises(SystemExit) as end:
        cli.main(["calibrate", str(experiment), "-o", str(tmp_path / "m.toml"),
                  "--runs-dir", str(tmp_path / "runs"), *words])  # fmt: skip
    assert end.value.code == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_devices_are_chosen_by_name_once_each_or_all(experiment):
    loaded = load_experiment(experiment)
    assert chosen_devices([], loaded) == (0, 1, 2)
    assert chosen_devices(["pi-03", "pi-01", "pi-03"], loaded) == (2, 0)


def folder_with(tmp_path, text: str | None):
    with RunFolder.create(
        tmp_path / "run", Experiment(seed=1), run_id="r", system="calibration", trace_hash="",
        fleet="local", device_names=["pi-01", "pi-02"],
    ):  # fmt: skip
        pass
    if text is not None:
        (tmp_path / "run" / PLAN).write_text(text)
    return RunFolder.open(tmp_path / "run")


def test_a_plan_is_read_back_with_the_same_windows_and_orders(tmp_path):
    plan = CalibrationPlan(SweepSettings((1_000_000,), (2.0, 20.0), 2), 7, "r", (1,))
    with folder_with(tmp_path, plan.to_json()) as folder:
        again = CalibrationPlan.read(folder)
    assert again == plan
    windows = again.windows(1)
    assert windows == plan.windows(1)
    assert again.order_of(1, windows[3]) == "r/00000/00001/window-0003"


@pytest.mark.parametrize("text", [None, "{", '{"seed": 1}', "strangers", "nobody"])
def test_a_folder_that_holds_no_calibration_is_told_so(tmp_path, text):
    if text in ("strangers", "nobody"):
        values = json.loads(CalibrationPlan(SweepSettings(), 7, "r", (0,)).to_json())
        text = json.dumps({**values, "devices": [5] if text == "strangers" else []})
    with folder_with(tmp_path, text) as folder, pytest.raises((RunError, ConfigError)) as error:
        CalibrationPlan.read(folder)
    assert str(tmp_path) in str(error.value)


def test_the_help_shows_files_and_means_as_they_are(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        cli.main(["calibrate", "--help"])
    said = capsys.readouterr().out
    assert said.count("-o links/mybench.toml") == 2
    assert "How often every point is measured; the mean counts." in said
