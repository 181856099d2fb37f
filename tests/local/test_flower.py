"""A Flower app on agents: measured joules by phase, and clients that die or lie hurt themselves alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from flower_apps import left_in, played, values_of, written_app
from roambench.contract.phases import Outcome, Phase
from roambench.report.report import report
from roambench.rounds.records import MetricsScored, OutcomeDecided
from roambench.runner.model_files import GLOBAL_MODEL
from roambench.runs.folder import RunFolder


def played_with(
    tmp_path: Path, app: Path, fleet: str, misfortune: str, rounds: int = 2, deadline_s: float = 480
) -> RunFolder:
    values = values_of(
        app,
        4,
        {"num-server-rounds": rounds, "misfortune": misfortune},
        fleet={"deadline_s": deadline_s},
        program={"message_mib": 1},
        energy={"idle_baseline_s": 5},
    )
    return played(values, tmp_path / fleet, fleet)


def test_hostile_clients_hurt_their_own_devices_alone_and_every_phase_has_its_joules(tmp_path: Path) -> None:
    app = written_app(tmp_path, "least-squares")
    misfortune = "die:0;huge:1;garbage:2;draw;"
    folder = played_with(tmp_path, app, "local", misfortune)
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

    simulated = played_with(tmp_path, app, "simulated", misfortune)
    here, virtual = (left_in(each.path / "server-app") for each in (folder, simulated))
    np.testing.assert_array_equal(here["w"], virtual["w"])
    assert here["metrics"] == virtual["metrics"]


@pytest.mark.parametrize("fleet", ["local", "simulated"])
def test_a_client_that_forks_and_sleeps_is_late_and_leaves_no_process(fleet: str, tmp_path: Path) -> None:
    app = written_app(tmp_path, "least-squares")
    folder = played_with(tmp_path, app, fleet, "hang:0;", rounds=1, deadline_s=60)
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
    values = values_of(
        app,
        3,
        {},
        fleet={"deadline_s": 480, "aps": 2},
        program={"reachable": "trace"},
        trace={"steps": 3},
        rounds={"cloud_every_steps": 1},
        energy={"idle_baseline_s": 5},
        systems=systems,
    )
    folders = [played(values, tmp_path / fleet, fleet) for fleet in ("local", "simulated")]
    models = [load_file(folder.path / GLOBAL_MODEL) for folder in folders]
    assert models[0].keys() == models[1].keys()
    for tensor, numbers in models[0].items():
        assert np.any(numbers != 0.0)
        np.testing.assert_array_equal(numbers, models[1][tensor])
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
