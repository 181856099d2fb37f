"""In float64 every way to compute virtual devices' trainings gives the same models: backend, stack, memory
layout and thread count change nothing above 1e-9."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from roambench.contract.errors import ConfigError
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.local_training import LocalTraining
from roambench.experiment.sections import Experiment
from roambench.learning.layout import flatten
from roambench.learning.learner import Learner
from roambench.learning.models.build import build
from roambench.learning.shards import Shard
from roambench.mobility.files import content_hash
from roambench.rounds.loop import run_rounds
from roambench.rounds.records import CloudAggregated, EdgeAggregated, OrderAnswered
from roambench.rounds.rehearsal import MemoryJournal
from roambench.runner.composition import run_experiment
from roambench.runner.places.simulated import simulated_fleet
from roambench.runner.system_runs.hierarchical import rounds_of
from roambench.runner.world import Movement, learning_task_of
from roambench.runs.folder import RunFolder
from samples import sampled, slow_is_asked_for
from small_traces import drawn_trace

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("workers_of_one_server")]

SYSTEMS = (
    "hierfavg", "macfl", "mohawk", "middle", "middle_plus", "oort", "fedmes", "greedy", "ensemble",
)  # fmt: skip
#: Edges without an own model, with one, and several models at once.
SAMPLE = ("hierfavg", "middle_plus", "ensemble")
WHEREABOUTS = ("aabba", "ab-ab", "-bbaa", "b-a-b", "abbab")

#: What [simulated] and [learning] say of each layout. `workers` counts processes, or threads of a stack.
LAYOUTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "workers": ({"workers": 2}, {}),
    "channels first": ({"workers": 2}, {"channels_last": False}),
    "stack of 1": ({"backend": "stacked", "device": "cpu", "stack": 1, "workers": 1}, {}),
    "stack of 3, two threads": ({"backend": "stacked", "device": "cpu", "stack": 3, "workers": 2}, {}),
    "stack of all": ({"backend": "stacked", "device": "cpu", "stack": 64, "workers": 1}, {}),
}
if torch.cuda.is_available():
    LAYOUTS["stack on the GPU"] = ({"backend": "stacked", "device": "cuda", "stack": 64}, {})
OTHERS = [name for name in LAYOUTS if name != "workers"]


def experiment(simulated: Mapping[str, Any], learning: Mapping[str, Any]) -> Experiment:
    return Experiment.model_validate(
        {
            "seed": 11,
            "systems": SYSTEMS,
            "fleet": {"agents": 5, "aps": 0},
            # 9 images in batches of 4: the last one has 1.
            "learning": {
                "model": "dfl_cnn",
                "images_per_device": 9,
                "batch_size": 4,
                "alpha": 0.5,
                **learning,
            },
            "rounds": {"cloud_every_steps": 2, "sigma": 0.8},
            "algorithm": {"per_ap": 1, "lambda1": 0.05, "lambda2": 0.05},  # selection has to choose
            "simulated": {"precision": "float64", **simulated},
        }
    )


@dataclass(frozen=True)
class Run:
    model: npt.NDArray[Any]
    start: npt.NDArray[Any]
    edges: list[EdgeAggregated]
    losses: list[float | None]


async def runs_of(told: Experiment, systems: tuple[str, ...], base: Path) -> dict[str, Run]:
    """The systems one after the other on one simulated fleet."""
    trace = drawn_trace(WHEREABOUTS)
    movement = Movement(trace, content_hash(trace))
    learning_task = learning_task_of(told, len(WHEREABOUTS))
    found = {}
    base.mkdir()
    with RunFolder.create(
        base / "run",
        told,
        run_id="layouts",
        system="all",
        trace_hash=movement.content_hash,
        fleet="simulated",
        device_names=[f"pi-{number:02d}" for number in range(1, 6)],
    ) as folder:
        async with simulated_fleet(told, learning_task, 2, base / "simulation") as fleet:
            for name in systems:
                samples = [len(part) for part in learning_task.parts]
                rounds = rounds_of(told, name, movement, folder, samples, learning_task.layout.shapes)
                journal = MemoryJournal()
                result = await run_rounds(
                    dataclasses.replace(rounds.settings, run_id=name),
                    rounds.system,
                    rounds.association,
                    fleet,
                    journal,
                    learning_task.initial_model,
                    throughput=rounds.throughput,
                )
                answers = [record for record in journal.records if isinstance(record, OrderAnswered)]
                assert {answer.status for answer in answers} == {"done"}
                assert sum(isinstance(record, CloudAggregated) for record in journal.records) == 2
                edges = [record for record in journal.records if isinstance(record, EdgeAggregated)]
                losses = [answer.mean_loss for answer in answers if answer.samples]
                found[name] = Run(result.model, learning_task.initial_model, edges, losses)
    return found


def apart(model: npt.NDArray[Any], reference: npt.NDArray[Any]) -> float:
    """The largest difference of two models, relative to the norm of the second."""
    return float(np.abs(model - reference).max() / np.linalg.norm(reference))


RunsOf = Callable[[str], dict[str, Run]]


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RunsOf:
    """Of the sample's systems, or of all where slow tests are asked for."""
    systems = SYSTEMS if slow_is_asked_for(request) else SAMPLE
    base = tmp_path_factory.mktemp("layouts").resolve()

    @cache
    def of(layout: str) -> dict[str, Run]:
        told = experiment(*LAYOUTS[layout])
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(
                "OMP_WAIT_POLICY", "PASSIVE"
            )  # threads that spin on a busy core take four times as long
            return asyncio.run(runs_of(told, systems, base / layout.replace(" ", "-")))

    return of


