"""Systems with access points and a cloud: their rules composed with the movement, and played."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from rich.console import Console

from roambench.contract.orders import Vector
from roambench.energy.links.throughput import DistanceStatistics, link_throughput_mbit_s
from roambench.experiment.sections import Experiment
from roambench.learning.local_algorithms import local_algorithm
from roambench.mobility.association import (
    Association,
    all_pair_statistics,
    assignment_hash,
    distance_statistics,
)
from roambench.mobility.trace import Trace
from roambench.rounds.extra_vectors import ExtraVectors
from roambench.rounds.loop import run_rounds
from roambench.rounds.ports import Journal
from roambench.rounds.records import OrderGiven, RoundRecord
from roambench.rounds.run import OnStep, Pace, RunSettings, StepSummary, Throughput
from roambench.rounds.state import RoundState
from roambench.runner.agents.checkpoints import Checkpoints
from roambench.runner.kept import global_model_kept
from roambench.runner.plays.stage import Stage
from roambench.runner.replayed_orders import with_orders
from roambench.runner.scoring import TestSetEvaluator
from roambench.runner.screen import say, warn
from roambench.runner.world import LearningTask, Movement, learning_task_of, movement_of, system_of
from roambench.runs.folder import RunFolder
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
            f"trace {self.movement.content_hash[:12]}: {len(trace.device_names)} devices, "
            f"{len(trace.ap_names)} APs, {trace.steps} steps of {trace.step_s:.0f} s, {min(present)} to "
            f"{max(present)} present (mean {sum(present) / len(present):.1f}); {os.cpu_count()} cores",
        )
        for doubt in self.movement.doubts:
            warn(console, doubt)
        if not self.experiment.fleet.agents:
            say(console, f"fleet.agents = 0: all {len(trace.device_names):,} devices of the trace")

    def play(self, system: str, folder: RunFolder, *, trains: bool) -> HierarchicalPlay:
        """The play of one system, by name. Without `trains` models are four zeros, and no data are loaded."""
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
        return HierarchicalPlay(self, system, rounds, first, trains)


@dataclass
class HierarchicalPlay:
    """`Play` of one system with access points."""

    world: HierarchicalWorld
    system: str
    rounds: Rounds
    first_model: Vector
    trains: bool
    exchanges = False
    _found: RoundState | None = None

    @property
    def experiment(self) -> Experiment:
        """The world's."""
        return self.world.experiment

    @property
    def movement(self) -> Movement:
        """The trace that is replayed."""
        return self.world.movement

    @property
    def learning_task(self) -> LearningTask:
        """Data, its shares and the first model; loaded when first asked for."""
        return self.world.learning_task

    @property
    def aps(self) -> int:
        """Access points of the trace."""
        return self.rounds.settings.aps

    @property
    def peak_models(self) -> int:
        """The most models that devices and access points hold at a time."""
        return models_at_once(self.movement.trace)

    @property
    def entries(self) -> int:
        """Numbers in what travels: a model, and vectors of the local algorithm behind it."""
        return self.rounds.settings.extra_vectors.size if self.trains else self.first_model.size

    @property
    def only_system(self) -> System:
        """The system's rules."""
        return self.rounds.system

    @property
    def samples(self) -> tuple[int, ...]:
        """Training samples of every device."""
        return self.rounds.settings.samples

    @property
    def run_id(self) -> str:
        """Id that every order of the run carries."""
        return self.rounds.settings.run_id

    @property
    def steps(self) -> int:
        """Time steps of the whole run."""
        return self.rounds.settings.steps

    def restore(self, stage: Stage, checkpoints: Checkpoints) -> None:
        """Go on from the checkpoint that was found, if one was. RunError where a model of it is lost."""
        if stage.keeper is not None:
            self._found = checkpoints.rounds(stage.keeper)

    async def perform(
        self, stage: Stage, folder: RunFolder, journal: Journal, pace: Pace, checkpoints: Checkpoints | None
    ) -> None:
        """Play every step that is left; the global model lies in `folder`, however it ends."""
        if not self.trains:
            await self._run(stage, journal, pace, None)
            return
        with global_model_kept(folder, self.system, self.learning_task, self._found) as follow:

            def step_closed(summary: StepSummary, now: RoundState) -> None:
                follow(summary, now)
                if checkpoints is not None and stage.keeper is not None:
                    checkpoints.after(now, stage.keeper)

            await self._run(stage, journal, pace, step_closed)

    async def _run(self, stage: Stage, journal: Journal, pace: Pace, on_step: OnStep | None) -> None:
        await run_rounds(
            replace(self.rounds.settings, orders_to_absent=stage.orders_to_absent),
            self.rounds.system,
            self.rounds.association,
            stage.fleet,
            journal,
            self.first_model,
            throughput=self.rounds.throughput,
            evaluator=TestSetEvaluator(self.experiment, self.learning_task) if self.trains else None,
            on_step=on_step,
            pace=pace,
            state=self._found,
        )

    def notes(self, folder: RunFolder) -> Sequence[str]:
        """How many transfers were paced, and clipped to the port (`link_notes`)."""
        return link_notes(folder.read_log(), self.experiment.links.port_mbit_s)


def extra_vectors_of(system: System, learning_task: LearningTask) -> ExtraVectors:
    """What travels behind the system's models, as its local algorithm says."""
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
    rounds, statistics = composed(experiment, system_name, movement, folder.info.run_id, samples, shapes)
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
    everywhere = experiment.links.distance_statistics == "all_pairs"
    statistics = DistanceStatistics(
        *(all_pair_statistics(movement.trace) if everywhere else distance_statistics(association))
    )
    section = experiment.rounds
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
    came = len(np.unique(trace.device))
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
