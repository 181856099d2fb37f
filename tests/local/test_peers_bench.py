"""Living agents of a bench exchange models in two runs in succession, and are closed again after them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import psutil
import pytest
from safetensors.numpy import load_file

from living_agents import LivingBench
from roambench.contract.events import EventKind
from roambench.rounds.records import FleetEvent, ModelsExchanged
from roambench.runs.folder import RunFolder

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]  # on a machine that does other things

NAMES = ("board-a", "board-b", "board-c")
SYSTEMS = ("d_psgd", "metropolis_hastings")
STEPS = 4
EXPERIMENT = f"""
name = "peers"
seed = 3
systems = ["d_psgd", "metropolis_hastings"]

[fleet]
agents = 3

[learning]
dataset = "digits"
model = "mlp"
images_per_device = 40
test_images = 200
alpha = 0.5

[decentralised]
iterations = {STEPS}
evaluate_every = 2

[mobility]
model = "random"
grid = 3
mobile = 2

[contacts]
radius = 1.5

[rounds]
rest_s = 0.0

[energy]
idle_baseline_s = 1.0
"""


@dataclass
class Story:
    bench: LivingBench
    real: dict[str, RunFolder]
    virtual: dict[str, RunFolder]


@pytest.fixture(scope="module")
def bench(tmp_path_factory) -> Iterator[LivingBench]:
    living = LivingBench(tmp_path_factory.mktemp("peers"), NAMES)
    living.start()
    yield living
    living.stop()


@pytest.fixture(scope="module")
def story(launch, bench) -> Story:
    file = bench.folder / "experiment.toml"
    file.write_text(EXPERIMENT)
    words = ("--fleet", f"bench:{bench.file}", "--no-preflight", "--unproven")
    real = launch(file=file, name="peers", words=words).finish(400)
    virtual = launch(file=file, name="peers", words=("--fleet", "simulated")).finish(400)
    return Story(
        bench,
        {system: RunFolder.open(real.folder(system)) for system in SYSTEMS},
        {system: RunFolder.open(virtual.folder(system)) for system in SYSTEMS},
    )


def told(folder: RunFolder, kind: type) -> list:
    return [record for record in folder.read_log() if isinstance(record, kind)]


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_bench_learns_the_same_models_as_virtual_devices(story: Story, system: str) -> None:
    real, virtual = (
        load_file(folders[system].path / "models" / "global.safetensors")
        for folders in (story.real, story.virtual)
    )
    assert real.keys() == virtual.keys()
    assert all(np.array_equal(real[name], virtual[name]) for name in real)


@pytest.mark.parametrize("system", SYSTEMS)
def test_nobody_is_left_out(story: Story, system: str) -> None:
    exchanged = told(story.real[system], ModelsExchanged)
    assert len(exchanged) == 3 * STEPS
    assert all(record.left_out == record.not_taken == () for record in exchanged)
    assert sum(record.sent_bytes for record in exchanged) > 0


@pytest.mark.parametrize("system", SYSTEMS)
def test_each_run_opens_a_port_of_its_own_on_the_data_interface(story: Story, system: str) -> None:
    opened = [e for e in told(story.real[system], FleetEvent) if e.kind == EventKind.PEER_PORT_OPEN]
    assert sorted({event.name for event in opened}) == sorted(NAMES)
    assert {event.detail.rpartition(":")[0] for event in opened} == {"127.0.0.1"}


def test_between_runs_no_port_is_open_and_no_model_is_kept(story: Story) -> None:
    deadline_s = time.monotonic() + 120
    while any(story.bench.status(name).get("session") != "dialling" for name in NAMES):
        assert time.monotonic() < deadline_s
        time.sleep(0.2)
    for name in NAMES:
        agent = psutil.Process(story.bench.processes[name].pid)
        assert [c for c in agent.net_connections("tcp") if c.status == psutil.CONN_LISTEN] == []
        assert list((story.bench.folder / name / "state" / "held").iterdir()) == []
