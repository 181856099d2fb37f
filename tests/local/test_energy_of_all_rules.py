"""Edge, cloud and mixing rules that weigh by joules: over a kill, over a replay, and by the log."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from foreign_packages import install
from roambench.rounds.records import (
    BatteriesSeen,
    CloudAggregated,
    EdgeAggregated,
    EnergySeen,
    MixingPlanned,
)
from roambench.runner.model_files import GLOBAL_MODEL
from roambench.runs.event_log import EventLog
from roambench.runs.folder import RunFolder
from roambench.runs.models import load_model

from .resumed import command, ended, story, whole_and_killed

pytestmark = pytest.mark.timeout(600)

#: Devices count by how few joules they spent, access points by the joules of the devices behind them.
RULES = """
from dataclasses import replace

import numpy as np
from scipy import sparse

from roambench.aggregation import data_size_weights
from roambench.systems.mohawk import mohawk
from roambench.systems.peers import PeerSystem
from roambench.vectors import weighted_mean


def spent_j(seen, devices):
    return [1.0 + seen[device].total.joules for device in devices]


def at_edge(edge):
    joules = spent_j(edge.energy, [training.device for training in edge.trainings])
    left = [1.0 + edge.charges.get(training.device, 0.0) for training in edge.trainings]
    weights = data_size_weights([charge / joule for charge, joule in zip(left, joules)])
    return weighted_mean(edge.models, weights), weights


def in_cloud(cloud):
    joules = [
        sum(spent_j(cloud.energy, [training.device for training in work.trainings])) for work in cloud.work
    ]
    weights = data_size_weights(joules)
    return weighted_mean(cloud.models, weights), weights


def frugal(options):
    \"\"\"MOHAWK whose thrifty devices count more.\"\"\"
    rules = {"edge_weights": at_edge, "cloud_weights": in_cloud}
    return replace(mohawk(options), name="frugal", sees_energy=True, **rules)


def by_joules(neighbours, *, speeds, samples, alpha, energy):
    share = 1.0 / np.array(spent_j(energy, range(neighbours.shape[0])))
    met = (sparse.csr_array(neighbours) != 0).astype(float) + sparse.eye_array(neighbours.shape[0])
    weights = sparse.csr_array(met.multiply(share[None, :]))
    return sparse.csr_array(sparse.diags_array(1.0 / weights.sum(axis=1)) @ weights)


