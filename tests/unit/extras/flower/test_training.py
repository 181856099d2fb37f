"""A user's Flower client trains in systems of ours, on virtual devices."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from flower_apps import direct, experiment_of, played, values_of, written_app
from roambench.contract.errors import ConfigError
from roambench.contract.phases import Outcome
from roambench.mobility.files import write_trace
from roambench.mobility.trace import Trace
from roambench.rounds.records import MetricsScored, OrderAnswered, OutcomeDecided, StepClosed
from roambench.runner.model_files import GLOBAL_MODEL

pytestmark = pytest.mark.lengthy

SEED = 7


def still_trace(path: Path, steps: int, devices: int) -> Path:
    """Everybody is always there, at one access point."""
    step, device = np.divmod(np.arange(steps * devices, dtype=np.int32), np.int32(devices))
    place, one = np.zeros(len(step)), np.zeros(1)
    names = tuple("abcdef"[:devices])
    write_trace(Trace(steps, 60.0, names, step, device, place, place, ("ap",), one, one), path)
    return path


def training_values(app: Path, systems: Sequence[str], trace: Path, **settings: Any) -> dict[str, Any]:
    return values_of(
        app,
        3,
        settings,
        seed=SEED,
        systems=list(systems),
        fleet={"aps": 0},
        program={"reachable": "trace"},
        trace={"file": str(trace), "steps": 3, "window": "first"},
        rounds={"cloud_every_steps": 1},
        algorithm={"per_ap": 9},
    )


@pytest.mark.parametrize(("name", "tensor"), [("least-squares", "w"), ("legacy", "0")])
def test_federated_averaging_of_ours_over_a_flower_client_is_that_of_flower(
    name: str, tensor: str, tmp_path: Path
) -> None:
    """Three rounds of FedAvg, by Flower's own strategy and by ours: equal to rounding, as ours sums in
    float64."""
    app = written_app(tmp_path, name)
    config = {"num-server-rounds": 3}
    expected = direct(app, tmp_path / "direct", 3, SEED, **config)["w"]
    values = training_values(app, ["fedavg"], still_trace(tmp_path / "still.parquet", 3, 3))
    folder = played(values, tmp_path / "runs")
    found = load_file(folder.path / GLOBAL_MODEL)
    np.testing.assert_allclose(found[tensor], expected, rtol=2e-6)
    log = folder.read_log()
    outcomes = [record.outcome for record in log if isinstance(record, OutcomeDecided)]
    assert outcomes == [Outcome.AGGREGATED] * 9
    trained = [r for r in log if isinstance(r, OrderAnswered) and r.order_id.endswith("train")]
    assert {record.device: record.samples for record in trained} == {0: 20, 1: 21, 2: 22}
    assert all(record.train_s > 0.0 and record.transferred_bytes > 24 for record in trained)
    closed = [record for record in log if isinstance(record, StepClosed)]
    assert closed[-1].loss < closed[0].loss
    assert closed[-1].accuracy is not None
    assert any(isinstance(record, MetricsScored) for record in log)


def test_a_client_that_fails_is_an_outcome_and_a_state_is_kept(tmp_path: Path) -> None:
    app = written_app(tmp_path, "least-squares")
    trace = still_trace(tmp_path / "still.parquet", 4, 3)
    values = training_values(app, ["fedavg"], trace, misfortune="die:0;huge:1;raise:2;")
    folder = played(values, tmp_path / "runs")
    answers = [r for r in folder.read_log() if isinstance(r, OrderAnswered) and r.order_id.endswith("train")]
    reasons = {(record.device, record.step): record.reason for record in answers}
    assert "its program ended (exit status 7)" in reasons[0, 0]
    assert "w of its reply to train has shape (1000000,), expected [6]" in reasons[1, 0]
    assert reasons[2, 0] == ""
    assert "its program failed: ValueError: mine" in reasons[2, 1]  # in the second round alone
    assert reasons[2, 2] == ""


def test_numbers_that_are_none_are_refused_or_in_no_mean_and_said(tmp_path: Path) -> None:
    app = written_app(tmp_path, "least-squares")
    trace = still_trace(tmp_path / "still.parquet", 4, 3)
    values = training_values(app, ["fedavg"], trace, misfortune="nan:0;uncounted:1;unscored:2;")
    folder = played(values, tmp_path / "runs")
    log = folder.read_log()
    reasons = {
        (r.device, r.step): r.reason for r in log if isinstance(r, OrderAnswered) if "train" in r.order_id
    }
    assert "its program trained a model that holds NaN or infinity" in reasons[0, 0]
    assert "its program failed: ValueError: expected a finite number of examples, got nan" in reasons[1, 0]
    assert reasons[2, 0] == ""
    (first, *_) = folder.info.doubts
    assert first == "node 1002 in evaluation 1: eval_loss is inf, which is in no mean"
    closed = [record for record in log if isinstance(record, StepClosed)]
    assert all(record.loss is not None and np.isfinite(record.loss) for record in closed)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"systems": ["mohawk", "flower"]}, r'systems: expected \["flower"\] alone, or systems without it'),
        ({"systems": ["d_psgd"]}, "systems: expected systems with access points"),
        ({"learning": {"batch_size": 4}}, "learning.batch_size: expected none: flower brings data, model"),
        ({"algorithm": {"local": "scaffold"}}, "algorithm.local: expected none: flower brings its training"),
        ({"simulated": {"backend": "stacked"}}, 'simulated.backend: expected "workers" beside'),
    ],
)
def test_what_a_client_does_by_itself_is_not_set(more: dict[str, Any], expected: str, tmp_path: Path) -> None:
    app = written_app(tmp_path, "least-squares")
    trace = still_trace(tmp_path / "still.parquet", 4, 3)
    with pytest.raises(ConfigError, match=expected):
        experiment_of(training_values(app, ["mohawk"], trace) | more)


@pytest.mark.parametrize(
    ("systems", "config", "expected"),
    [
        (["middle_plus"], {}, "'middle_plus' trains by"),
        (["oort"], {}, "'oort' chooses devices by the losses of their samples"),
        (["fednova"], {}, "'fednova' weighs by SGD steps"),
        (["mohawk"], {"strategy": "bytes"}, "ended without a message to train"),
    ],
)
def test_systems_and_apps_that_do_not_fit_are_a_sentence(
    systems: list[str], config: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    app = written_app(tmp_path, "least-squares")
    values = training_values(app, systems, still_trace(tmp_path / "still.parquet", 4, 3), **config)
    with pytest.raises(ConfigError, match=expected):
        played(values, tmp_path / "runs")
