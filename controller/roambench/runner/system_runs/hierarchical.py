"""Systems with access points and a cloud: their rules composed with the movement, and run."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from rich.console import Console

from roambench.contract.counts import count
from roambench.contract.errors import PluginError
from roambench.contract.orders import Vector
from roambench.energy.links.throughput import DistanceStatistics, link_throughput_mbit_s
from roambench.experiment.sections import Experiment
from roambench.learning.local_algorithms import local_algorithm
from roambench.mobility.association import (
    Association,
    all_pair_statistics,
    assignment_hash,
    distance_statistics,
    wrong_association,
)
from roambench.mobility.trace import Trace
from roambench.rounds.energy_seen import RulesEnergy
from roambench.rounds.extra_vectors import ExtraVectors
from roambench.rounds.loop import run_rounds
from roambench.rounds.ports import Batteries, EnergySoFar, Evaluator, Journal
from roambench.rounds.records import OrderGiven, RoundRecord
from roambench.rounds.run import OnStep, Pace, RunSettings, StepSummary, Throughput
from roambench.rounds.state import RoundState
from roambench.runner.agents.checkpoints import Checkpoints
from roambench.runner.model_files import saved_global_model
from roambench.runner.replayed_orders import replayed_batteries, replayed_energy, with_orders
from roambench.runner.scoring import TestSetEvaluator
from roambench.runner.screen import say, warn
from roambench.runner.system_runs.ready_fleet import ReadyFleet
from roambench.runner.system_runs.system_run import FleetNeeds
from roambench.runner.world import (
    LearningTask,
    Movement,
    learning_task_of,
    link_codecs,
    movement_of,
    system_of,
)
from roambench.runs.batteries import MeasuredBatteries, ModelledBatteries, RecordedBatteries
from roambench.runs.folder import RunFolder
from roambench.runs.so_far import energy_so_far
from roambench.systems.system import System


@dataclass(frozen=True)
class HierarchicalWorld:
    """`World` of systems with access points."""

    experiment: Experiment
    movement: Movement

    @classmethod
    def of(cls, experiment: Experiment) -> HierarchicalWorld:
        """The experiment's; raises as `movement_of` does."""
        return cls(experiment, movement_of(experiment))

    @cached_property
    def learning_task(self) -> LearningTask:
        """Data, its shares and the first model, the same for every system."""
        return learning_task_of(self.experiment, len(self.movement.trace.device_names))

    def announce(self, console: Console) -> None:
        """Print devices, access points, steps, presence, and what is doubtful about the trace."""
        trace = self.movement.trace
        present = [len(trace.present(step)) for step in range(trace.steps)]
        say(
            console,
            f"trace {self.movement.content_hash[:12]}: {count(len(trace.device_names), 'device')}, "
            f"{count(len(trace.ap_names), 'AP')}, {count(trace.steps, 'step')} of {trace.step_s:.0f} s, "
            f"{min(present)} to {max(present)} present (mean {sum(present) / len(present):.1f}); "
            f"{os.cpu_count()} cores",
        )
        for doubt in self.movement.doubts:
            warn(console, doubt)
        if not self.experiment.fleet.agents:
            say(console, f"fleet.agents = 0: all {count(len(trace.device_names), 'device')} of the trace")

    def system_run(self, system: str, folder: RunFolder, *, trains: bool) -> HierarchicalRun:
        """Compose the run of one system. Without `trains` models are four zeros, and no data are loaded."""
        if trains:
            samples = [len(part) for part in self.learning_task.parts]
            first, shapes = self.learning_task.initial_model, self.learning_task.layout.shapes
        else:
            samples = [self.experiment.learning.images_per_device] * len(folder.info.device_names)
            first, shapes = np.zeros(4, dtype=np.float32), ()
        rounds = rounds_of(self.experiment, system, self.movement, folder, samples, shapes)
        if trains:
            extra = extra_vectors_of(rounds.system, self.learning_task)
            rounds = replace(rounds, settings=replace(rounds.settings, extra_vectors=extra))
            first = extra.first(first)
        needs = FleetNeeds(
            rounds.settings.samples,
            aps=rounds.settings.aps,
            peak_models=models_at_once(self.movement.trace),
            entries=first.size,
            system=rounds.system,
        )
        return HierarchicalRun(self, system, rounds, first, trains, needs)


