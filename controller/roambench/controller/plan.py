"""What an experiment will take: a rehearsal of its placements times what its work costs on this machine."""

from __future__ import annotations

import asyncio
import math
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from roambench.contract.errors import ConfigError
from roambench.controller.composition import composed
from roambench.controller.config.load import resolved
from roambench.controller.config.sections import Experiment
from roambench.controller.pacing import step_length_s
from roambench.controller.peer_world import is_decentralised
from roambench.controller.plan_costs import MachineCosts, measure_costs, sgd_steps
from roambench.controller.plan_energy import PhaseJoules, local_joules, simulated_joules
from roambench.controller.simulated_run import may_defer
from roambench.controller.world import Lesson, Movement, lesson_of, movement_of
from roambench.energy.device_power import drawn_step_s
from roambench.mobility.files import write_trace
from roambench.rounds.loop import run_rounds
from roambench.rounds.records import (
    CloudAggregated,
    EdgeAggregated,
    OrderAnswered,
    OrderGiven,
    RoundRecord,
    StepClosed,
)
from roambench.rounds.rehearsal import RehearsalFleet
from roambench.runs.export import export_run
from roambench.runs.folder import RunFolder
from roambench.runs.modelled_accounts import SIMULATED

#: Seconds until a fleet is ready, measured on two cores: imports of the learning library and the processes.
_START_S: Final = 3.0
_START_PER_AGENT_S: Final = 0.55  # 36 agents were ready in 20 s
_STOP_S: Final = 2.0
#: A Ray of one's own and its first actors, measured on two cores.
_RAY_START_S: Final = 7.0
#: Controller and process overhead of one order on virtual devices, and on agents over gRPC.
_ORDER_S: Final = {SIMULATED: 0.002, "local": 0.012}
_STEP_S: Final = 0.01
#: Run folder, exports and warm-ups, however long the run.
_FIXED_S: Final = 1.2
_REHEARSED_S: Final = 0.0001
#: Bytes on disk per agent record (a reading, a phase), its Parquet copies included, and per agent.
_RECORD_BYTES: Final = 190
_AGENT_BYTES: Final = 24_000
_HOST_RECORDS: Final = 0.2  # of [host] for each second at its default period
_PIXEL_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class Plan:
    """What one system will take. `joules` by phase; empty where nothing draws any (a rehearsal).

    `device_s` is the fleet's clock from the first baseline to the last; on virtual devices, which have no
    common clock, all their seconds of work together. `peak_disk_bytes` includes what is removed at the end.
    """

    system: str
    fleet: str
    steps: int
    trainings: int
    computed: int  # trainings that this machine does, the rest are never used
    transfers: int
    transferred_bytes: int
    wall_s: float
    cpu_s: float  # of training, all threads together
    controller_s: float  # CPU of everything else: orders, aggregation, names, scores
    device_s: float
    joules: tuple[PhaseJoules, ...]
    disk_bytes: int
    peak_disk_bytes: int
    core_share: float  # of a core that a thread got just now; below 1 this machine is busy


@dataclass(frozen=True, slots=True)
class Batch:
    """Orders that are carried out side by side, and how long each one's device takes over it.

    `computed` is what this machine does for them: the SGD steps of each training whose model is made now.
    """

    computed: tuple[int, ...]
    device_s: tuple[float, ...]


def plan_experiment(experiment: Experiment, fleet: str) -> list[Plan]:
    """One plan per system. Takes seconds to minutes and leaves nothing behind.

    ConfigError for decentralised systems: there is no rehearsal of them to plan by.
    """
    if is_decentralised(experiment):
        raise ConfigError(["--plan: expected systems with access points; the others have no plan yet"])
    movement = movement_of(experiment)
    lesson = lesson_of(experiment, len(movement.trace.device_names))
    costs = measure_costs(experiment, lesson)
    return [_plan_system(experiment, system, fleet, movement, lesson, costs) for system in experiment.systems]


