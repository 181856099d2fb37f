"""A Flower app on agents: measured joules by phase, and clients that die or lie hurt themselves alone."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from safetensors.numpy import load_file

from flower_apps import PYTHON, left_in, written_app
from roambench.contract.phases import Outcome, Phase
from roambench.experiment.load import WrittenExperiment, load_experiment
from roambench.report.report import report
from roambench.rounds.records import MetricsScored, OutcomeDecided
from roambench.runner.composition import run_experiment
from roambench.runner.model_files import GLOBAL_MODEL
from roambench.runs.folder import RunFolder


def played(
    tmp_path: Path,
    app: Path,
    fleet: str,
    misfortune: str = "die:0;huge:1;garbage:2;draw;",
    rounds: int = 2,
    deadline_s: float = 480,
) -> RunFolder:
    settings = {"num-server-rounds": rounds, "misfortune": misfortune}
    program: dict[str, Any] = {"name": "flower", "folder": str(app), "settings": settings}
    program |= {"python": str(PYTHON), "reachable": "everybody", "message_mib": 1}
    values = {
        "systems": ["flower"],
        "fleet": {"agents": 4, "deadline_s": deadline_s},
        "program": program,
        "energy": {"idle_baseline_s": 5},
    }
    (path,) = run_experiment(
        load_experiment(WrittenExperiment(values, "test", Path.cwd())),
        fleet=fleet,
        runs_dir=tmp_path / fleet,
        console=Console(file=io.StringIO()),
        fresh=True,
    )
    return RunFolder.open(path)


def test_hostile_clients_hurt_their_own_devices_alone_and_every_phase_has_its_joules(tmp_path: Path) -> None:
    app = written_app(tmp_path, "least-squares")
    folder = played(tmp_path, app, "local")
    outcomes = [record for record in folder.read_log() if isinstance(record, OutcomeDecided)]
    failed = {record.device: record.reason for record in outcomes if record.outcome is Outcome.FAILED}
    assert failed.keys() == {0, 1, 2}
    assert "failed: its program ended (exit status 7)" in failed[0]
    assert "failed: its program sent 8,000" in failed[1]
    assert "its reply cannot be read: DecodeError" in failed[2]
    used = sorted((r.step, r.device) for r in outcomes if r.outcome is Outcome.AGGREGATED)
    assert used == [(0, 3), (2, 3)]

    (summary,) = report([folder.path]).summaries
    assert summary.orders.answers[("evaluate", "done")] == 8  # all four evaluate: their programs began again
    assert summary.energy is not None
    joules = {item.phase: item.gross.joules for item in summary.energy.phases}
    assert all(joules[phase] > 0.0 for phase in (Phase.DOWNLOAD, Phase.TRAIN, Phase.EVALUATE, Phase.UPLOAD))

    here, virtual = (
        left_in(each.path / "server-app") for each in (folder, played(tmp_path, app, "simulated"))
    )
    np.testing.assert_array_equal(here["w"], virtual["w"])
    assert here["metrics"] == virtual["metrics"]


@pytest.mark.parametrize("fleet", ["local", "simulated"])
def test_a_client_that_forks_and_sleeps_is_late_and_leaves_no_process(fleet: str, tmp_path: Path) -> None:
    app = written_app(tmp_path, "least-squares")
    folder = played(tmp_path, app, fleet, "hang:0;", rounds=1, deadline_s=60)
    outcomes = [record for record in folder.read_log() if isinstance(record, OutcomeDecided)]
    failed = {record.device: record.reason for record in outcomes if record.outcome is Outcome.FAILED}
    assert failed.keys() == {0}
    assert "timeout: " in failed[0]
    assert {r.device for r in outcomes if r.outcome is Outcome.AGGREGATED} == {1, 2, 3}
    (summary,) = report([folder.path]).summaries
    assert summary.orders.answers[("evaluate", "done")] == 4  # its program was started again
    assert not [process for process in Path("/proc").glob("[0-9]*") if _is_in(process, tmp_path)]


def _is_in(process: Path, folder: Path) -> bool:
    try:
        return (process / "cwd").readlink().is_relative_to(folder)
    except OSError:
        return False


@pytest.mark.parametrize(("name", "systems"), [("least-squares", ["mohawk"]), ("legacy", ["hierfavg"])])
def test_a_flower_client_trains_in_our_systems_to_the_same_bits_on_agents_and_virtual_devices(
    name: str, systems: list[str], tmp_path: Path
) -> None:
    app = written_app(tmp_path, name)
    values = {
        "systems": systems,
        "fleet": {"agents": 3, "deadline_s": 480, "aps": 2},
        "trace": {"steps": 3},
        "rounds": {"cloud_every_steps": 1},
        "program": {"name": "flower", "folder": str(app), "python": str(PYTHON)},
        "energy": {"idle_baseline_s": 5},
    }
    folders = []
    for fleet in ("local", "simulated"):
        (path,) = run_experiment(
            load_experiment(WrittenExperiment(values, "test", Path.cwd())),
            fleet=fleet,
            runs_dir=tmp_path / fleet,
            console=Console(file=io.StringIO()),
            fresh=True,
        )
        folders.append(RunFolder.open(path))
    models = [load_file(folder.path / GLOBAL_MODEL) for folder in folders]
    assert models[0].keys() == models[1].keys()
    for tensor, values_of in models[0].items():
        assert np.any(values_of != 0.0)
        np.testing.assert_array_equal(values_of, models[1][tensor])
    logs = [folder.read_log() for folder in folders]
    scored = [[(r.step, r.names, r.values) for r in log if isinstance(r, MetricsScored)] for log in logs]
    assert scored[0] == scored[1] != []
    outcomes = [
        sorted((r.step, r.device, r.outcome) for r in log if isinstance(r, OutcomeDecided)) for log in logs
    ]
    assert outcomes[0] == outcomes[1]
    assert Outcome.AGGREGATED in {outcome for _, _, outcome in outcomes[0]}
    (summary,) = report([folders[0].path]).summaries
    assert summary.energy is not None
    joules = {item.phase: item.gross.joules for item in summary.energy.phases}
    assert all(joules[phase] > 0.0 for phase in (Phase.DOWNLOAD, Phase.TRAIN, Phase.UPLOAD))
