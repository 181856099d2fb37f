"""Every way of mixing, under every way of moving, learns the same on virtual devices as on agents that send
their models to each other over gRPC, bit for bit."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest

from roambench.contract.model_blob import encode
from roambench.contract.model_digest import digest_of
from roambench.contract.orders import Answer, Order, Vector
from roambench.experiment.sections import Experiment
from roambench.mobility.peer_movement import trace_movement
from roambench.rounds.peer_loop import run_peers
from roambench.rounds.peer_run import PeerState
from roambench.rounds.ports import Fleet, OnAnswer, keep_all
from roambench.rounds.records import MixingPlanned, ModelsExchanged, OrderGiven, OutcomeDecided, RoundRecord
from roambench.rounds.rehearsal import MemoryJournal
from roambench.runner.benches import local_bench as module
from roambench.runner.benches.local_bench import local_bench
from roambench.runner.places.simulated import simulated_fleet
from roambench.runner.system_runs.decentralised import PeerWorld, movement_named, peer_settings
from roambench.runs.folder import RunFolder
from roambench.systems.peers import PEER_SYSTEMS
from samples import sampled, slow_is_asked_for
from small_traces import drawn_trace

from .late_agents import late_agents

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("workers_of_one_server")]

DEVICES, STEPS = 5, 3
#: All that move by a model, and a trace in which devices come and go.
MOBILITY: dict[str, dict[str, dict[str, object]]] = {
    "static": {"mobility": {"model": "static", "grid": 3}, "contacts": {"radius": 1.5}},
    "random": {"mobility": {"model": "random", "grid": 4, "mobile": 2}, "contacts": {"radius": 2.0}},
    "dam": {"mobility": {"model": "dam", "grid": 4, "mobile": 2}, "contacts": {"radius": 2.0}},
    "dcm": {
        "mobility": {"model": "dcm", "grid": 4, "mobile": 2, "reach": 0.0, "ties": "most_static"},
        "contacts": {"radius": 2.0},
    },
    "reflected_walk": {
        "mobility": {"model": "reflected_walk", "width_m": 60.0, "height_m": 60.0, "fast_share": 0.4},
        "contacts": {"radius": 20.0},
    },
    "trace": {"mobility": {"model": "static"}},  # replaced by WHEREABOUTS
}
#: One row per device, one letter per step: where it is, "-" while it is away.
WHEREABOUTS = ("aab", "ab-", "-bb", "bba", "b-a")
PAIRS = tuple(product(PEER_SYSTEMS.own, MOBILITY))
#: Every way of mixing where devices move at random, and one of them under every other way of moving.
SAMPLE = tuple(pair for pair in PAIRS if "random" in pair or pair[0] == "metropolis_hastings")


def experiment_of(mobility: str) -> Experiment:
    return Experiment.model_validate(
        {
            "seed": 11,
            "systems": tuple(PEER_SYSTEMS.own),
            "fleet": {"agents": DEVICES, "aps": 0},
            # Unequal classes and shares, and momentum, which stays on its device.
            "learning": {"model": "mlp", "images_per_device": 40, "alpha": 0.5, "momentum": 0.9},
            "decentralised": {
                "iterations": STEPS,
                "evaluate_every": STEPS,
                "alpha": 0.7,
                "exchange_deadline_s": 300.0,  # a machine that stands still for seconds leaves no device out
            },
            "local": {
                "time_scale": 12.0,
                "cpu_slowdown": 1.0,
                "upload_mbit_s": 0.0,
                "download_mbit_s": 0.0,
            },
            "simulated": {"workers": 2, "upload_mbit_s": 0.0, "download_mbit_s": 0.0},
            "energy": {"idle_baseline_s": 0.0},
            "rounds": {"rest_s": 0.0},
            **MOBILITY[mobility],
        }
    )


@dataclass(frozen=True)
class Story:
    records: list[RoundRecord]
    held: PeerState

    def digests(self) -> dict[int, str]:
        return {device: digest_of(encode(model, "")) for device, model in self.held.models.items()}


Stories = dict[tuple[str, str], Story]


@dataclass(frozen=True)
class Later:
    """A fleet that is given each step's number plus `steps`: no run comes to a step twice."""

    fleet: Fleet
    steps: int

    async def perform(self, orders: Sequence[Order], on_answer: OnAnswer = keep_all) -> list[Answer]:
        later = [dataclasses.replace(order, step=order.step + self.steps) for order in orders]
        return await self.fleet.perform(later, on_answer)

    def publish(self, model: Vector) -> str:
        return self.fleet.publish(model)

    def retain(self, digests: Collection[str]) -> None:
        self.fleet.retain(digests)