@dataclass
class HierarchicalRun:
    """`SystemRun` of one system with access points."""

    world: HierarchicalWorld
    system: str
    rounds: Rounds
    first_model: Vector
    trains: bool
    needs: FleetNeeds
    _state: RoundState | None = None

    def restore(self, fleet: ReadyFleet, checkpoints: Checkpoints) -> None:
        """Go on from the checkpoint that was found, if one was. RunError where a model of it is lost."""
        if fleet.keeper is not None:
            self._state = checkpoints.rounds(fleet.keeper)

    async def perform(
        self,
        fleet: ReadyFleet,
        folder: RunFolder,
        journal: Journal,
        pace: Pace,
        checkpoints: Checkpoints | None,
    ) -> None:
        """Run every remaining step; the global model lies in `folder`, however it ends."""
        if not self.trains:
            await self._run(fleet, folder, journal, pace, None)
            return
        with saved_global_model(folder, self.system, self.world.learning_task, self._state) as follow:

            def step_closed(summary: StepSummary, now: RoundState) -> None:
                follow(summary, now)
                if checkpoints is not None and fleet.keeper is not None:
                    checkpoints.after(now, fleet.keeper)

            await self._run(fleet, folder, journal, pace, step_closed)

    async def _run(
        self, fleet: ReadyFleet, folder: RunFolder, journal: Journal, pace: Pace, on_step: OnStep | None
    ) -> None:
        world = self.world
        section = world.experiment.battery
        energy: EnergySoFar | None = None
        batteries: Batteries | None = None
        system = self.rounds.system
        if system.sees_energy or system.selection.sees_energy or section.capacity_wh:
            journal, energy = energy_so_far(folder, journal)
        if recorded := replayed_batteries(world.experiment.rounds.orders, self.system):
            batteries = RecordedBatteries(recorded)
        elif section.capacity_wh and energy is not None:
            trace = world.movement.trace
            fold = ModelledBatteries if fleet.now_ns is None else MeasuredBatteries
            batteries = fold(section, energy, folder, trace.step_s, trace.start_utc_s, fleet.now_ns)
        async with AsyncExitStack() as beside:
            if batteries is not None:
                batteries = await beside.enter_async_context(fleet.batteries(batteries))
            evaluator: Evaluator | None = None
            if self.trains and (scorer := world.learning_task.scorer) is not None:
                from roambench.runner.program_scoring import program_evaluator  # with programs comes grpc

                evaluator = await beside.enter_async_context(program_evaluator(scorer, folder))
            elif self.trains:
                evaluator = TestSetEvaluator(world.experiment, world.learning_task)
            seen = RulesEnergy(energy, replayed_energy(world.experiment.rounds.orders, folder.info))
            await self._rounds(fleet, journal, pace, on_step, evaluator, seen, batteries)

    async def _rounds(
        self,
        fleet: ReadyFleet,
        journal: Journal,
        pace: Pace,
        on_step: OnStep | None,
        evaluator: Evaluator | None,
        energy: RulesEnergy,
        batteries: Batteries | None,
    ) -> None:
        await run_rounds(
            replace(self.rounds.settings, orders_to_absent=fleet.orders_to_absent),
            self.rounds.system,
            self.rounds.association,
            fleet.fleet,
            journal,
            self.first_model,
            throughput=self.rounds.throughput,
            evaluator=evaluator,
            on_step=on_step,
            pace=pace,
            state=self._state,
            energy=energy,
            batteries=batteries,
        )

    def notes(self, folder: RunFolder, *, on_agents: bool) -> Sequence[str]:
        """Return how many transfers of agents were paced, and clipped to the port (`link_notes`)."""
        return link_notes(folder.read_log(), self.world.experiment.links.port_mbit_s) if on_agents else ()


def extra_vectors_of(system: System, learning_task: LearningTask) -> ExtraVectors:
    """Return what travels behind the system's models, as its local algorithm says."""
    layout, vectors = learning_task.layout, local_algorithm(system.training.objective).vectors
    return ExtraVectors(layout.size, layout.trained, vectors, len(learning_task.parts))


