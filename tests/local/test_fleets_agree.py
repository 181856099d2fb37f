"""Every paper's system decides and learns the same on virtual devices as on agents over gRPC, bit for bit."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from failing_task import FAILING
from roambench.contract.orders import Vector
from roambench.experiment.sections import Experiment
from roambench.mobility.files import content_hash
from roambench.rounds.loop import run_rounds
from roambench.rounds.ports import Fleet
from roambench.rounds.records import (
    CloudAggregated,
    EdgeAggregated,
    MetricsScored,
    OrderAnswered,
    OrderGiven,
    OutcomeDecided,
    RoundRecord,
    StepClosed,
    StepOpened,
)
from roambench.rounds.rehearsal import MemoryJournal
from roambench.runner.benches.local_bench import local_bench
from roambench.runner.places.simulated import simulated_fleet
from roambench.runner.system_runs.hierarchical import rounds_of
from roambench.runner.world import LearningTask, Movement, learning_task_of
from roambench.runs.folder import RunFolder
from roambench.systems.system import EdgeInput, System
from roambench.vectors import Weights, weighted_mean
from samples import sampled, slow_is_asked_for
from small_traces import drawn_trace

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("workers_of_one_server")]

SYSTEMS = (
    "hierfavg", "macfl", "mohawk", "middle", "middle_plus", "oort", "fedmes", "greedy", "ensemble",
    "macfl_same_step", "fedavg", "heurfedamp", "fedavgm", "fedadam", "fedyogi",
)  # fmt: skip
#: Their cloud aggregates in every step.
EVERY_STEP = ("fedavg", "fedprox", "fedavgm", "fedadam", "fedyogi", "eafl", "fedzero")
#: Whose devices are sent the global model at a cloud aggregation.
SYNCED = frozenset(SYSTEMS) - {"hierfavg", "macfl", "mohawk", "heurfedamp", *EVERY_STEP}
#: One row per device, one letter per step: the AP it is at, "-" while it is away.
WHEREABOUTS = ("aabba", "ab-ab", "-bbaa", "b-a-b")


EXPERIMENT = Experiment.model_validate(
    {
        "seed": 11,
        "systems": (*SYSTEMS, "eafl", "refl", "fedzero"),
        "fleet": {"agents": 4, "aps": 0, "deadline_s": 3600.0},  # that a busy machine keeps, too
        "learning": {"model": "mlp", "images_per_device": 40, "alpha": 0.5},  # unequal classes and losses
        "rounds": {"cloud_every_steps": 2, "sigma": 0.8, "rest_s": 0.0},
        "algorithm": {"per_ap": 1, "lambda1": 0.05, "lambda2": 0.05},  # selection has to choose
        "local": {"time_scale": 12.0, "cpu_slowdown": 1.0, "upload_mbit_s": 0.0, "download_mbit_s": 0.0},
        "simulated": {"workers": 2, "upload_mbit_s": 0.0, "download_mbit_s": 0.0},
        "energy": {"idle_baseline_s": 0.0},
    }
)
#: Two of the systems again, with readings that change what is ordered.
READINGS: dict[str, tuple[str, dict[str, dict[str, object]]]] = {
    "fedmes, the previous edge's model": (
        "fedmes",
        {
            "learning": {"local_steps": 7},  # of 5 in an epoch
            "algorithm": {"previous_edge": "edge_pair", "sync_download": "free", "ties": "random"},
        },
    ),
    "middle, as printed": (
        "middle",
        {"algorithm": {"fresh_uses_ap": True, "stayed_model": "own", "cloud_counts": "printed"}},
    ),
    "fedprox": ("fedavg", {"algorithm": {"proximal": 0.5}}),
    "hierfavg, by distance": ("hierfavg", {}),
    "eafl": ("eafl", {"algorithm": {"parameters": {"eafl": {"exploration_decay": 0.5}}}}),
    "refl": ("refl", {"algorithm": {"parameters": {"refl": {"hold_off_steps": 0, "period_steps": 2}}}}),
    "fedzero": (
        "fedzero",
        {"algorithm": {"parameters": {"fedzero": {"clients": 2, "midnight_step": -12, "clouds": 0.9}}}},
    ),
}
RUNS = (*SYSTEMS, *READINGS)
#: One of each kind of start model, selection and server, and all readings.
SAMPLE = ("hierfavg", "mohawk", "middle_plus", "oort", "ensemble", "fedadam", *READINGS)
#: What a fleet is started with, and so is the same for all runs on it: changes of `EXPERIMENT`.
LEARNING: dict[str, dict[str, object]] = {
    "a CNN, Adam, images cropped and flipped": {
        "model": "mohawk_cnn",
        "optimiser": "adam",
        "learning_rate": 0.001,
        "weight_decay": 0.01,
        "augmentation": "crop_flip",
        "images_per_device": 16,
    },
    "BatchNorm, a loss of the task's own": {
        "task": "batch_norm_task:BatchNormTask",
        "dataset": "",
        "model": "",
    },
}
#: Of models on their way, up and down.
CODECS: dict[str, dict[str, object]] = {
    "int8 up": {"codec_up": "int8"},
    "int4 of the model itself up": {"codec_up": "int4+deflate", "codec_of": "model"},
    "the largest numbers up, bfloat16 down": {"codec_up": "topk:0.05", "codec_down": "bf16"},
    "rank 1 up, int8 down": {"codec_up": "lowrank:1", "codec_down": "int8"},
}
#: They differ in how they mix, and one trains with two proximal terms.
RUNS_OF_LEARNING = ("mohawk", "middle_plus")
#: Selection by presence, by similarity and by losses; start models with and without the device's own.
FAILING_RUNS = ("mohawk", "hierfavg", "fedavg", "middle", "oort", "greedy")
#: Those that choose the device before the models are too much for it.
FAILING_LATER = {"mohawk", "hierfavg", "oort", "greedy"}
Stories = dict[str, Sequence[RoundRecord]]


def changed(experiment: Experiment, changes: Mapping[str, Mapping[str, object]]) -> Experiment:
    """With other values of these keys."""
    values = experiment.model_dump()
    for section, keys in changes.items():
        values[section] |= keys
    return Experiment.model_validate(values)


def experiment_of(run: str, base: Experiment = EXPERIMENT) -> tuple[Experiment, str]:
    """The experiment of a run, and its system."""
    system, changes = READINGS.get(run, (run, {}))
    return changed(base, changes), system


def by_distance(system: System) -> System:
    """With models of near devices weighing more, where they are now and where they trained."""

    def weigh(edge: EdgeInput) -> tuple[Vector, Weights]:
        distances_m = np.array([edge.distances_m, [training.distance_m for training in edge.trainings]])
        weights = 1.0 / distances_m.sum(axis=0)
        weights /= weights.sum()
        return weighted_mean(edge.models, weights), weights

    return dataclasses.replace(system, edge_weights=weigh)


async def stories(
    base: Experiment,
    runs: Sequence[str],
    fleet: Fleet,
    folder: RunFolder,
    movement: Movement,
    learning_task: LearningTask,
) -> Stories:
    """The runs one after the other on the same fleet; the records of each."""
    told: Stories = {}
    for name in runs:
        experiment, system = experiment_of(name, base)
        samples = [len(part) for part in learning_task.parts]
        rounds = rounds_of(experiment, system, movement, folder, samples, learning_task.layout.shapes)
        journal = MemoryJournal()
        await run_rounds(
            dataclasses.replace(rounds.settings, run_id=name.partition(",")[0] + str(len(told))),
            by_distance(rounds.system) if name.endswith("by distance") else rounds.system,
            rounds.association,
            fleet,
            journal,
            learning_task.initial_model,
            throughput=rounds.throughput,
        )
        told[name] = journal.records
    return told


async def both_fleets(base: Path, experiment: Experiment, runs: Sequence[str]) -> dict[str, Stories]:
    trace = drawn_trace(WHEREABOUTS)
    movement = Movement(trace, content_hash(trace))
    learning_task = learning_task_of(experiment, len(WHEREABOUTS))
    with RunFolder.create(
        base / "run",
        experiment,
        run_id="agree",
        system="all",
        trace_hash=movement.content_hash,
        fleet="local",
        device_names=[f"pi-{number:02d}" for number in range(1, 5)],
        time_scale=experiment.local.time_scale,
    ) as folder:
        async with local_bench(experiment, learning_task, folder, print) as bench:
            local = await stories(experiment, runs, bench.fleet, folder, movement, learning_task)
        async with simulated_fleet(experiment, learning_task, 2, base / "simulation") as fleet:
            simulated = await stories(experiment, runs, fleet, folder, movement, learning_task)
    return {"local": local, "simulated": simulated}


@pytest.fixture(scope="module")
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Stories]:
    """Of the sample, or of all runs where slow tests are asked for."""
    runs = RUNS if slow_is_asked_for(request) else SAMPLE
    return asyncio.run(both_fleets(tmp_path_factory.mktemp("agree").resolve(), EXPERIMENT, runs))


@pytest.mark.parametrize("learning", LEARNING)
def test_other_models_and_optimisers_learn_the_same_on_both_fleets(
    learning: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1] / "support"))
    experiment = changed(EXPERIMENT, {"learning": LEARNING[learning]})
    told = asyncio.run(both_fleets(tmp_path.resolve(), experiment, RUNS_OF_LEARNING))
    digests = set()
    for run in RUNS_OF_LEARNING:
        assert decided(told["simulated"][run]) == decided(told["local"][run])
        digests |= {record.digest for record in of(told["local"][run], EdgeAggregated)}
    assert len(digests) >= 6


@pytest.mark.parametrize("codecs", CODECS)
def test_models_that_are_coded_on_their_way_are_the_same_on_both_fleets(codecs: str, tmp_path: Path) -> None:
    """Of systems that aggregate in the next step, send the global model to devices, and keep start models."""
    links, runs = CODECS[codecs], ("mohawk", "middle", "fedmes, the previous edge's model")
    told = asyncio.run(both_fleets(tmp_path.resolve(), changed(EXPERIMENT, {"links": links}), runs))
    for run in runs:
        records = told["local"][run]
        assert decided(told["simulated"][run]) == decided(records)
        assert len({record.digest for record in of(records, EdgeAggregated)}) >= 3
        kinds = {record.order_id: record.kind for record in of(records, OrderGiven)}
        for fleet in told.values():
            for answer in of(fleet[run], OrderAnswered):
                assert answer.status == "done"
                coded = kinds[answer.order_id] == "upload" or "codec_down" in links
                assert bool(answer.coding_s) is (coded and answer.transferred_bytes > 0)
        plain_bytes = 9736
        moved = {kind: [] for kind in ("upload", "train")}
        for answer in of(records, OrderAnswered):
            if (kind := kinds[answer.order_id]) in moved:
                moved[kind].append(answer.transferred_bytes)
        assert 0 < max(moved["upload"]) < plain_bytes / 3
        assert ("codec_down" in links) is (min(moved["train"]) < 0.6 * plain_bytes)


def test_uploads_that_are_coded_in_turn_are_the_same_on_both_fleets(tmp_path: Path) -> None:
    """Without joules MOHAWK's `code_by_joules` codes every other upload."""
    changes = {
        "links": {"codec_up": "topk:0.05"},
        "algorithm": {"parameters": {"mohawk": {"code_by_joules": True}}},
    }
    told = asyncio.run(both_fleets(tmp_path.resolve(), changed(EXPERIMENT, changes), ("mohawk",)))
    records = told["local"]["mohawk"]
    assert decided(told["simulated"]["mohawk"]) == decided(records)
    for fleet in told.values():
        plain = {one.order_id: one.plain for one in of(fleet["mohawk"], OrderGiven) if one.kind == "upload"}
        assert set(plain.values()) == {True, False}
        for answer in of(fleet["mohawk"], OrderAnswered):
            if answer.order_id in plain:
                assert answer.status == "done"
                assert bool(answer.coding_s) is not plain[answer.order_id]
                assert (answer.transferred_bytes == 9736) is plain[answer.order_id]


