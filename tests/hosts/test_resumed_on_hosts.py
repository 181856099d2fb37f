"""The controller of a bench dies in mid-run; one command goes on, and it ends as if nothing had been."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from hosts.lab.bench_hosts import BenchHosts
from hosts.lab.bench_run import ALWAYS_THERE, BenchRun
from roambench.contract.events import EventKind
from roambench.contract.phases import ACTIVE_PHASES, Phase
from roambench.energy.readings.timeline import partition_check
from roambench.experiment.load import load_experiment
from roambench.rounds.records import (
    CloudAggregated,
    EdgeAggregated,
    ModelsScored,
    OrderGiven,
    OutcomeDecided,
    RunResumed,
    StepClosed,
)
from roambench.runner.composition import run_experiment
from roambench.runner.model_files import GLOBAL_MODEL
from roambench.runner.resuming import NOT_AGAIN
from roambench.runs.folder import RunFolder
from roambench.runs.measured.accounts import account_run, outages_of
from roambench.runs.models import load_model

_SMALL = ('learning.model="mlp"', "learning.images_per_device=40", "learning.test_images=50")
#: A model waits on its device for the upload in the step after.
ROUNDS = (
    'systems=["mohawk"]',
    "trace.steps=4",
    "fleet.agents=3",
    "rounds.cloud_every_steps=2",
    *ALWAYS_THERE,
    *_SMALL,
    "learning.local_epochs=100",
)
#: Devices hold all models there are, and velocities.
PEERS = (
    'systems=["d_psgd"]',
    "fleet.agents=3",
    "decentralised.iterations=4",
    "decentralised.evaluate_every=2",
    'decentralised.half_step="epochs"',
    'mobility.model="static"',
    "contacts.radius=1000.0",
    "energy.idle_baseline_s=3.0",
    *_SMALL,
    "learning.local_epochs=100",
)


def unfaulted(folder: Path, settings: tuple[str, ...]) -> Path:
    """The same on virtual devices, which give the digests of agents."""
    experiment = load_experiment("experiments/demo_full.toml", list(settings))
    (path,) = run_experiment(experiment, fleet="simulated", runs_dir=folder, console=Console(quiet=True))
    return path


def decided(path: Path) -> list[str]:
    """All that was decided in a run, whatever its name."""
    with RunFolder.open(path) as folder:
        kinds = EdgeAggregated, CloudAggregated, OutcomeDecided, ModelsScored, StepClosed
        found = [
            replace(record, wall_s=0.0) if isinstance(record, StepClosed) else record
            for record in folder.read_log()
            if isinstance(record, kinds)
        ]
        return [repr(record).replace(folder.info.name_in_orders, "run") for record in found]


def is_as(run: RunFolder, whole: Path, *, cut: bool = False) -> None:
    """The same model, the same outcomes; every order's joules once, no reading twice, no hole but the outage,
    which begins with the last sign of life of devices that were `cut` off with their controller."""
    assert decided(run.path) == decided(whole)
    assert np.array_equal(*(load_model(path / GLOBAL_MODEL) for path in (run.path, whole)))
    records = run.read_log()
    energy = account_run(run, records)
    assert energy is not None
    outages = outages_of(records)
    assert bool(outages) == bool(records.count(RunResumed))
    works = ("train", "upload", "sync", "exchange")
    ordered = [order.order_id for order in records.only(OrderGiven) if order.kind in works]
    assert len(ordered) == len(set(ordered))
    assert {span.order_id for span in energy.spans if span.phase in ACTIVE_PHASES} == set(ordered)
    for device in energy.devices:
        # Two clocks: a board's borders of the outage are laid on the controller's.
        lost = [(span.start_ns, span.end_ns) for span in device.spans if span.phase is Phase.LOST]
        began = {from_ns for from_ns, _ in outages} if cut else set()
        assert [hole for hole in lost if hole[1] not in began] == outages
        assert partition_check(device.spans, energy.start_ns, energy.end_ns) == []
        assert len(device.readings) == len(set(device.readings.ns.tolist()))


def agents(hosts: BenchHosts) -> list[str]:
    return [hosts.inside(name, "systemctl show -P MainPID roambench-agent") for name in hosts.names]


def test_a_run_whose_controller_was_killed_ends_as_one_left_alone(
    provisioned: BenchHosts, tmp_path: Path
) -> None:
    before = agents(provisioned)
    run = BenchRun(provisioned.bench, tmp_path, *ROUNDS)
    try:
        run.wait_for(EventKind.TRAIN_STARTED, "pi1", "%/00001/00000/train")
        run.stop()
        run.begin_again("resume")
        whole = unfaulted(tmp_path / "whole", ROUNDS)
        with run.finished() as folder:
            assert folder.read_log().count(RunResumed) == 1
            is_as(folder, whole)
            readings = {name: folder.records.readings(name).ns for name in provisioned.names}
            assert NOT_AGAIN in folder.info.doubts
    finally:
        run.stop()
    assert agents(provisioned) == before  # the services lived on,
    assert max(np.diff(ns).max() for ns in readings.values()) < 5e9  # and read their meters all the while


def test_a_run_without_a_server_that_was_stopped_ends_as_one_left_alone(
    provisioned: BenchHosts, tmp_path: Path
) -> None:
    run = BenchRun(provisioned.bench, tmp_path, *PEERS)
    try:
        run.wait_for(EventKind.TRAIN_STARTED, "pi1", "%/00001/00000/exchange")
        assert run.stopped() == 143
        run.begin_again()
        whole = unfaulted(tmp_path / "whole", PEERS)
        with run.finished() as folder:
            assert folder.read_log().count(RunResumed) == 1
            is_as(folder, whole)
    finally:
        run.stop()


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("settings", "seed"), [(ROUNDS, 1), (PEERS, 2)])
def test_ten_kills_at_random_moments(
    provisioned: BenchHosts, tmp_path: Path, settings: tuple[str, ...], seed: int
) -> None:
    """Some come before a resumed run is ready, some in what follows its last step; now and then a host is
    booted before it goes on."""
    draw = random.Random(seed)
    whole = unfaulted(tmp_path / "whole", settings)
    kills = runs = 0
    while kills < 10:
        run, runs = BenchRun(provisioned.bench, tmp_path / str(runs), *settings), runs + 1
        try:
            while run.runs_for(draw.uniform(0.0, 30.0)):
                run.stop()
                kills += 1
                if draw.random() < 0.2:
                    provisioned.reboot(draw.choice(provisioned.names))
                time.sleep(draw.uniform(0.0, 3.0))
                run.begin_again(draw.choice(("resume", "run")))
            with run.finished() as folder:
                is_as(folder, whole)
        finally:
            run.stop()