@dataclass(frozen=True)
class Rounds:
    """The round loop's input besides a fleet, the same for every fleet."""

    system: System
    association: Association
    settings: RunSettings
    throughput: Throughput


def rounds_of(
    experiment: Experiment,
    system_name: str,
    movement: Movement,
    folder: RunFolder,
    samples: Iterable[int],
    shapes: tuple[tuple[int, ...], ...] = (),
) -> Rounds:
    """A system composed with the movement; into the run folder go the distances' statistics, for Eq. 2, and
    the hash of the assignment that will be replayed."""
    rounds, statistics = composed(
        experiment, system_name, movement, folder.info.name_in_orders, samples, shapes
    )
    folder.update(
        distance_mean_m=statistics.mean_m,
        distance_sd_m=statistics.sd_m,
        association=type(rounds.association).__name__,
        assignment_hash=assignment_hash(rounds.association),
    )
    return rounds


def composed(
    experiment: Experiment,
    system_name: str,
    movement: Movement,
    run_id: str,
    samples: Iterable[int],
    shapes: tuple[tuple[int, ...], ...] = (),
) -> tuple[Rounds, DistanceStatistics]:
    """The same without a run folder, and the statistics that Eq. 2 maps from."""
    samples = tuple(samples)
    system = with_orders(
        system_of(experiment, system_name, shapes),
        experiment.rounds.orders,
        name=system_name,
        seed=experiment.seed,
        trace_hash=movement.content_hash,
        devices=len(samples),
    )
    association = system.association(movement.trace, experiment.seed)
    if wrong := wrong_association(association, movement.trace):
        raise PluginError(f"system {system_name!r}: association: {wrong}")
    everywhere = experiment.links.distance_statistics == "all_pairs"
    statistics = DistanceStatistics(
        *(all_pair_statistics(movement.trace) if everywhere else distance_statistics(association))
    )
    section, codecs = experiment.rounds, link_codecs(experiment)
    settings = RunSettings(
        run_id=run_id,
        seed=experiment.seed,
        steps=movement.trace.steps,
        aps=len(movement.trace.ap_names),
        samples=samples,
        pace_links=experiment.links.link == "modelled",
        port_mbit_s=experiment.links.port_mbit_s,
        stop_at=experiment.rounds.stop_at,
        evaluate_every=section.evaluate_every,
        score_aps=section.score_aps,
        keeps_bases=codecs.codes_up and codecs.difference,
    )
    rounds = Rounds(
        system,
        association,
        settings,
        lambda distance_m, direction: link_throughput_mbit_s(distance_m, statistics, direction),
    )
    return rounds, statistics


def models_at_once(trace: Trace) -> int:
    """The most that lie in the file: one of each device that ever comes, one in training of each that is
    present, and of each AP a model and its successor."""
    came = int(np.count_nonzero(np.bincount(trace.device)))
    present = int(np.bincount(trace.step, minlength=1).max())
    return came + present + 2 * len(trace.ap_names)


def link_notes(records: Iterable[RoundRecord], port_mbit_s: float) -> list[str]:
    """One line on the rates that a run's links were held to: how many transfers were paced, and how many of
    them clipped to the port; nothing for native links."""
    rates = [
        (record.paced_mbit_s, record.throughput_mbit_s)
        for record in records
        if isinstance(record, OrderGiven) and record.paced_mbit_s > 0.0
    ]
    if not rates:
        return []
    clipped = sum(paced < modelled for paced, modelled in rates)
    slowest, fastest = min(paced for paced, _ in rates), max(paced for paced, _ in rates)
    note = f"links: {len(rates)} transfers paced to {slowest:.1f} to {fastest:.1f} Mbit/s by distance"
    if clipped:
        note += f"; {clipped} modelled faster than the port's {port_mbit_s:g} Mbit/s were clipped to it"
    return [note]


def hierarchical_world(experiment: Experiment) -> HierarchicalWorld:
    """Systems with access points and a cloud."""
    return HierarchicalWorld.of(experiment)