def test_a_device_that_fails_in_mid_run_fails_alike_on_both_fleets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a state of the model on, which every fleet comes to in the same step: no clock decides."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1] / "support"))
    task = {"task": "failing_task:FailingTask", "dataset": "", "model": ""}
    told = asyncio.run(both_fleets(tmp_path.resolve(), changed(EXPERIMENT, {"learning": task}), FAILING_RUNS))
    for run in FAILING_RUNS:
        records = told["local"][run]
        assert decided(told["simulated"][run]) == decided(records)
        trained = {
            record.order_id: record.step for record in of(records, OrderGiven) if record.kind == "train"
        }
        ended = {"done": [], "refused": []}
        for answer in of(records, OrderAnswered):
            if answer.status != "done":
                assert answer.device == FAILING
                assert "RuntimeError: this board is out of memory (" in answer.reason
            if answer.device == FAILING and answer.order_id in trained:
                ended[answer.status].append(answer.step)
        assert ended["refused"]
        # It had trained before, and the others went on.
        assert (max(ended["done"], default=9) < min(ended["refused"])) is (run in FAILING_LATER)
        rest = [record for record in of(records, OutcomeDecided) if record.outcome == "aggregated"]
        assert FAILING not in {record.device for record in rest if record.step > min(ended["refused"])}
        assert max(record.step for record in rest) >= min(ended["refused"])


