"""Whatever a run does with its models, in the end the file holds the published versions and nothing else; and
a deferred training changes no record."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from compared_records import without_clock_and_loss
from roambench.contract.orders import DiscardOrder, SyncOrder, TrainOrder
from roambench.experiment.simulated_section import SimulatedSection
from roambench.fleet.simulated.job import TrainingJob, TrainingOutcome
from roambench.fleet.simulated.model_rows import ModelRows
from roambench.fleet.simulated.simulated_fleet import SimulatedFleet, VirtualDevice, Workload
from roambench.fleet.simulated.trainer import OnOutcome, no_hurry
from roambench.learning.start_models import StartInputs, start_model
from roambench.mobility.trace import Trace
from roambench.rounds.loop import run_rounds
from roambench.rounds.records import EdgeAggregated, OrderAnswered, RoundRecord
from roambench.rounds.rehearsal import MemoryJournal
from roambench.rounds.run import RunSettings, StepSummary
from roambench.rounds.state import RoundState
from roambench.runner.places.simulated import may_defer
from roambench.systems.catalogue import make_system
from roambench.systems.options import SystemOptions
from roambench.systems.system import StartModel, System
from samples import sampled

STEPS, DEVICES, APS, SIZE = 60, 9, 3, 6
SAMPLES = tuple(10 + device for device in range(DEVICES))


class Arithmetic:
    """`Trainer`: a device's training moves its start model by a draw of the order's seed. One training in
    `refuse_each` is refused, as one that diverges is."""

    def __init__(self, rows: ModelRows, refuse_each: int = 0) -> None:
        self._rows = rows
        self._refuse_each = refuse_each
        self.refused = 0

    async def start(self) -> None: ...

    async def train(
        self, jobs: Sequence[TrainingJob], on_outcome: OnOutcome = no_hurry
    ) -> list[TrainingOutcome]:
        outcomes = [self._train(job) for job in jobs]
        for index in reversed(range(len(jobs))):
            on_outcome(index, outcomes[index])
        return outcomes

    async def stop(self) -> None: ...

    def _train(self, job: TrainingJob) -> TrainingOutcome:
        if self._refuse_each and job.training.seed % self._refuse_each == 0:
            self.refused += 1
            return TrainingOutcome(refused="training diverged")
        models = [None if row < 0 else self._rows.row(row).copy() for row in job.read_rows]
        ap, own, last_global, previous = models
        assert ap is not None
        start = start_model(job.training.start_rule, StartInputs(ap, own, slice(4, 6), last_global, previous))
        moved = np.random.default_rng(job.training.seed).standard_normal(SIZE).astype(np.float32)
        self._rows.write(job.out_row, (start + 0.1 * moved).astype(np.float32))
        loss = float(abs(moved[0]))
        return TrainingOutcome("", SAMPLES[job.device], 1, loss, loss * loss)


def wandering() -> Trace:
    """Everybody comes and goes, and is anywhere on a line with three APs."""
    draws = np.random.default_rng(8)
    steps, devices = np.nonzero(draws.random((STEPS, DEVICES)) < 0.5)
    return Trace(
        steps=STEPS,
        step_s=3600.0,
        device_names=tuple(f"d{device}" for device in range(DEVICES)),
        step=steps.astype(np.int32),
        device=devices.astype(np.int32),
        x_m=draws.uniform(0.0, 300.0, len(steps)),
        y_m=np.zeros(len(steps)),
        ap_names=("a", "b", "c"),
        ap_x_m=np.array([50.0, 150.0, 250.0]),
        ap_y_m=np.zeros(3),
    )


def workload(order: TrainOrder) -> Workload:
    return Workload(SAMPLES[order.device], 1)


@dataclasses.dataclass
class Played:
    records: list[RoundRecord]
    digest: str
    most_rows: int
    rows_left: int
    versions: int
    computed: int
    refused: int


async def _played(folder: Path, system: System, defer: bool, refuse_each: int) -> Played:
    # Deferred trainings hold the versions that they start from, at most one per device.
    rows = ModelRows(folder / "models.bin", SIZE, 4 * DEVICES + 3 * APS + 32, create=True)
    trainer = Arithmetic(rows, refuse_each)
    fleet = SimulatedFleet(rows, trainer, "c" * 32, VirtualDevice(0.1, 8.0, 4.0), workload, defers=defer)
    journal = MemoryJournal()
    most_rows = 0

    def after_step(summary: StepSummary, state: RoundState) -> None:
        nonlocal most_rows
        most_rows = max(most_rows, rows.in_use)

    trace = wandering()
    result = await run_rounds(
        RunSettings("r", 5, STEPS, APS, SAMPLES, orders_to_absent=False),
        system,
        system.association(trace, 5),
        fleet,
        journal,
        np.ones(SIZE, np.float32),
        throughput=lambda distance_m, direction: 1.0,
        on_step=after_step,
    )
    state = result.state
    # What absent devices would be told when they come next.
    await fleet.perform(
        [
            DiscardOrder(f"discard/{device}", device, STEPS, stale.train_order_id, stale.reason)
            for device, stale in state.stale.items()
        ]
    )
    if system.keeps_models:
        await fleet.perform(
            [SyncOrder(f"sync/{d}", d, STEPS, 0, state.global_digest) for d in range(DEVICES)]
        )
    return Played(
        journal.records,
        result.digest,
        most_rows,
        rows.in_use,
        len(state.models),
        fleet.trainings_computed,
        trainer.refused,
    )


def played(folder: Path, system: System, *, defer: bool = False, refuse_each: int = 0) -> Played:
    folder.mkdir()
    return asyncio.run(_played(folder, system, defer, refuse_each))


def a_system(name: str) -> System:
    return make_system(name, SystemOptions(k1=1, k2=7, per_ap=2, sigma=0.8))


DEFERRED = ("hierfavg", "macfl", "mohawk", "heurfedamp")
FAMILY = ("middle", "middle_plus", "oort", "fedmes", "greedy", "ensemble", "macfl_same_step", "fedavg")


@pytest.mark.parametrize("refuse_each", sampled([5], [0, 5]))
@pytest.mark.parametrize("name", [*DEFERRED, *FAMILY])
def test_a_long_run_leaves_no_row_but_those_of_the_published_versions(
    tmp_path: Path, name: str, refuse_each: int
) -> None:
    told = played(tmp_path / "run", a_system(name), defer=name in DEFERRED, refuse_each=refuse_each)
    assert told.rows_left == told.versions
    # Of each device a model of its own and one trained or the version it starts from; of each AP its model.
    assert told.versions <= told.most_rows <= 2 * DEVICES + 2 * APS
    assert sum(isinstance(record, EdgeAggregated) for record in told.records) > STEPS / 2
    assert bool(told.refused) is bool(refuse_each)


@pytest.mark.parametrize("name", DEFERRED)
def test_a_deferred_training_changes_no_record_of_a_long_run(tmp_path: Path, name: str) -> None:
    lazy = played(tmp_path / "lazy", a_system(name), defer=True)
    eager = played(tmp_path / "eager", a_system(name))
    assert without_clock_and_loss(lazy.records) == without_clock_and_loss(eager.records)
    assert lazy.digest == eager.digest
    assert lazy.computed < eager.computed


def two_steps_old(trained_step: int, step: int, last_sync_step: int) -> bool:
    return last_sync_step <= trained_step <= step - 2


def homesick() -> System:
    """Not of ours: models rest for a step; a device that moved meanwhile goes on with the one it has."""
    return dataclasses.replace(
        a_system("mohawk"),
        name="homesick",
        start_model=StartModel("ap", "own"),
        eligible=two_steps_old,
    )


def test_a_system_whose_devices_start_from_what_they_trained_is_never_deferred(tmp_path: Path) -> None:
    section = SimulatedSection()
    assert [may_defer(section, a_system(name)) for name in DEFERRED] == [True] * len(DEFERRED)
    assert not may_defer(section, homesick())
    # It would be another run: a deferred model is not there to start from.
    eager = played(tmp_path / "eager", homesick(), defer=may_defer(section, homesick()))
    lazy = played(tmp_path / "lazy", homesick(), defer=True)
    assert lazy.digest != eager.digest
    assert eager.computed == sum(bool(r.samples) for r in eager.records if isinstance(r, OrderAnswered))