@pytest.mark.parametrize("layout", OTHERS)
@pytest.mark.parametrize("system", sampled(SAMPLE, SYSTEMS))
def test_global_models_agree_to_1e_9_after_5_rounds(runs: RunsOf, system: str, layout: str) -> None:
    reference, run = runs("workers")[system], runs(layout)[system]
    assert run.model.dtype == np.float64
    assert apart(run.model, reference.model) <= 1e-9
    assert apart(run.model, run.start) > 1e-3  # five rounds of training moved it
    assert run.losses == pytest.approx(reference.losses, rel=1e-9)
    assert [edge.devices for edge in run.edges] == [edge.devices for edge in reference.edges]
    for ours, theirs in zip(run.edges, reference.edges, strict=True):
        assert ours.weights == pytest.approx(theirs.weights, rel=1e-9)


def test_no_two_systems_learn_the_same_model(runs: RunsOf) -> None:
    models = [run.model for run in runs("workers").values()]
    for index, model in enumerate(models):
        assert min((apart(other, model) for other in models[:index]), default=1.0) > 1e-6


def test_in_float32_a_stack_drifts_no_more_than_rounding_does(tmp_path: Path) -> None:
    """Measured 6e-9 of the norm on one CPU, 4e-5 on another: training multiplies what rounding begins."""
    single = {"precision": "float32"}
    workers, stacked = (
        asyncio.run(runs_of(experiment({**simulated, **single}, {}), ("hierfavg",), tmp_path / name))
        for name, simulated in (("workers", LAYOUTS["workers"][0]), ("stack", LAYOUTS["stack of all"][0]))
    )
    assert stacked["hierfavg"].model.dtype == np.float32
    assert 0.0 < apart(stacked["hierfavg"].model, workers["hierfavg"].model) < 1e-3


@pytest.fixture
def _threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("_threads")
def test_the_thread_count_of_a_worker_is_not_seen_in_float64() -> None:
    spec = LearningSpec("dfl_cnn", 1, 10, 0.01, 0.9, 0.0, 8, "", precision="float64")
    draws = np.random.default_rng(3)
    shard = Shard(draws.standard_normal((12, 1, 32, 32)).astype(np.float32), draws.integers(0, 10, 12))
    start = flatten(build("dfl_cnn", 1, 10)).astype(np.float64)
    models = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        models.append(Learner(spec).train(shard, LocalTraining(5, 1), start).vector)
    assert apart(models[1], models[0]) <= 1e-9
    assert apart(models[0], start) > 1e-3


def test_agents_refuse_the_float64_of_virtual_devices(tmp_path: Path) -> None:
    from rich.console import Console

    with pytest.raises(ConfigError, match=r"simulated\.precision: float64 .* expected float32 on local ones"):
        run_experiment(experiment({}, {}), fleet="local", runs_dir=tmp_path, console=Console())
    assert list(tmp_path.iterdir()) == []