BY_JOULES = PeerSystem("by_joules", by_joules, "thrifty devices count more", sees_energy=True)
"""
POINTS = {
    "roambench.systems": {"frugal": "pocket_bench.frugal:frugal"},
    "roambench.peer_systems": {"by_joules": "pocket_bench.frugal:BY_JOULES"},
}
ROUNDS = """
name = "cut"
seed = 5
systems = ["frugal"]
rounds.cloud_every_steps = 2
trace = { generator = "city", steps = 9, parameters = { presence = "always", devices = 6 } }
fleet = { agents = 6, aps = 3 }
learning = { dataset = "digits", model = "mlp", images_per_device = 100, test_images = 50, local_epochs = 5 }
simulated = { workers = 2 }
battery = { capacity_wh = 4.0, start_spread = 0.4 }
"""
MEETINGS = """
name = "cut"
seed = 5
systems = ["by_joules"]
fleet = { agents = 6 }
decentralised = { iterations = 12 }
learning = { dataset = "digits", model = "mlp", images_per_device = 100, test_images = 50 }
simulated = { workers = 2 }
"""


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = install(tmp_path, {"pocket_bench/frugal.py": RULES}, POINTS)
    monkeypatch.setenv("PYTHONPATH", str(site))


def log_of(run: Path) -> EventLog:
    with RunFolder.open(run) as folder:
        return folder.read_log()


def seen_j(log: EventLog, rules: str) -> dict[int, dict[int, float]]:
    """By step and device, 1 more than the joules in all."""
    return {
        record.step: {
            device: 1.0 + joules
            for device, phase, joules in zip(record.devices, record.phases, record.joules, strict=True)
            if not phase
        }
        for record in log.only(EnergySeen)
        if record.rules == rules
    }


def test_edge_and_cloud_weigh_by_what_the_log_keeps_as_ever_after_a_kill(tmp_path: Path) -> None:
    whole, run = whole_and_killed(tmp_path, ROUNDS, "frugal")
    assert story(run) == story(whole)
    log = log_of(whole)
    joules = seen_j(log, "aggregation")
    charges = {record.step: record.charges for record in log.only(BatteriesSeen)}
    edges = list(log.only(EdgeAggregated))
    for edge in edges:
        raw = [(1.0 + charges[edge.step][one]) / joules[edge.step][one] for one in edge.devices]
        assert edge.weights == pytest.approx([one / sum(raw) for one in raw], rel=1e-12)
    assert max(len(edge.devices) for edge in edges) > 1
    behind: dict[int, list[int]] = {}
    clouds = {record.step: record for record in log.only(CloudAggregated)}
    for step in range(9):
        for edge in edges:
            if edge.step == step:
                behind.setdefault(edge.ap, []).extend(edge.devices)
        if step in clouds:
            raw = [sum(joules[step][device] for device in behind[ap]) for ap in clouds[step].aps]
            assert clouds[step].weights == pytest.approx([one / sum(raw) for one in raw], rel=1e-12)
            behind.clear()
    assert len(clouds) == 4
    # A look before a step's uploads has no joules of them.
    assert max(joules[0].values()) == 1.0 < min(joules[8].values())


def test_devices_mix_by_joules_as_ever_after_a_kill_and_in_a_replay(tmp_path: Path) -> None:
    whole, _ = whole_and_killed(tmp_path, MEETINGS, "by_joules")
    log = log_of(whole)
    joules = seen_j(log, "mixing")
    assert max(joules[0].values()) == 1.0 < min(joules[11].values())
    assert len(set(joules[11].values())) == 6
    met = 0
    for planned in log.only(MixingPlanned):
        ends = np.cumsum(planned.counts)
        for row, weights in zip(
            np.split(np.array(planned.columns), ends[:-1]),
            np.split(np.array(planned.weights), ends[:-1]),
            strict=True,
        ):
            share = np.array([1.0 / joules[planned.step][device] for device in row.tolist()])
            assert weights == pytest.approx(share / share.sum(), rel=1e-12)
            met += len(row) > 1
    assert met > 10
    # Hungrier boards spend other joules; a replay weighs by those of the run that it names.
    begin = ("run", str(tmp_path / "cut.toml"), "--fleet", "simulated")
    orders = (*begin, "--set", "simulated.train_w=9.0", "--runs-dir")
    again = tmp_path / "again/cut/latest/by_joules"
    replay = ("--set", f'rounds.orders="replay:{whole}"')
    with command(tmp_path, *orders, str(again.parents[2]), *replay) as process:
        ended(tmp_path, process)
    assert seen_j(log_of(again), "mixing") == joules
    assert (load_model(again / GLOBAL_MODEL) == load_model(whole / GLOBAL_MODEL)).all()


def test_measured_joules_weigh_on_agents_and_a_replay_ends_as_the_run(launch) -> None:
    settings = ('systems=["frugal"]', "fleet.agents=3", "rounds.cloud_every_steps=2")
    run = launch(*settings).finish().folder("frugal")
    joules = seen_j(log_of(run), "aggregation")
    assert max(joules[max(joules)].values()) > 2.0
    replayed = launch(*settings, f'rounds.orders="replay:{run}"').finish().folder("frugal")
    assert seen_j(log_of(replayed), "aggregation") == joules
    models = [load_model(path / GLOBAL_MODEL) for path in (run, replayed)]
    assert np.array_equal(*models)
