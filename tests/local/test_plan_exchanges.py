"""A plan of devices that exchange with each other is within a factor of 1.5 of what then happens: on virtual
devices, on local agents, and on a bench of agents that live as services do.

Times are held as in `test_plan`: longer by what others took of the machine, by nothing on a free one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from living_agents import LivingBench
from planned_runs import FACTOR, Happened, near, plan_and_run
from roambench.report.report import report
from roambench.rounds.records import ModelsExchanged
from roambench.runs.folder import RunFolder
from samples import sampled

pytestmark = [pytest.mark.timeout(600), pytest.mark.alone]
NAMES = ("board-a", "board-b", "board-c")
#: `test_plan` has the virtual devices and the agents of rounds; half a minute each, so that one kind of fleet
#: is the sample here.
FLEETS = pytest.mark.parametrize("fleet", sampled(["agents"], ["agents", "bench"]))
WORLD = """
seed = 3
systems = ["metropolis_hastings"]
mobility = { model = "random", grid = 4, mobile = 2 }
contacts.radius = 2.0
"""
VIRTUAL = """
name = "virtual"
fleet.agents = 8
learning = { model = "mohawk_cnn", images_per_device = 40, test_images = 60 }
decentralised = { iterations = 8, evaluate_every = 4, half_step = "full_batch" }
"""
#: A model of 2.6 MB takes a second of a link of 20 Mbit/s, so that exchanges are something to plan.
AGENTS = """
name = "agents"
fleet.agents = 3
learning = { model = "mohawk_cnn", images_per_device = 20, test_images = 40 }
decentralised = { iterations = 5, evaluate_every = 5, half_step = "mini_batch" }
local = { time_scale = 8.0, sgd_step_s = 3.0, power_shape = "steady" }
energy.idle_baseline_s = 6.0
rounds.rest_s = 1.0
"""
#: Agents of this machine are as fast as it is, and so are their links.
BENCH = """
name = "bench"
fleet.agents = 3
learning = { model = "mohawk_cnn", images_per_device = 60, test_images = 40 }
decentralised = { iterations = 6, evaluate_every = 6, half_step = "epochs" }
local.cpu_slowdown = 1.0
links.port_mbit_s = 1000.0
energy.idle_baseline_s = 2.0
rounds.rest_s = 0.0
"""


@pytest.fixture(scope="module")
def virtual(tmp_path_factory: pytest.TempPathFactory) -> Happened:
    return plan_and_run(tmp_path_factory.mktemp("virtual"), VIRTUAL + WORLD, "simulated")


@pytest.mark.slow
def test_on_virtual_devices_the_computing_is_near(virtual: Happened) -> None:
    assert virtual.computing_is_near


@pytest.mark.slow
def test_on_virtual_devices_the_time_on_a_free_machine_is_near(virtual: Happened) -> None:
    assert virtual.time_is_near


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Happened:
    return plan_and_run(tmp_path_factory.mktemp("agents"), AGENTS + WORLD, "local")


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Happened]:
    living = LivingBench(tmp_path_factory.mktemp("bench"), NAMES)
    living.start()
    try:
        yield plan_and_run(living.folder, BENCH + WORLD, f"bench:{living.file}")
    finally:
        living.stop()


def moved_bytes(run: Path) -> int:
    with RunFolder.open(run) as folder:
        exchanges = [record for record in folder.read_log() if isinstance(record, ModelsExchanged)]
    return sum(record.sent_bytes + record.received_bytes + record.downloaded_bytes for record in exchanges)


@FLEETS
def test_on_agents_the_joules_are_near_what_the_meters_saw(
    fleet: str, request: pytest.FixtureRequest
) -> None:
    happened: Happened = request.getfixturevalue(fleet)
    energy = report([happened.run]).summaries[0].measured
    assert energy is not None
    plan = happened.plan
    print(plan, energy.whole_run, energy.whole_run_net, energy.duration_s, happened.free)
    gross_j = sum(item.gross_j for item in plan.joules)
    assert energy.whole_run.joules * happened.free / FACTOR <= gross_j <= energy.whole_run.joules * FACTOR
    assert energy.duration_s * happened.free / FACTOR <= plan.device_s <= energy.duration_s * FACTOR


def test_on_local_agents_the_joules_above_idle_are_near(agents: Happened) -> None:
    energy = report([agents.run]).summaries[0].measured
    assert energy is not None
    assert near(sum(item.net_j for item in agents.plan.joules), energy.whole_run_net.joules)


@FLEETS
def test_on_agents_the_bytes_and_the_disk_are_near(fleet: str, request: pytest.FixtureRequest) -> None:
    happened: Happened = request.getfixturevalue(fleet)
    assert happened.plan.transferred_bytes == moved_bytes(happened.run) > 0
    assert near(happened.plan.disk_bytes, happened.disk_bytes)
