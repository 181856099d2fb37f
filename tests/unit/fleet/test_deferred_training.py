"""Trainings that nobody uses are not computed, and nothing that a run decides tells the difference."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from compared_records import without_clock_and_loss
from roambench.contract.phases import Phase
from roambench.energy.ledger import EVERY
from roambench.energy.links.models import MOHAWK
from roambench.energy.modelled.device_power import DevicePower
from roambench.energy.modelled.ledger import EnergyModel
from roambench.experiment.sections import Experiment
from roambench.mobility.files import content_hash
from roambench.rounds.loop import run_rounds
from roambench.rounds.records import EdgeAggregated, OrderAnswered, OrderGiven, OutcomeDecided, RoundRecord
from roambench.rounds.rehearsal import MemoryJournal
from roambench.runner.places.simulated import simulated_fleet
from roambench.runner.system_runs.hierarchical import rounds_of
from roambench.runner.world import Movement, learning_task_of
from roambench.runs.folder import RunFolder
from roambench.runs.modelled.accounts import ledger_of_log
from roambench.systems.catalogue import SYSTEMS
from small_traces import drawn_trace

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("workers_of_one_server")]

#: One row per device, one letter per step: the AP it is at, "-" while it is away.
WHEREABOUTS = ("aab-a", "ab-ab", "-bb--", "b-a-b")


def experiment(train: str, learning_rate: float = 0.01) -> Experiment:
    return Experiment.model_validate(
        {
            "seed": 11,
            "systems": ["mohawk", "hierfavg", "oort"],
            "fleet": {"agents": 4, "aps": 0},
            "learning": {"model": "mlp", "images_per_device": 20, "learning_rate": learning_rate},
            "rounds": {"cloud_every_steps": 2},
            "simulated": {"workers": 1, "train": train},
        }
    )


def run(base: Path, system: str, train: str, learning_rate: float = 0.01) -> tuple[list[RoundRecord], int]:
    """The records of a whole run, and how many trainings it computed."""
    base.mkdir()
    return asyncio.run(_run(base, experiment(train, learning_rate), system))


async def _run(base: Path, setting: Experiment, system: str) -> tuple[list[RoundRecord], int]:
    trace = drawn_trace(WHEREABOUTS)
    movement = Movement(trace, content_hash(trace))
    learning_task = learning_task_of(setting, len(WHEREABOUTS))
    journal = MemoryJournal()
    with RunFolder.create(
        base / "run",
        setting,
        run_id="deferred",
        system=system,
        trace_hash=movement.content_hash,
        fleet="simulated",
        device_names=["a", "b", "c", "d"],
    ) as folder:
        rounds = rounds_of(setting, system, movement, folder, [20] * 4, learning_task.layout.shapes)
        async with simulated_fleet(setting, learning_task, 2, base / "models", rounds.system) as fleet:
            await run_rounds(
                rounds.settings,
                rounds.system,
                rounds.association,
                fleet,
                journal,
                learning_task.initial_model,
                throughput=rounds.throughput,
            )
            return journal.records, fleet.trainings_computed


def of(records: Sequence[RoundRecord], kind: type) -> list:
    return [record for record in records if isinstance(record, kind)]


@pytest.mark.parametrize("system", ["mohawk", "hierfavg"])
def test_a_run_decides_and_learns_the_same_with_a_part_of_the_computing(tmp_path: Path, system: str) -> None:
    lazy, computed = run(tmp_path / "lazy", system, "when_used")
    eager, all_of_them = run(tmp_path / "eager", system, "always")
    assert without_clock_and_loss(lazy) == without_clock_and_loss(eager)
    trained = [answer for answer in of(eager, OrderAnswered) if answer.samples]
    aggregated = sum(len(edge.devices) for edge in of(eager, EdgeAggregated))
    assert all_of_them == len(trained)
    assert computed == aggregated < all_of_them
    assert {answer.mean_loss for answer in of(lazy, OrderAnswered) if answer.samples} == {None}
    assert all(answer.mean_loss for answer in trained)


def outcomes_of(records: Sequence[RoundRecord]) -> dict[str, tuple[str, str]]:
    return {each.train_order_id: (each.outcome.value, each.reason) for each in of(records, OutcomeDecided)}


@pytest.mark.parametrize("system", [*SYSTEMS.own])
def test_trainings_that_diverge_cost_the_same_whenever_they_are_computed(tmp_path: Path, system: str) -> None:
    lazy, _ = run(tmp_path / "lazy", system, "when_used", learning_rate=1e30)
    eager, _ = run(tmp_path / "eager", system, "always", learning_rate=1e30)
    assert outcomes_of(lazy) == outcomes_of(eager)
    assert "failed" in {outcome for outcome, _ in outcomes_of(lazy).values()}
    model = EnergyModel(MOHAWK, DevicePower(2.0, 1.0, 0.0, 1), 0)
    ledgers = [ledger_of_log(records, list("abcd"), model) for records in (lazy, eager)]
    for mine in (lambda ledger: ledger.failed(), lambda ledger: ledger.wasted(), lambda ledger: EVERY):
        one, other = (ledger.total("gross", mine(ledger)).joules for ledger in ledgers)
        assert one == other
    trained = ledgers[0].of_phase(Phase.TRAIN)
    assert trained.sum() == sum(record.kind == "train" for record in of(lazy, OrderGiven))
    assert ledgers[0].failed().any()


def test_a_system_that_chooses_by_loss_computes_every_training(tmp_path: Path) -> None:
    records, computed = run(tmp_path / "oort", "oort", "when_used")
    trained = [answer for answer in of(records, OrderAnswered) if answer.samples]
    assert computed == len(trained) > 0
    assert all(answer.mean_loss for answer in trained)


def test_a_deferred_training_that_diverges_is_refused_at_its_upload(tmp_path: Path) -> None:
    records, _ = run(tmp_path / "wild", "mohawk", "when_used", learning_rate=1e30)
    refused = [answer for answer in of(records, OrderAnswered) if answer.status == "refused"]
    assert refused
    assert all("training diverged" in answer.reason for answer in refused)
    assert not of(records, EdgeAggregated)
    outcomes = of(records, OutcomeDecided)
    found = {(outcome.outcome.value, outcome.reason.split(":")[0]) for outcome in outcomes}
    assert ("failed", "refused") in found
    assert {outcome for outcome, _ in found} <= {"failed", "wasted"}
