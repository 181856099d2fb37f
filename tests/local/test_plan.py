"""A plan is within a factor of 1.5 of what then happens, on virtual devices and on local agents.

How long a machine takes that others use, too, no plan can know: seconds of wall time may be longer by as much
of the machine as others took while it ran, and on a free machine by nothing.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planned_runs import FACTOR, Happened, near, plan_and_run
from roambench.experiment.load import load_experiment
from roambench.plan.plan import plan_experiment
from roambench.report.report import report
from roambench.rounds.records import OrderGiven
from roambench.runs.folder import RunFolder

pytestmark = [pytest.mark.timeout(600), pytest.mark.alone]
WORLD = """
seed = 3
systems = ["mohawk"]
rounds.cloud_every_steps = 3
trace.generator = "city"
"""
VIRTUAL = """
name = "virtual"
trace.steps = 6
fleet = { agents = 8, aps = 4 }
learning = { model = "mohawk_cnn", images_per_device = 60 }
links.link = "modelled"
"""
AGENTS = """
name = "agents"
trace.steps = 8
fleet = { agents = 3, aps = 4 }
learning = { model = "mlp", images_per_device = 60 }
local = { time_scale = 12.0, sgd_step_s = 0.17, power_shape = "steady" }
energy.idle_baseline_s = 10.0
rounds.rest_s = 1.0
"""


@pytest.fixture(scope="module")
def virtual(tmp_path_factory: pytest.TempPathFactory) -> Happened:
    return plan_and_run(tmp_path_factory.mktemp("virtual"), VIRTUAL + WORLD, "simulated")


def test_on_virtual_devices_the_joules_and_bytes_are_those_of_the_run(virtual: Happened) -> None:
    modelled = json.loads((virtual.run / "summary.json").read_text())["modelled"]
    assert virtual.plan.transferred_bytes == modelled["bytes"] > 0
    assert {item.phase for item in virtual.plan.joules} == {"download", "train", "upload"}
    for item in virtual.plan.joules:
        real = modelled["phases"][item.phase]
        assert item.gross_j == pytest.approx(real["gross_j"], rel=0.02)
        assert item.idle_j == pytest.approx(real["idle_j"], rel=0.02)
        assert item.net_j == pytest.approx(real["net_j"], rel=0.02)


def test_coded_models_are_planned_by_the_length_of_their_codes(tmp_path: Path) -> None:
    """Exactly where a code's length is its codec's own; packed bytes differ from model to model."""
    small = VIRTUAL.replace('"mohawk_cnn"', '"mlp"').replace('link = "modelled"', 'codec_up = "int8"')
    coded = plan_and_run(tmp_path, f'{small}links.codec_down = "fp16"\n{WORLD}', "simulated")
    modelled = json.loads((coded.run / "summary.json").read_text())["modelled"]
    assert coded.plan.transferred_bytes == modelled["bytes"] > 0
    phases = {item.phase: item for item in coded.plan.joules}
    assert phases.keys() == {"download", "decode", "train", "encode", "upload"}
    for name, item in phases.items():
        assert item.gross_j == pytest.approx(modelled["phases"][name]["gross_j"], rel=0.02)
    file = tmp_path / "packed.toml"
    file.write_text(f'{small}links.codec_down = "fp16+deflate"\n{WORLD}')
    (packed,) = plan_experiment(load_experiment(file), "simulated")
    assert 0.8 * coded.plan.transferred_bytes < packed.transferred_bytes < coded.plan.transferred_bytes


def test_on_virtual_devices_trainings_and_disk_are_near(virtual: Happened) -> None:
    summary = json.loads((virtual.run / "summary.json").read_text())
    assert virtual.plan.trainings == summary["trainings"]
    assert near(virtual.plan.disk_bytes, virtual.disk_bytes)
    assert virtual.plan.peak_disk_bytes > virtual.plan.disk_bytes


def test_on_virtual_devices_the_computing_is_near(virtual: Happened) -> None:
    assert virtual.computing_is_near


def test_on_virtual_devices_the_time_on_a_free_machine_is_near(virtual: Happened) -> None:
    assert virtual.time_is_near


def test_a_plan_counts_the_computing_of_trainings_that_are_used(virtual: Happened, tmp_path: Path) -> None:
    file = tmp_path / "experiment.toml"
    file.write_text(VIRTUAL + WORLD)
    (always,) = plan_experiment(load_experiment(file, ['simulated.train="always"']), "simulated")
    with RunFolder.open(virtual.run) as folder:
        records = tuple(folder.read_log())
    uploads = [record for record in records if isinstance(record, OrderGiven) and record.kind == "upload"]
    assert always.computed == always.trainings == virtual.plan.trainings
    assert virtual.plan.computed == len(uploads)
    assert 0 < len(uploads) < always.trainings


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Happened:
    return plan_and_run(tmp_path_factory.mktemp("agents"), AGENTS + WORLD, "local")


def test_on_local_agents_the_joules_are_near_what_the_meters_saw(agents: Happened) -> None:
    energy = report([agents.run]).summaries[0].measured
    assert energy is not None
    print(agents.plan, energy.whole_run, energy.whole_run_net, energy.duration_s, agents.free)
    gross_j = sum(item.gross_j for item in agents.plan.joules)
    # Waiting for a machine that others use costs idle joules and time, but nothing above idle.
    assert energy.whole_run.joules * agents.free / FACTOR <= gross_j <= energy.whole_run.joules * FACTOR
    assert near(sum(item.net_j for item in agents.plan.joules), energy.whole_run_net.joules)
    assert energy.duration_s * agents.free / FACTOR <= agents.plan.device_s <= energy.duration_s * FACTOR


def test_on_local_agents_the_bytes_and_the_disk_are_near(agents: Happened) -> None:
    summary = report([agents.run]).summaries[0]
    assert summary.energy is not None
    # All of them: sums leave out a transfer of which a busy machine's meter missed a part.
    moved = sum(transfer.transferred_bytes for transfer in summary.energy.comparison.transfers)
    assert agents.plan.transferred_bytes == moved > 0
    assert near(agents.plan.disk_bytes, agents.disk_bytes)
