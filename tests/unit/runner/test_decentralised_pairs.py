"""Every mixing with every model of mobility on virtual devices, against a plain loop over the same steps."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from roambench.aggregation.mixing import mixing_matrix
from roambench.contract.draws import draw_key
from roambench.contract.local_training import LocalTraining
from roambench.contract.model_blob import encode
from roambench.contract.model_digest import digest_of
from roambench.contract.orders import Vector
from roambench.experiment.load import WrittenExperiment, load_experiment
from roambench.experiment.sections import Experiment
from roambench.fleet.simulated.job import TrainingJob, TrainingOutcome
from roambench.fleet.simulated.model_rows import ModelRows
from roambench.fleet.simulated.simulated_fleet import SimulatedFleet, VirtualDevice
from roambench.fleet.simulated.trainer import OnOutcome, no_hurry
from roambench.fleet.simulated.worker import TaskTrainer
from roambench.learning.learner import Learner
from roambench.rounds.peer_loop import run_peers
from roambench.rounds.records import ModelsScored, RoundRecord
from roambench.runner.places.simulated import foresight
from roambench.runner.scoring import TestSetEvaluator
from roambench.runner.system_runs.decentralised import PeerWorld, peer_settings
from roambench.runner.world import learning_spec
from roambench.systems.peers import PEER_SYSTEMS

pytestmark = pytest.mark.usefixtures("one_thread")

MOBILITY = {
    "static": {"model": "static"},
    "random": {"model": "random"},
    "dam": {"model": "dam"},
    "dcm, journal": {"model": "dcm", "ties": "random"},
    "dcm, workshop": {"model": "dcm", "ties": "most_static"},
    "dcm, no limit": {"model": "dcm", "reach": 0.0},
    "reflected walk": {"model": "reflected_walk", "fast_share": 0.5},
    "replayed": {"model": "trace"},
}
ITERATIONS = 3


class TrainerHere:
    """A trainer that needs no process; hands outcomes out from the last to the first."""

    def __init__(self, world: PeerWorld, rows: ModelRows) -> None:
        data, parts = world.learning_task.dataset, world.learning_task.parts
        self._rows = rows
        self._trainer = TaskTrainer(
            learning_spec(world.experiment, world.learning_task, Path()),
            data.train_images,
            data.train_labels,
            np.concatenate(parts),
            np.cumsum([0, *(len(part) for part in parts)]),
        )

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def train(
        self, jobs: Sequence[TrainingJob], on_outcome: OnOutcome = no_hurry
    ) -> list[TrainingOutcome]:
        outcomes: dict[int, TrainingOutcome] = {}
        for index, job in reversed(list(enumerate(jobs))):
            velocity = None if job.velocity_row < 0 else self._rows.row(job.velocity_row).copy()
            outcome, trained = self._trainer.carry_out(
                job, self._rows.row(job.ap_row).copy(), None, None, None, velocity
            )
            assert trained is not None
            self._rows.write(job.out_row, trained.vector)
            if job.velocity_out_row >= 0:
                assert trained.velocity is not None
                self._rows.write(job.velocity_out_row, trained.velocity)
            outcomes[index] = outcome
            on_outcome(index, outcome)
        return [outcomes[index] for index in range(len(jobs))]


class Book(list[RoundRecord]):
    def extend(self, records: Sequence[RoundRecord]) -> None:  # type: ignore[override]
        super().extend(records)


def experiment_of(mobility: str, **changes: dict) -> Experiment:
    values: dict = {
        "systems": list(PEER_SYSTEMS.own),
        "fleet": {"agents": 6, "aps": 1},
        "trace": {"generator": "random-waypoint", "steps": ITERATIONS},
        "learning": {"dataset": "digits", "model": "mlp", "images_per_device": 12, "alpha": 0.3},
        "decentralised": {"iterations": ITERATIONS, "evaluate_every": ITERATIONS},
        "mobility": {"mobile": 2, "grid": 6, "reach": 3.0, **MOBILITY[mobility]},
        "contacts": {"radius": 300.0 if mobility in ("reflected walk", "replayed") else 3.0},
    }
    for section, keys in changes.items():
        values[section] |= keys
    return load_experiment(WrittenExperiment(values, "here", Path()))


def played(world: PeerWorld, system: str, folder: Path) -> tuple[dict[int, Vector], Book, int]:
    """Models at the end, all records, and the rows still in use."""
    learning_task, experiment = world.learning_task, world.experiment
    rows = ModelRows(folder / "rows.bin", learning_task.layout.size, 200, create=True)
    fleet = SimulatedFleet(
        rows,
        TrainerHere(world, rows),
        learning_task.layout.fingerprint,
        VirtualDevice(0.4, 20.0, 20.0),
        foresight(experiment, learning_task),
        has_momentum=experiment.learning.momentum > 0.0,
    )
    book = Book()
    settings = replace(
        peer_settings(experiment, system, "r", learning_task, world.moved.trace.steps), alpha=0.4
    )
    held = asyncio.run(
        run_peers(
            settings, world.moved, fleet, book, learning_task.initial_model,
            evaluator=TestSetEvaluator(experiment, learning_task),
        )
    )  # fmt: skip
    return {device: model.copy() for device, model in held.models.items()}, book, rows.in_use


def plainly(world: PeerWorld, system: str) -> dict[int, Vector]:
    """The same without fleet, orders or rows: W as a dense matrix, sums in ascending order of device."""
    learning_task, experiment = world.learning_task, world.experiment
    settings = peer_settings(experiment, system, "r", learning_task, world.moved.trace.steps)
    learner = Learner(learning_spec(experiment, learning_task, Path()))
    devices = range(len(learning_task.parts))
    models: dict[int, Vector] = dict.fromkeys(devices, learning_task.initial_model)
    velocities: dict[int, Vector | None] = dict.fromkeys(devices)
    for step in range(settings.steps):
        here = world.moved.trace.present(step).tolist()
        w = mixing_matrix(
            settings.mixing, world.moved.neighbours(step), speeds=world.moved.speeds,
            samples=[len(part) for part in learning_task.parts], alpha=0.4,
        ).toarray()  # fmt: skip
        half = {}
        for device in here:
            seed = draw_key(experiment.seed, "train", device, step)
            training = LocalTraining(1, seed, settings.training.steps)
            result = learner.train(
                learning_task.shard(device), training, models[device], velocity=velocities[device]
            )
            half[device], velocities[device] = result.vector, result.velocity
        for device in here:
            for away in set(devices) - set(here):
                w[device, device] += w[device, away]
            total: Vector | None = None
            for other in here:
                if w[device, other] != 0.0:
                    term = np.float32(w[device, other]) * half[other]
                    total = term if total is None else total + term
            assert total is not None
            models[device] = total
    return models


@pytest.mark.parametrize("mobility", MOBILITY)
def test_virtual_devices_hold_what_the_plain_loop_computes_to_the_bit(mobility: str, tmp_path: Path) -> None:
    world = PeerWorld.of(experiment_of(mobility))
    digests = set()
    for system in PEER_SYSTEMS.own:
        folder = tmp_path / system
        folder.mkdir()
        models, book, _ = played(world, system, folder)
        expected = plainly(world, system)
        assert all(np.array_equal(models[device], expected[device]) for device in models)
        (scored,) = [record for record in book if isinstance(record, ModelsScored)]
        blobs = [encode(models[device], world.learning_task.layout.fingerprint) for device in scored.devices]
        assert list(scored.digests) == [digest_of(blob) for blob in blobs]
        digests.add(hashlib.sha256(b"".join(blobs)).hexdigest())
    assert len(digests) >= 2  # the mixings differ


@pytest.mark.parametrize("half_step", ["mini_batch", "full_batch", "epochs"])
def test_each_half_step_is_what_it_says(half_step: str, tmp_path: Path) -> None:
    world = PeerWorld.of(experiment_of("dam", decentralised={"half_step": half_step}))
    settings = peer_settings(world.experiment, "d_psgd", "r", world.learning_task, ITERATIONS)
    largest = max(len(part) for part in world.learning_task.parts)
    assert (settings.training.steps, world.experiment.learning.batch_size) == {
        "mini_batch": (1, 8),
        "full_batch": (1, largest),
        "epochs": (0, 8),
    }[half_step]
    models, _, _ = played(world, "d_psgd", tmp_path)
    expected = plainly(world, "d_psgd")
    assert all(np.array_equal(models[device], expected[device]) for device in models)


def test_without_momentum_no_velocity_is_kept(tmp_path: Path) -> None:
    world = PeerWorld.of(experiment_of("random", learning={"momentum": 0.0}))
    _, _, in_use = played(world, "d_psgd", tmp_path)
    with_momentum = tmp_path / "with"
    with_momentum.mkdir()
    _, _, more = played(PeerWorld.of(experiment_of("random")), "d_psgd", with_momentum)
    assert (in_use, more) == (7, 13)  # a model each and the first one; a velocity each


def test_with_everybody_in_reach_plain_averages_are_the_fully_connected_bound(tmp_path: Path) -> None:
    near = PeerWorld.of(experiment_of("static", contacts={"everybody": True}))
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    plain, _, _ = played(near, "d_psgd", one)
    bound, _, _ = played(PeerWorld.of(experiment_of("static")), "fully_connected", other)
    assert all(np.array_equal(plain[device], bound[device]) for device in plain)