def decided(records: Sequence[RoundRecord]) -> list[RoundRecord]:
    """Everything the run decided, in order. What a clock or a rate says is left out."""
    kept: list[RoundRecord] = []
    for record in records:
        match record:
            case (
                StepOpened()
                | OrderGiven()
                | EdgeAggregated()
                | CloudAggregated()
                | OutcomeDecided()
                | MetricsScored()
            ):
                kept.append(record)
            case OrderAnswered():
                kept.append(
                    dataclasses.replace(record, transfer_s=0.0, train_s=0.0, late_s=0.0, coding_s=0.0)
                )
            case StepClosed():
                kept.append(dataclasses.replace(record, wall_s=0.0))
    return kept


def of(records: Sequence[RoundRecord], kind: type) -> list:
    return [record for record in records if isinstance(record, kind)]


@pytest.mark.parametrize("system", sampled(SAMPLE, RUNS))
def test_placements_orders_weights_and_digests_are_equal(told: dict[str, Stories], system: str) -> None:
    assert decided(told["simulated"][system]) == decided(told["local"][system])


@pytest.mark.parametrize("system", sampled(SAMPLE, RUNS))
def test_there_was_something_to_compare(told: dict[str, Stories], system: str) -> None:
    records = told["local"][system]
    assert all(answer.status == "done" for answer in of(records, OrderAnswered))
    assert len({record.digest for record in of(records, EdgeAggregated)}) >= 3
    assert len(of(records, CloudAggregated)) == (5 if system in EVERY_STEP else 2)
    synced = [record for record in of(records, OrderGiven) if record.kind == "sync"]
    assert bool(synced) is (experiment_of(system)[1] in SYNCED)
    # Of both cloud aggregations MIDDLE's Eq. 23, which devices tell.
    assert len(of(records, MetricsScored)) == (2 if synced else 0)


def test_no_two_systems_learn_the_same_model(told: dict[str, Stories]) -> None:
    final = {run: of(records, CloudAggregated)[-1].digest for run, records in told["local"].items()}
    assert len(set(final.values())) == len(final) >= len(SAMPLE), final


def test_a_previous_edges_model_is_a_second_download_and_a_free_sync_none(told: dict[str, Stories]) -> None:
    records = told["local"]["fedmes, the previous edge's model"]
    kinds = {record.order_id: record.kind for record in of(records, OrderGiven)}
    moved = {kind: set[int]() for kind in ("train", "sync")}
    for answer in of(records, OrderAnswered):
        if kinds[answer.order_id] in moved:
            moved[kinds[answer.order_id]].add(answer.transferred_bytes)
    assert moved["sync"] == {0}
    once, twice = sorted(moved["train"])
    assert twice == 2 * once > 0
