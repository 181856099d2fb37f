"""What TensorBoard's own reader finds in the event files of a run."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from roambench.contract.errors import ConfigError, RunError
from roambench.contract.phases import Outcome, Phase, PhaseSpan
from roambench.contract.records import Reading, RecordKind, phase_to_bytes
from roambench.controller.cli import app
from roambench.controller.tensorboard import export_tensorboard
from roambench.experiment.sections import Experiment
from roambench.rounds.records import (
    OrderAnswered,
    OrderGiven,
    OutcomeDecided,
    RoundRecord,
    StepClosed,
    StepOpened,
)
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState

S = 1_000_000_000
DOWN_J, UP_J = 2.32744, 11.34388  # 20 Mbit over LTE at 20 and 10 Mbit/s, by the paper's Eq. 1


def folder_of(path: Path, fleet: str, records: Sequence[RoundRecord]) -> RunFolder:
    folder = RunFolder.create(
        path,
        Experiment.model_validate(
            {"seed": 1, "simulated": {"idle_w": 2.0, "train_w": 1.0, "power_spread": 0.0}}
        ),
        run_id="demo",
        system="mohawk",
        trace_hash="",
        fleet=fleet,
        device_names=["pi-01", "pi-02"],
    )
    for record in records:
        folder.journal.append(record)
    return folder


def simulated(path: Path) -> None:
    """A training of 20 s at step 0 whose model is sent at step 1; nothing was scored before the end."""
    records = [
        StepOpened(0, (0, 1), (0, 0), (900.0, 900.0)),
        OrderGiven(0, 0, "t", "train", 0, "", "cc", 900.0, "lte", 20.0),
        OrderAnswered(0, 0, "t", "done", "", 2_500_000, 1.0, 20.0, 60, 1.5),
        StepClosed(0, 0, (0,), (), None, math.nan, 1.0),
        StepOpened(1, (0,), (0,), (300.0,)),
        OrderGiven(1, 0, "u", "upload", 0, "t", "", 300.0, "lte", 10.0),
        OrderAnswered(1, 0, "u", "done", "", 2_500_000, 2.0),
        OutcomeDecided(1, 0, "t", Outcome.AGGREGATED),
        StepClosed(1, 1, (), (0,), 0.75, 0.5, 2.0),
    ]
    folder_of(path, "simulated", records).close(RunState.FINISHED)


def measured(path: Path) -> None:
    """One board at 2 W for 60 s: idle to 10, which is before the first step, train to 40, idle to 60."""
    folder = folder_of(
        path, "local", [StepOpened(0, (0,), (0,), (50.0,)), StepClosed(0, 0, (), (), 0.5, 1.0)]
    )
    readings = [
        (RecordKind.READING, Reading(at * S, 5.0, 0.4, 2.0, math.nan).to_bytes()) for at in range(-2, 63)
    ]
    spans = [
        PhaseSpan("pi-01", "b", Phase.IDLE, -1, 0, 10 * S),
        PhaseSpan("pi-01", "b", Phase.TRAIN, 0, 10 * S, 40 * S, "t", "t"),
        PhaseSpan("pi-01", "b", Phase.IDLE, 0, 40 * S, 60 * S),
    ]
    rows = readings + [(RecordKind.PHASE, phase_to_bytes(span)) for span in spans]
    folder.records.insert("pi-01", "s", [(number, *row) for number, row in enumerate(rows)])
    folder.update(start_device_ns=0, end_device_ns=60 * S)
    folder.close(RunState.FINISHED)


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


def test_without_the_library_the_error_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulated(tmp_path / "run")
    for name in [name for name in sys.modules if name.partition(".")[0] == "tensorboard"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(RunError, match=r'pip install "roambench\[tensorboard\]"'):
        export_tensorboard([tmp_path / "run"], tmp_path / "logs")
