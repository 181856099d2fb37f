"""A Flower app on agents: measured joules by phase, and clients that die or lie hurt themselves alone."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from flower_apps import PYTHON, left_in, written_app
from roambench.contract.phases import Outcome, Phase
from roambench.experiment.load import WrittenExperiment, load_experiment
from roambench.report.report import report
from roambench.rounds.records import OutcomeDecided
from roambench.runner.composition import run_experiment
from roambench.runs.folder import RunFolder


def played(tmp_path: Path, app: Path, fleet: str) -> RunFolder:
    settings = {"num-server-rounds": 2, "misfortune": "die:0;huge:1;garbage:2;"}
    program: dict[str, Any] = {"name": "flower", "folder": str(app), "settings": settings}
    program |= {"python": str(PYTHON), "reachable": "everybody", "message_mib": 1}
    values = {
        "systems": ["flower"],
        "fleet": {"agents": 4, "deadline_s": 480},
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