async def stories(fleet: Fleet, worlds: dict[str, PeerWorld], pairs: Sequence[tuple[str, str]]) -> Stories:
    """The pairs one after the other on the same fleet."""
    found_stories: Stories = {}
    for number, (system, mobility) in enumerate(pairs):
        world, journal = worlds[mobility], MemoryJournal()
        settings = peer_settings(
            world.experiment, system, f"agree{number}", world.learning_task, world.movement.trace.steps
        )
        later = Later(fleet, number * STEPS)
        held = await run_peers(settings, world.moved, later, journal, world.learning_task.initial_model)
        found_stories[system, mobility] = Story(list(journal.records), held)
    return found_stories


def world_of(mobility: str) -> PeerWorld:
    world = PeerWorld.of(experiment_of(mobility))
    if mobility != "trace":
        return world
    moved = trace_movement(drawn_trace(WHEREABOUTS), 200.0, "any_moment")
    return dataclasses.replace(world, moved=moved, movement=movement_named(moved))


async def both_fleets(base: Path, pairs: Sequence[tuple[str, str]]) -> dict[str, Stories]:
    worlds = {mobility: world_of(mobility) for mobility in MOBILITY}
    world = worlds["static"]
    with RunFolder.create(
        base / "run",
        world.experiment,
        run_id="agree",
        system="all",
        trace_hash=world.movement.content_hash,
        fleet="local",
        device_names=[f"pi-{number:02d}" for number in range(1, DEVICES + 1)],
        time_scale=world.experiment.local.time_scale,
    ) as folder:
        async with local_bench(world.experiment, world.learning_task, folder, print) as bench:
            local = await stories(bench.fleet, worlds, pairs)
        async with simulated_fleet(
            world.experiment, world.learning_task, 1, base / "simulation", peers=True, peak=5 * DEVICES
        ) as fleet:
            simulated = await stories(fleet, worlds, pairs)
    return {"local": local, "simulated": simulated}


@pytest.fixture(scope="module")
def found_stories(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Stories]:
    """Return the stories of the sample, or of all pairs where slow tests are asked for."""
    pairs = PAIRS if slow_is_asked_for(request) else SAMPLE
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LocalAgents", late_agents(0.02))
        return asyncio.run(both_fleets(tmp_path_factory.mktemp("peers").resolve(), pairs))


def decided(records: list[RoundRecord]) -> Iterator[RoundRecord]:
    """Everything the run decided and counted. What a clock says is left out."""
    for record in records:
        match record:
            case OrderGiven():
                yield dataclasses.replace(record, paced_mbit_s=0.0)
            case ModelsExchanged():
                yield dataclasses.replace(record, exchange_s=0.0, download_s=0.0, digest="")
            case MixingPlanned() | OutcomeDecided():
                yield record


@pytest.mark.parametrize(("system", "mobility"), sampled(SAMPLE, PAIRS))
def test_orders_weights_bytes_and_digests_are_equal(
    found_stories: dict[str, Stories], system: str, mobility: str
) -> None:
    local, simulated = found_stories["local"][system, mobility], found_stories["simulated"][system, mobility]
    assert local.digests() == simulated.digests()
    # Virtual devices that are away hear nothing of it.
    orders = [record for record in decided(local.records) if getattr(record, "kind", "") != "idle"]
    assert orders == [
        record for record in decided(simulated.records) if getattr(record, "kind", "") != "idle"
    ]


@pytest.mark.parametrize(("system", "mobility"), sampled(SAMPLE, PAIRS))
def test_there_was_something_to_compare(
    found_stories: dict[str, Stories], system: str, mobility: str
) -> None:
    local = found_stories["local"][system, mobility]
    exchanged = [record for record in local.records if isinstance(record, ModelsExchanged)]
    assert len(exchanged) > DEVICES
    assert [(record.device, record.reasons) for record in exchanged if record.left_out] == []
    assert sum(record.sent_bytes for record in exchanged) == sum(
        record.received_bytes for record in exchanged
    )
    assert sum(record.received_bytes for record in exchanged) > 0
    initial = set(local.digests().values())
    assert len(initial) == 1 if system == "fully_connected" and mobility != "trace" else len(initial) > 1


@pytest.mark.parametrize("mobility", sampled(["random"], ["random", "reflected_walk"]))
def test_no_two_ways_of_mixing_learn_the_same_models(
    found_stories: dict[str, Stories], mobility: str
) -> None:
    """But for sizes: all devices have as many samples."""
    ways = [system for system in PEER_SYSTEMS.own if system != "data_size"]
    finals = {tuple(sorted(found_stories["local"][way, mobility].digests().items())) for way in ways}
    assert len(finals) == len(ways) == 4
