"""What TensorBoard's own reader finds in the event files of a run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from roambench.cli.main import app
from roambench.contract.errors import ConfigError, RunError
from roambench.extras.exports.tensorboard import export_tensorboard
from small_runs import measured, simulated, swept

DOWN_J, UP_J = 2.32744, 11.34388  # 20 Mbit over LTE at 20 and 10 Mbit/s, by the paper's Eq. 1


def curves(place: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    reader = EventAccumulator(str(place))
    reader.Reload()
    tags = reader.Tags()["scalars"]
    return {tag: [(event.step, event.value) for event in reader.Scalars(tag)] for tag in tags}


def test_every_step_of_a_simulated_run_is_a_point_of_each_curve(tmp_path: Path) -> None:
    simulated(tmp_path / "mohawk")
    told = CliRunner().invoke(
        app, ["export", "tensorboard", str(tmp_path / "mohawk"), "-o", str(tmp_path / "logs")]
    )
    assert told.exit_code == 0, told.output
    found = curves(tmp_path / "logs" / "mohawk")
    net_j = DOWN_J + 20.0 + UP_J  # all of it served the training of step 0
    assert found == {
        "learning/accuracy": [(1, 0.75)],
        "learning/loss": [(1, 0.5)],
        "devices/present": [(0, 2.0), (1, 1.0)],
        "devices/trainings": [(0, 1.0), (1, 0.0)],
        "devices/aggregated": [(0, 0.0), (1, 1.0)],
        "devices/outstanding": [(0, 1.0), (1, 0.0)],
        # 2 W of idling over 1 s down, 20 s of training and 2 s up.
        "energy/modelled_gross_j": [(0, pytest.approx(net_j + 46.0, rel=1e-6))],
        "energy/modelled_net_j": [(0, pytest.approx(net_j, rel=1e-6))],
    }


def test_a_measured_run_has_the_joules_of_its_meters(tmp_path: Path) -> None:
    measured(tmp_path / "board")
    (place,) = export_tensorboard([tmp_path / "board"], tmp_path / "logs")
    found = curves(place)
    assert found["energy/measured_gross_j"] == [(0, pytest.approx(100.0 / 1.000587))]  # 10 to 60 s at 2 W
    assert [tag for tag in found if "modelled" in tag] == []


def test_a_sweep_is_a_folder_per_point_named_by_what_varies(tmp_path: Path) -> None:
    swept(tmp_path / "grid")
    told = CliRunner().invoke(
        app, ["export", "tensorboard", str(tmp_path / "grid"), "-o", str(tmp_path / "logs")]
    )
    assert told.exit_code == 0, told.output
    names = [f"mohawk_alpha={alpha}_seed={seed}" for alpha in (0.1, 0.5) for seed in (1, 2)]
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == names
    scores = [curves(tmp_path / "logs" / name)["learning/accuracy"] for name in names]
    assert scores == [[(1, pytest.approx(score))] for score in (0.53, 0.54, 0.61, 0.62)]


def test_what_is_there_already_or_named_twice_is_told_before_anything_is_written(tmp_path: Path) -> None:
    simulated(tmp_path / "a" / "run")
    simulated(tmp_path / "b" / "run")
    (tmp_path / "logs" / "run").mkdir(parents=True)
    with pytest.raises(ConfigError) as wrong:
        export_tensorboard([tmp_path / "a" / "run", tmp_path / "b" / "run"], tmp_path / "logs")
    assert wrong.value.problems == (
        "run: 2 runs of this name",
        f"{tmp_path / 'logs' / 'run'}: exists already; choose another -o",
    )
    assert list((tmp_path / "logs" / "run").iterdir()) == []


def test_without_the_library_the_error_has_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulated(tmp_path / "run")
    for name in [name for name in sys.modules if name.partition(".")[0] == "tensorboard"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(RunError, match=r"-m pip install 'tensorboard"):
        export_tensorboard([tmp_path / "run"], tmp_path / "logs")
