"""A selection that gives each device its epochs: in orders, records and seconds, and the same in a replay."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from roambench.contract.errors import PluginError
from roambench.experiment.sections import Experiment
from roambench.rounds.plan import select
from roambench.rounds.records import OrderAnswered, OrderGiven
from roambench.runner.composition import run_experiment
from roambench.runner.model_files import GLOBAL_MODEL
from roambench.runs.folder import RunFolder
from roambench.runs.models import load_model
from roambench.systems.catalogue import make_system
from roambench.systems.options import SystemOptions
from roambench.systems.system import Candidates, Selected, Selection

STEP_S = 0.01


def trained(run: Path) -> dict[tuple[int, int], tuple[int, float]]:
    """Epochs that were chosen and seconds that it took, by step and device."""
    with RunFolder.open(run) as folder:
        log = folder.read_log()
    took = {one.order_id: one.train_s for one in log.only(OrderAnswered)}
    return {
        (one.step, one.device): (one.epochs, took[one.order_id])
        for one in log.only(OrderGiven)
        if one.kind == "train"
    }


def run_of(folder: Path, **more: Any) -> Path:
    values: dict[str, Any] = {
        "systems": ["mohawk"],
        "trace": {"generator": "city", "parameters": {"devices": 40, "steps": 30}, "steps": 14},
        "fleet": {"agents": 8},
        "learning": {"dataset": "digits", "model": "mlp", "images_per_device": 16, "batch_size": 8},
        "rounds": {"cloud_every_steps": 3},
        "simulated": {"sgd_step_s": STEP_S, "speed_spread": 0.0, "workers": 1},
    }
    experiment = Experiment.model_validate(values | more)
    (run,) = run_experiment(experiment, fleet="simulated", runs_dir=folder, console=Console(quiet=True))
    return run


def test_a_device_trains_the_epochs_that_were_chosen_and_a_replay_does_too(tmp_path: Path) -> None:
    own = {"algorithm": {"mohawk": {"most_epochs": 6}}}
    run = run_of(tmp_path / "run", **own)
    found = trained(run)
    assert {epochs for epochs, _ in found.values()} >= {0, 2}  # 0: the usual one epoch
    for epochs, seconds in found.values():
        assert seconds == pytest.approx(2 * (epochs or 1) * STEP_S)
        assert epochs <= 6
    orders = {"cloud_every_steps": 3, "orders": f"replay:{run}"}
    again = run_of(tmp_path / "again", rounds=orders)
    assert trained(again) == found
    assert (load_model(again / GLOBAL_MODEL) == load_model(run / GLOBAL_MODEL)).all()
    plain = trained(run_of(tmp_path / "plain"))
    assert {epochs for epochs, _ in plain.values()} == {0}


def test_uploads_that_were_not_coded_are_the_same_in_a_replay(tmp_path: Path) -> None:
    def uploads(run: Path) -> dict[tuple[int, int], tuple[bool, int, float]]:
        """By step and device: sent as it is, bytes, and seconds of coding."""
        with RunFolder.open(run) as folder:
            log = folder.read_log()
        answers = {one.order_id: one for one in log.only(OrderAnswered)}
        return {
            (one.step, one.device): (
                one.plain,
                answers[one.order_id].transferred_bytes,
                answers[one.order_id].coding_s,
            )
            for one in log.only(OrderGiven)
            if one.kind == "upload"
        }

    own = {"algorithm": {"mohawk": {"code_by_joules": True}}, "links": {"codec_up": "int8"}}
    run = run_of(tmp_path / "run", **own)
    found = uploads(run)
    assert {plain for plain, _, _ in found.values()} == {True, False}
    for plain, moved_bytes, coding_s in found.values():
        assert bool(coding_s) is not plain
        assert (moved_bytes > 9000) is plain
    orders = {"cloud_every_steps": 3, "orders": f"replay:{run}"}
    again = run_of(tmp_path / "again", **own | {"rounds": orders})
    assert uploads(again) == found
    assert (load_model(again / GLOBAL_MODEL) == load_model(run / GLOBAL_MODEL)).all()


def test_epochs_that_are_none_are_refused() -> None:
    system = make_system("mohawk", SystemOptions())
    for count in (0, 1.5):
        selection = Selection(lambda offered, count=count: Selected(offered.devices, {}, {0: count}))
        with pytest.raises(PluginError, match=r"expected epochs of 1 or more for device 0, got"):
            select(replace(system, selection=selection), Candidates(0, 1, (0,), (0,), {}, -1, (1.0,)))
