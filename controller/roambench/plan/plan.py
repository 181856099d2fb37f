"""Plan of what an experiment will take: a rehearsal of its placements times what its work costs on this
machine."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from roambench.contract.errors import ConfigError
from roambench.experiment.deadline import deadline_remedy
from roambench.experiment.sections import Experiment
from roambench.meters.chips import CHIPS
from roambench.meters.traits import UNCALIBRATED_RAIL
from roambench.mobility.files import write_trace
from roambench.plan.costs import MachineCosts, measure_costs
from roambench.plan.disk import kept_bytes, transient_bytes
from roambench.plan.energy import PhaseJoules, agents_joules, simulated_joules
from roambench.plan.exchanges import rehearse_exchanges
from roambench.plan.fleet import PlannedFleet, planned_fleet
from roambench.plan.memory import memory_doubts, trainer_peak_bytes
from roambench.plan.rehearsed import Rehearsed
from roambench.plan.rounds import rehearse_rounds
from roambench.plan.times import planned_times
from roambench.rounds.records import ModelsExchanged, OrderAnswered
from roambench.runner.system_runs.decentralised import PeerWorld, is_decentralised
from roambench.runner.world import LearningTask, Movement, learning_task_of, movement_of
from roambench.runs.event_log import EventLog
from roambench.runs.export import export_run
from roambench.runs.fleet_kinds import FleetKind
from roambench.runs.folder import RunFolder


@dataclass(frozen=True, slots=True)
class RunPlan:
    """Time, disk and energy that one system will take. `joules` by phase; empty where nothing draws any (a
    rehearsal).

    `device_s` is the fleet's clock from the first baseline to the last; on virtual devices, which have no
    common clock, all their seconds of work together. `peak_disk_bytes` includes what is removed at the end.
    Between devices without a server, `transferred_bytes` count where they are sent and where they come.
    """

    system: str
    fleet: FleetKind
    steps: int
    trainings: int
    computed: int  # trainings that this machine does, the rest are never used
    transfers: int
    transferred_bytes: int
    wall_s: float
    cpu_s: float  # of training on this machine, all threads together
    controller_s: float  # CPU of everything else: orders, aggregation, names, scores
    device_s: float
    joules: tuple[PhaseJoules, ...]
    disk_bytes: int
    peak_disk_bytes: int
    core_share: float  # of a core that a thread got just now; below 1 this machine is busy
    trainer_peak_bytes: int = 0  # resident memory of a board's trainer; 0: no board trains, or not known
    doubts: tuple[str, ...] = ()  # about the movement, memory, and trainings that cannot end in time
    classes: str = ""  # virtual devices by class, with seconds and watts; "" where all are alike


def plan_experiment(experiment: Experiment, fleet: str, only: Sequence[str] = ()) -> list[RunPlan]:
    """One plan per system. Takes seconds to minutes and leaves nothing behind.

    `fleet` as on the command line; a bench is not asked anything, its file says who takes part (`only`: names
    and tags of hosts). Raises as `planned_fleet` does, and what loading data and traces raises.
    """
    if experiment.program.name:
        raise ConfigError([f"--plan: what a {experiment.program.name} app computes is known when it has run"])
    return list(_plans(planned_fleet(experiment, fleet, only)))


def _plans(fleet: PlannedFleet) -> Iterator[RunPlan]:
    experiment = fleet.experiment
    if is_decentralised(experiment):
        world = PeerWorld.of(experiment)
        costs = measure_costs(world.experiment, world.learning_task)
        peak_bytes = _trainer_bytes(fleet, world.learning_task)
        for system in experiment.systems:
            with _run_folder(fleet, system, world.movement, world.learning_task) as folder:
                rehearsed = rehearse_exchanges(fleet, world, system, folder, costs)
                yield _plan_system(
                    fleet, folder, world.movement, world.learning_task, rehearsed, costs, peak_bytes
                )
        return
    movement = movement_of(experiment)
    learning_task = learning_task_of(experiment, len(movement.trace.device_names))
    costs = measure_costs(experiment, learning_task)
    peak_bytes = _trainer_bytes(fleet, learning_task)
    samples = tuple(len(part) for part in learning_task.parts)
    for system in experiment.systems:
        with _run_folder(fleet, system, movement, learning_task) as folder:
            rehearsed = rehearse_rounds(fleet, system, movement, samples, folder, costs)
            yield _plan_system(fleet, folder, movement, learning_task, rehearsed, costs, peak_bytes)


def _trainer_bytes(fleet: PlannedFleet, learning_task: LearningTask) -> int:
    return trainer_peak_bytes(fleet.experiment, learning_task) if fleet.has_agents else 0


def _plan_system(
    fleet: PlannedFleet,
    folder: RunFolder,
    movement: Movement,
    learning_task: LearningTask,
    rehearsed: Rehearsed,
    costs: MachineCosts,
    trainer_bytes: int,
) -> RunPlan:
    devices, records = len(learning_task.parts), rehearsed.records
    times = planned_times(fleet, rehearsed, costs, devices, movement.trace.step_s)
    joules: tuple[PhaseJoules, ...] = ()
    if fleet.kind.is_virtual:
        joules = simulated_joules(fleet, records, folder.info.device_names)
    elif fleet.has_agents:
        joules = agents_joules(fleet, rehearsed, devices, times.device_s)
    disk = _exported_bytes(folder)
    disk += kept_bytes(fleet, learning_task, rehearsed, times.device_s, costs)
    transfers, transferred_bytes = _moved(records)
    here = fleet.kind.is_virtual or fleet.kind.emulates
    steps_here = sum(batch.sgd_steps for batch in rehearsed.batches) if here else 0
    return RunPlan(
        system=folder.info.system,
        fleet=fleet.kind,
        steps=movement.trace.steps,
        trainings=int(np.count_nonzero(records.array(OrderAnswered, "samples"))),
        computed=sum(batch.computed for batch in rehearsed.batches) if here else 0,
        transfers=transfers,
        transferred_bytes=transferred_bytes,
        wall_s=times.wall_s,
        cpu_s=costs.sgd_step_s * steps_here,
        controller_s=times.controller_s,
        device_s=times.device_s,
        joules=joules,
        disk_bytes=disk,
        peak_disk_bytes=disk + transient_bytes(fleet, learning_task, rehearsed),
        core_share=costs.core_share,
        trainer_peak_bytes=trainer_bytes,
        doubts=(
            *movement.doubts,
            *_meter_doubts(fleet),
            *memory_doubts(fleet.experiment, trainer_bytes),
            *_deadline_doubts(fleet, records),
        ),
        classes=_classes(fleet, costs, devices),
    )


def _classes(fleet: PlannedFleet, costs: MachineCosts, devices: int) -> str:
    """Counts of devices by class, with the seconds and watts that they are taken to need."""
    section = fleet.experiment.simulated
    if not fleet.kind.is_virtual or not section.classes:
        return ""
    names = section.classes_of(fleet.experiment.seed, devices)
    texts = []
    for name in sorted(set(names), key=(*section.classes, "").index):
        own, step_s = section.of_class(name), costs.board_step_s * costs.slowness[names.index(name)]
        draws = f"{step_s:.3g} s per SGD step, {own.idle_w:g} W idle, {own.train_w:g} W more in training"
        texts.append(f"{names.count(name)} {name or 'of no class'} ({draws})")
    return ", ".join(texts)


def _meter_doubts(fleet: PlannedFleet) -> Iterator[str]:
    plain = UNCALIBRATED_RAIL
    unnamed = [
        name
        for name, meter in zip(fleet.names, fleet.meters, strict=False)
        if (meter.name, meter.u_gain, meter.u_offset_w) == (plain.name, plain.u_gain, plain.u_offset_w)
    ]
    if unnamed:
        limits = f"{plain.u_gain:.0%} and {plain.u_offset_w:g} W (assumed)".replace("%", " %")
        yield (f"{', '.join(unnamed)}: the bench does not name the chip of its sensor: planned with {limits}")
    usual_s = CHIPS["ina226"].usual_update_s  # no whole ms, as those that a bench names are
    unset = [
        name for name, meter in zip(fleet.names, fleet.meters, strict=False) if meter.window_s == usual_s
    ]
    if unset:
        yield (
            f"{', '.join(unset)}: the bench has no update_ms for its sensor: planned with the "
            f"{1e3 * usual_s:.0f} ms that the kernel's driver sets"
        )


def _deadline_doubts(fleet: PlannedFleet, records: EventLog) -> Iterator[str]:
    """Trainings, with the downloads before them, that take longer than orders may."""
    deadline_s = fleet.experiment.fleet.deadline_s
    train_s, transfer_s = (records.array(OrderAnswered, name) for name in ("train_s", "transfer_s"))
    seconds = (transfer_s + train_s)[train_s > 0.0]
    too_long = seconds[seconds > deadline_s]
    if not fleet.kind.trains or not len(too_long):
        return
    longest_s = float(too_long.max())
    many = f"{len(too_long)} trainings take up to {longest_s:,.0f} s of device time"
    remedy = deadline_remedy(deadline_s, longest_s)
    if fleet.has_agents:
        yield f"{many}, and will fail: orders may take {deadline_s:g} s (fleet.deadline_s); {remedy}"
    else:
        yield (
            f"{many}: virtual devices keep no deadline, but on boards these trainings would fail after "
            f"{deadline_s:g} s (fleet.deadline_s); there, {remedy}"
        )


@contextmanager
def _run_folder(
    fleet: PlannedFleet, system: str, movement: Movement, learning_task: LearningTask
) -> Iterator[RunFolder]:
    """A run folder as the run would have it, in a temporary place: its event log is the plan's memory."""
    experiment, devices = fleet.experiment, len(learning_task.parts)
    names = (fleet.names or tuple(f"pi-{number:02d}" for number in range(1, devices + 1)))[:devices]
    with tempfile.TemporaryDirectory(prefix="roambench-plan-") as beside:
        path = Path(beside) / "run"
        with RunFolder.create(
            path,
            experiment,
            run_id=f"{experiment.name}-{system}",
            system=system,
            trace_hash=movement.content_hash,
            fleet=fleet.kind.name,
            device_names=names,
            rest_s=fleet.rest_s,
        ) as folder:
            write_trace(movement.trace, path / "trace.parquet")
            yield folder


def _exported_bytes(folder: RunFolder) -> int:
    """Return the bytes of the folder with its tables; it is closed then."""
    export_run(folder)
    folder.close()
    return sum(file.stat().st_size for file in folder.path.rglob("*") if file.is_file())


def _moved(records: EventLog) -> tuple[int, int]:
    """Models that are transferred, and the bytes that devices send and receive for it."""
    if records.count(ModelsExchanged):
        each, received, sent, started = (
            records.array(ModelsExchanged, name)
            for name in ("model_bytes", "received_bytes", "sent_bytes", "downloaded_bytes")
        )
        models = int((received // np.maximum(each, 1))[each > 0].sum()) + int(np.count_nonzero(started))
        return models, int(sent.sum() + received.sum() + started.sum())
    moved = records.array(OrderAnswered, "transferred_bytes")
    return int(np.count_nonzero(moved)), int(moved.sum())
