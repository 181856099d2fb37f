"""MIDDLE's Eq. 23 as devices tell it, beside the same from the models that they uploaded, by NumPy alone."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import pytest

from roambench.contract.orders import Answer, Order, UploadReply, Vector
from roambench.experiment.sections import Experiment
from roambench.mobility.files import content_hash
from roambench.rounds.loop import run_rounds
from roambench.rounds.ports import Fleet, OnAnswer, keep_all
from roambench.rounds.records import CloudAggregated, MetricsScored
from roambench.rounds.rehearsal import MemoryJournal
from roambench.runner.places.simulated import simulated_fleet
from roambench.runner.system_runs.hierarchical import composed
from roambench.runner.world import Movement, learning_task_of
from small_traces import drawn_trace

#: One row per device, one letter per step: of seven six train between two cloud aggregations. At the
#: second, step 5, the third is away.
WHEREABOUTS = ("aabbab", "abbbaa", "bbaab-", "babaaa", "bbbbab", "abaaab", "baabba")
pytestmark = pytest.mark.usefixtures("workers_of_one_server")

SYSTEMS = ("middle", "middle_plus", "oort", "greedy")


class Eavesdropper:
    """A fleet, and every model that went up (by step and device) or was published."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.uploads: dict[int, dict[int, Vector]] = {}
        self.published: dict[str, Vector] = {}

    async def perform(self, orders: Sequence[Order], on_answer: OnAnswer = keep_all) -> list[Answer]:
        def heard(answer: Answer) -> Answer:
            if isinstance(answer.reply, UploadReply):
                self.uploads.setdefault(answer.step, {})[answer.device] = answer.reply.model.copy()
            return on_answer(answer)

        return await self._fleet.perform(orders, heard)

    def publish(self, model: Vector) -> str:
        digest = self._fleet.publish(model)
        self.published[digest] = model.copy()
        return digest

    def retain(self, digests: Collection[str]) -> None:
        self._fleet.retain(digests)


@dataclasses.dataclass(frozen=True)
class Played:
    heard: Eavesdropper
    told: list[MetricsScored]
    clouds: list[CloudAggregated]
    samples: list[int]
    first: Vector


async def played(system: str, folder: Path) -> Played:
    trace = drawn_trace(WHEREABOUTS)
    movement = Movement(trace, content_hash(trace))
    experiment = Experiment.model_validate(
        {
            "seed": 5,
            "systems": [system],
            "fleet": {"agents": 7, "aps": 0},
            "learning": {"model": "mlp", "dataset": "digits", "partition": "dirichlet_split", "alpha": 0.5},
            "rounds": {"cloud_every_steps": 3},
            "algorithm": {"per_ap": 1},
        }
    )
    task = learning_task_of(experiment, len(WHEREABOUTS))
    samples = [len(part) for part in task.parts]
    rounds, _ = composed(experiment, system, movement, "told", samples, task.layout.shapes)
    journal = MemoryJournal()
    async with simulated_fleet(experiment, task, 1, folder) as fleet:
        heard = Eavesdropper(fleet)
        await run_rounds(
            dataclasses.replace(rounds.settings, orders_to_absent=False),
            rounds.system,
            rounds.association,
            heard,
            journal,
            task.initial_model,
            throughput=rounds.throughput,
        )
    told = [record for record in journal.records if isinstance(record, MetricsScored)]
    clouds = [record for record in journal.records if isinstance(record, CloudAggregated)]
    return Played(heard, told, clouds, samples, task.initial_model)


@pytest.mark.parametrize("system", SYSTEMS)
def test_divergence_is_eq_23_of_the_models_that_went_up(system: str, tmp_path: Path) -> None:
    """A device that did not train since the last cloud aggregation counts with that one's model."""
    run = asyncio.run(played(system, tmp_path.resolve() / "simulation"))
    assert [record.step for record in run.told] == [record.step for record in run.clouds] == [2, 5]
    assert len(set(run.samples)) > 2
    local, begin, untrained = dict.fromkeys(range(len(WHEREABOUTS)), run.first), 0, 0
    for record, cloud in zip(run.told, run.clouds, strict=True):
        trained: set[int] = set()
        for step in range(begin, cloud.step + 1):
            local |= run.heard.uploads[step]
            trained |= run.heard.uploads[step].keys()
        new = run.heard.published[cloud.digest].astype(np.float64)
        here = [device for device, row in enumerate(WHEREABOUTS) if row[cloud.step] != "-"]
        untrained += len(set(here) - trained)
        above = sum(run.samples[d] * np.linalg.norm(new - local[d].astype(np.float64)) for d in here)
        below = sum(run.samples[d] * np.linalg.norm(new) for d in here)
        assert record.names == ("local model divergence",)
        assert record.values[0] == pytest.approx(above / below, rel=1e-6)
        assert 1e-3 < record.values[0] < 1.0
        local |= dict.fromkeys(here, run.heard.published[cloud.digest])
        begin = cloud.step + 1
    assert untrained