def _plan_system(
    experiment: Experiment,
    system: str,
    fleet: str,
    movement: Movement,
    lesson: Lesson,
    costs: MachineCosts,
) -> Plan:
    devices = len(lesson.parts)
    names = [f"pi-{number:02d}" for number in range(1, devices + 1)]
    with tempfile.TemporaryDirectory(prefix="roambench-plan-") as beside:
        with RunFolder.create(
            Path(beside) / "run",
            config=resolved(experiment),
            run_id=f"{experiment.name}-{system}",
            system=system,
            seed=experiment.seed,
            trace_hash=movement.content_hash,
            fleet=fleet,
            device_names=names,
        ) as folder:
            write_trace(movement.trace, folder.path / "trace.parquet")
            records, deferred = asyncio.run(_rehearse(experiment, system, movement, lesson, costs, fleet))
            folder.journal.extend(records)
            export_run(folder)
        written = sum(path.stat().st_size for path in (Path(beside) / "run").rglob("*") if path.is_file())
    answered = [record for record in records if isinstance(record, OrderAnswered)]
    trained = [record for record in answered if record.samples]
    moved = [record for record in answered if record.transferred_bytes]
    batches = list(_batches(experiment, records, deferred=deferred))
    cpu_s = costs.sgd_step_s * sum(sum(batch.computed) for batch in batches)
    wall_s, device_s, controller_s = _times(
        experiment, fleet, records, batches, costs, devices, movement.trace.step_s
    )
    if fleet == SIMULATED:
        joules = simulated_joules(experiment, records, names)
        transient = _shared_bytes(lesson, records)
    elif fleet == "local":
        joules = local_joules(experiment, records, devices, device_s)
        transient = 0
    else:
        joules, transient = (), 0
    disk = written + (0 if fleet == "rehearsal" else costs.model_bytes)
    if fleet == "local":
        disk += _agents_bytes(experiment, lesson, devices, device_s, len(answered), costs)
    return Plan(
        system,
        fleet,
        movement.trace.steps,
        len(trained),
        0 if fleet == "rehearsal" else sum(len(batch.computed) for batch in batches),
        len(moved),
        sum(record.transferred_bytes for record in moved),
        wall_s,
        0.0 if fleet == "rehearsal" else cpu_s,
        controller_s,
        device_s,
        joules,
        disk,
        disk + transient,
        costs.core_share,
    )


class _Told:
    """`ports.Journal` that fills in how long each order takes on its device."""

    def __init__(self, experiment: Experiment, fleet: str, costs: MachineCosts) -> None:
        self.records: list[RoundRecord] = []
        self._given: dict[str, OrderGiven] = {}
        self._experiment = experiment
        self._fleet = fleet
        self._costs = costs

    def append(self, record: RoundRecord) -> None:
        if isinstance(record, OrderGiven):
            self._given[record.order_id] = record
        elif isinstance(record, OrderAnswered):
            record = self._timed(record, self._given.pop(record.order_id))
        self.records.append(record)

    def extend(self, records: Sequence[RoundRecord]) -> None:
        for record in records:
            self.append(record)

    def _timed(self, answer: OrderAnswered, order: OrderGiven) -> OrderAnswered:
        rate = order.paced_mbit_s or self._rate(order.kind)
        transfer_s = 8e-6 * answer.transferred_bytes / rate if rate > 0.0 else 0.0
        train_s = 0.0
        if order.kind == "train":
            train_s = sgd_steps(self._experiment, answer.samples) * self._step_s(answer.device)
        return replace(answer, transfer_s=transfer_s, train_s=train_s)

    def _rate(self, kind: str) -> float:
        section = self._experiment.local if self._fleet == "local" else self._experiment.simulated
        return section.upload_mbit_s if kind == "upload" else section.download_mbit_s

    def _step_s(self, device: int) -> float:
        if self._fleet == "local":
            local = self._experiment.local
            return local.sgd_step_s or self._costs.sgd_step_s * local.cpu_slowdown
        section = self._experiment.simulated
        return drawn_step_s(section.sgd_step_s, section.speed_spread, self._experiment.seed, device)


async def _rehearse(
    experiment: Experiment,
    system: str,
    movement: Movement,
    lesson: Lesson,
    costs: MachineCosts,
    fleet: str,
) -> tuple[list[RoundRecord], bool]:
    """The records, and whether the fleet will compute trainings only when their models are uploaded."""
    samples = tuple(len(part) for part in lesson.parts)
    rounds, _ = composed(experiment, system, movement, f"{experiment.name}-{system}", samples)
    journal = _Told(experiment, fleet, costs)
    await run_rounds(
        replace(rounds.settings, tell_absent=fleet == "local"),
        rounds.system,
        rounds.association,
        RehearsalFleet(experiment.seed, samples, 0 if fleet == "rehearsal" else costs.model_bytes),
        journal,
        np.zeros(4, dtype=np.float32),
        throughput=rounds.throughput,
    )
    return journal.records, fleet == SIMULATED and may_defer(experiment.simulated, rounds.system)


