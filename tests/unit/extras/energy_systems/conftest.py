"""A world in which devices move, learn, spend joules and run out of charge, by numbers of the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from roambench.contract.orders import Answer, Order, TrainOrder, TrainReply, Vector
from roambench.contract.phases import Phase
from roambench.energy.energy_value import Energy
from roambench.mobility.trace import Trace
from roambench.rounds.energy_seen import RulesEnergy
from roambench.rounds.loop import run_rounds
from roambench.rounds.ports import OnAnswer, keep_all
from roambench.rounds.records import BatteriesSeen, EnergySeen, OrderGiven, RoundRecord, StepOpened
from roambench.rounds.rehearsal import MemoryJournal, RehearsalFleet
from roambench.rounds.run import RunSettings
from roambench.systems.catalogue import make_system
from roambench.systems.options import SystemOptions
from roambench.systems.system import SpentEnergy

CAPACITY_WH = 0.05


def moving(seed: int, *, devices: int, steps: int, aps: int) -> Trace:
    """Devices that stay or go, each with a habit of its own, at random places of a kilometre."""
    draw = np.random.default_rng(seed)
    often = draw.uniform(0.3, 0.9, devices)
    step, device = np.nonzero(draw.random((steps, devices)) < often)
    return Trace(
        steps=steps,
        step_s=3600.0,
        device_names=tuple(f"d{one}" for one in range(devices)),
        step=step.astype(np.int32),
        device=device.astype(np.int32),
        x_m=draw.uniform(0.0, 1000.0, len(step)),
        y_m=draw.uniform(0.0, 1000.0, len(step)),
        ap_names=tuple(f"a{one}" for one in range(aps)),
        ap_x_m=draw.uniform(0.0, 1000.0, aps),
        ap_y_m=draw.uniform(0.0, 1000.0, aps),
    )


@dataclass
class Devices:
    """A rehearsal's devices with losses; every model that was published or trained is remembered."""

    seed: int
    samples: tuple[int, ...]
    losses: dict[tuple[int, int], float] = field(default_factory=dict)  # mean squares by device and step
    models: dict[str, Vector] = field(default_factory=dict)  # by digest or order to train
    trainings: list[tuple[int, int]] = field(default_factory=list)  # device, step

    def __post_init__(self) -> None:
        self._fleet = RehearsalFleet(self.seed, self.samples, spread=0.3)

    async def perform(self, orders: Sequence[Order], on_answer: OnAnswer = keep_all) -> list[Answer]:
        def with_loss(answer: Answer) -> Answer:
            if isinstance(answer.reply, TrainReply):
                loss = float(np.random.default_rng([self.seed, answer.device, answer.step]).uniform(0.1, 3.0))
                self.losses[answer.device, answer.step] = loss
                self.models[answer.order_id] = self._fleet._trained[answer.order_id]
                answer = replace(answer, reply=replace(answer.reply, mean_squared_loss=loss))
            return on_answer(answer)

        self.trainings += [(order.device, order.step) for order in orders if isinstance(order, TrainOrder)]
        return await self._fleet.perform(orders, with_loss)

    def publish(self, model: Vector | bytes) -> str:
        digest = self._fleet.publish(model)
        self.models[digest] = model
        return digest

    def retain(self, digests: Collection[str]) -> None:
        self._fleet.retain(digests)


@dataclass
class Cells:
    """What devices spent (a training costs each its own joules, time between orders takes some, too), and
    batteries that only trainings drain; a device at 5 % or less is off, and charged in four steps."""

    devices: Devices

    def spent_j(self, device: int) -> float:
        each_j = float(np.random.default_rng([99, device]).uniform(15.0, 40.0))
        return each_j * sum(one == device for one, _ in self.devices.trainings)

    async def of(self, devices: Sequence[int]) -> Mapping[int, SpentEnergy]:
        found = {}
        for device in devices:
            spent_j, idle_j = self.spent_j(device), 20.0 * (device + 1)
            phases = {
                Phase.TRAIN: Energy(0.75 * spent_j),
                Phase.UPLOAD: Energy(0.25 * spent_j),
                Phase.IDLE: Energy(idle_j),
            }
            found[device] = SpentEnergy(Energy(spent_j + idle_j, 0.5, 10.0), phases)
        return found

    def __post_init__(self) -> None:
        count = len(self.devices.samples)
        self._charges = np.random.default_rng(5).uniform(0.4, 1.0, count)
        self._before = np.zeros(count)
        self._off: set[int] = set()

    async def seen(self, step: int, present: Collection[int]) -> BatteriesSeen:
        spent = np.array([self.spent_j(device) for device in range(len(self._charges))])
        self._charges = np.maximum(0.0, self._charges - (spent - self._before) / (3600.0 * CAPACITY_WH))
        for device in self._off:
            self._charges[device] += 0.1
        self._before = spent
        self._off = {
            device
            for device, charge in enumerate(self._charges.tolist())
            if charge <= 0.05 or (device in self._off and charge < 0.4)
        }
        nothing = (0.0,) * len(self._charges)
        return BatteriesSeen(
            step, tuple(self._charges.tolist()), nothing, nothing, (), tuple(sorted(self._off))
        )


@dataclass(frozen=True)
class Played:
    """A run, to be judged by its records alone."""

    trace: Trace
    devices: Devices
    records: list[RoundRecord]

    def of(self, kind: type) -> list:
        return [record for record in self.records if isinstance(record, kind)]

    def trained(self, step: int) -> set[int]:
        return {one.device for one in self.of(OrderGiven) if one.kind == "train" and one.step == step}

    def charges(self) -> dict[int, tuple[float, ...]]:
        return {record.step: record.charges for record in self.of(BatteriesSeen)}

    def joules(self, *phases: str) -> dict[int, dict[int, float]]:
        """By step and device, as the selection saw them; of these phases, or of all the time."""
        found: dict[int, dict[int, float]] = {}
        for record in self.of(EnergySeen):
            of_step = found.setdefault(record.step, dict.fromkeys(record.devices, 0.0))
            for device, phase, joules in zip(record.devices, record.phases, record.joules, strict=True):
                if phase in (phases or ("",)):
                    of_step[device] += joules
        return found

    def steps(self) -> Iterable[tuple[int, dict[int, int]]]:
        """Steps and, by device that is there and on, its access point."""
        for record in self.of(StepOpened):
            yield record.step, dict(zip(record.devices, record.aps, strict=True))


def play(
    system: str,
    parameters: Mapping[str, object] | None = None,
    *,
    seed: int = 3,
    devices: int = 12,
    steps: int = 36,
    aps: int = 3,
    per_ap: int = 2,
    batteries: bool = True,
) -> Played:
    """The system over a random movement, by its row in the catalogue."""
    trace = moving(seed, devices=devices, steps=steps, aps=aps)
    fleet = Devices(seed, tuple(10 + 3 * one for one in range(devices)))
    cells, journal = Cells(fleet), MemoryJournal()
    options = SystemOptions(k1=1, k2=3, per_ap=per_ap, capacity_wh=CAPACITY_WH if batteries else 0.0)
    made = make_system(system, options, parameters or {})
    asyncio.run(
        run_rounds(
            RunSettings("r", seed, steps, aps, fleet.samples),
            made,
            made.association(trace, seed),
            fleet,
            journal,
            np.ones(6, dtype=np.float32),
            throughput=lambda distance_m, direction: 100.0,
            energy=RulesEnergy(cells),
            batteries=cells if batteries else None,
            stopwatch=lambda: 0.0,
        )
    )
    return Played(trace, fleet, journal.records)


@pytest.fixture
def played():
    return play