def _times(
    experiment: Experiment,
    fleet: str,
    records: Sequence[RoundRecord],
    batches: Sequence[Batch],
    costs: MachineCosts,
    devices: int,
    trace_step_s: float,
) -> tuple[float, float, float]:
    """Seconds on this machine's clock, on the devices', and the controller's own CPU."""
    orders = 0
    wall_s = device_s = 0.0
    workers = min(experiment.simulated.workers or costs.cores, costs.cores)
    scale = experiment.local.time_scale
    scorings = 1 + sum(isinstance(record, CloudAggregated) and bool(record.aps) for record in records)
    published = sum(isinstance(record, EdgeAggregated | CloudAggregated) for record in records)
    for batch in batches:
        orders += len(batch.device_s)
        work_s = costs.sgd_step_s * sum(batch.computed)
        longest_s = costs.sgd_step_s * max(batch.computed, default=0)
        if fleet == "local":
            # Emulated boards wait for device time; a host that cannot keep up makes them wait longer.
            wall_s += max(max(batch.device_s) / scale, work_s / costs.cores, longest_s)
        elif fleet == SIMULATED:
            wall_s += max(work_s / workers, longest_s)
            device_s += math.fsum(batch.device_s)
    steps = sum(isinstance(record, StepClosed) for record in records)
    if fleet == "rehearsal":
        controller_s = _STEP_S * steps + _REHEARSED_S * orders
        return controller_s, 0.0, controller_s
    controller_s = _ORDER_S[fleet] * orders + _STEP_S * steps
    controller_s += costs.score_s * scorings + costs.publish_s * published
    wall_s += controller_s
    controller_s += _FIXED_S
    if fleet == "local":
        pace_s = step_length_s(experiment.rounds.step_close, trace_step_s)
        wall_s = max(wall_s, pace_s * steps / scale) if pace_s else wall_s
        device_s = wall_s * scale + 2.0 * experiment.energy.idle_baseline_s
        wall_s = device_s / scale + _START_S + _START_PER_AGENT_S * devices + _STOP_S
        return wall_s, device_s, controller_s
    start_s = _START_S + (_RAY_START_S if experiment.simulated.backend == "ray" else 0.0)
    return wall_s + start_s + _FIXED_S, device_s, controller_s


def _batches(experiment: Experiment, records: Sequence[RoundRecord], *, deferred: bool) -> Iterator[Batch]:
    """Answers that follow each other were given together. A deferred training is computed at its upload."""
    served: dict[str, str] = {}  # by upload
    untrained: dict[str, int] = {}
    computed: list[int] = []
    device_s: list[float] = []
    for record in records:
        if isinstance(record, OrderGiven) and record.kind == "upload":
            served[record.order_id] = record.train_order_id
        if isinstance(record, OrderAnswered):
            if record.transferred_bytes or record.samples:
                device_s.append(record.transfer_s + record.train_s)
            if record.samples:
                untrained[record.order_id] = sgd_steps(experiment, record.samples)
            due = served.get(record.order_id, "") if deferred else record.order_id
            if due in untrained:
                computed.append(untrained.pop(due))
        elif device_s:
            yield Batch(tuple(computed), tuple(device_s))
            computed, device_s = [], []
    if device_s:
        yield Batch(tuple(computed), tuple(device_s))


def _shared_bytes(lesson: Lesson, records: Sequence[RoundRecord]) -> int:
    """What the workers of virtual devices share on disk while they run: the data and a row per model held."""
    data = int(lesson.dataset.train_images.nbytes + lesson.dataset.train_labels.nbytes)
    trained = {record.device for record in records if isinstance(record, OrderAnswered) and record.samples}
    return data + 4 * lesson.layout.size * (2 * len(trained) + 8)


def _agents_bytes(
    experiment: Experiment,
    lesson: Lesson,
    devices: int,
    device_s: float,
    answers: int,
    costs: MachineCosts,
) -> int:
    """Shards, spools and shelves of the agents, their records at the controller, and the emulator's truth."""
    image = int(lesson.dataset.train_images[0].size) * _PIXEL_BYTES + 8
    shards = sum(len(part) for part in lesson.parts) * image
    hz = 1000.0 / experiment.local.meter_interval_ms if experiment.local.meter_interval_ms else 1.0
    records = devices * device_s * (hz + _HOST_RECORDS) + 6 * answers
    return round(shards + records * _RECORD_BYTES + devices * (_AGENT_BYTES + costs.model_bytes))
