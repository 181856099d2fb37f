"""Rehearses a decentralised system: who exchanges with whom, and how long half steps and exchanges take."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from roambench.contract.orders import ExchangeOrder, Vector, rests_of
from roambench.plan.costs import MachineCosts
from roambench.plan.fleet import PlannedFleet
from roambench.plan.rehearsed import AirTime, Batch, Rehearsed
from roambench.rounds.peer_loop import run_peers
from roambench.rounds.peer_rehearsal import ExchangeTimes, PeerRehearsalFleet
from roambench.rounds.peer_run import PeerSettings
from roambench.rounds.ports import Score
from roambench.rounds.records import ModelsScored
from roambench.runner.system_runs.decentralised import PeerWorld, class_counts, peer_settings
from roambench.runs.folder import RunFolder

#: Seconds of a host from the request for a neighbour's model to its last byte, besides the bytes' own: four
#: agents with a model of 10 kB took 12 to 25 ms on four busy cores.
_PULL_S: Final = 0.012


def rehearse_exchanges(
    fleet: PlannedFleet, world: PeerWorld, system: str, folder: RunFolder, costs: MachineCosts
) -> Rehearsed:
    """Every order of the run, by the same loop, in the folder's event log."""
    experiment, learning_task = world.experiment, world.learning_task
    steps = world.movement.trace.steps
    settings = replace(
        peer_settings(experiment, system, folder.info.run_id, learning_task, steps),
        orders_to_absent=fleet.has_agents,
    )
    rehearsed = not fleet.kind.trains
    model_bytes = 0 if rehearsed else costs.model_bytes
    timing = ExchangeTiming(fleet, settings, experiment.learning.batch_size, costs)
    started_s = time.process_time()
    asyncio.run(
        run_peers(
            settings,
            world.moved,
            PeerRehearsalFleet(settings.samples, model_bytes, timing.of_step),
            folder.journal,
            np.zeros(4, dtype=np.float32),
            class_counts=class_counts(learning_task),
            evaluator=None if rehearsed else _NoScore(),
        )
    )
    controller_s = time.process_time() - started_s
    records = folder.read_log()
    scored = len(records.lists(ModelsScored, "devices")[0])
    return Rehearsed(
        records,
        tuple(timing.batches),
        scorings=scored + records.count(ModelsScored),  # and the mean of all, each time
        published=scored + 1,
        collected=scored,
        mixed=timing.mixed,
        controller_s=controller_s,
        air=timing.air,
    )


class _NoScore:
    """`ports.Evaluator` of untrained models: it is never good enough to end a run."""

    async def score(self, model: Vector) -> Score:
        return Score(0.0, 0.0)


@dataclass(slots=True)
class ExchangeTiming:
    """Tells what orders take on their devices, and keeps what that means for the run."""

    fleet: PlannedFleet
    settings: PeerSettings
    batch_size: int
    costs: MachineCosts
    batches: list[Batch] = field(default_factory=list)
    air: dict[str, AirTime] = field(default_factory=dict)
    mixed: int = 0

    def of_step(self, orders: Sequence[ExchangeOrder]) -> Mapping[int, ExchangeTimes]:
        """Device seconds of every order of one step, by device, as its fleet would take them.

        Adds the step's batches, air time and mixed models to this object.
        """
        model_bytes = self.costs.model_bytes if self.fleet.kind.trains else 0
        steps = {order.device: self._sgd_steps(order) for order in orders}
        before = {
            order.device: ExchangeTimes(
                _transfer_s(model_bytes * len(order.model_digests), self.fleet.down_mbit_s),
                steps[order.device] * self.fleet.step_s(order.device, self.costs),
            )
            for order in orders
        }
        if self.fleet.has_agents:
            times = self._together(orders, before, model_bytes)
        else:
            times = {order.device: self._alone(order, before[order.device], model_bytes) for order in orders}
        self.mixed += sum(1 + len(order.neighbours) for order in orders)
        self.batches.append(
            Batch.of(
                steps.values(),
                [
                    times_of.download_s
                    + times_of.train_s
                    + times_of.exchange_s
                    + self.fleet.rest_s * rests_of(order)
                    for order in orders
                    for times_of in (times[order.device],)
                ],
            )
        )
        return times

    def _alone(self, order: ExchangeOrder, before: ExchangeTimes, model_bytes: int) -> ExchangeTimes:
        """A virtual device's one radio sends, then it receives; none waits for another."""
        moved_bytes = model_bytes * len(order.neighbours)
        return replace(
            before,
            exchange_s=_transfer_s(moved_bytes, self.fleet.up_mbit_s)
            + _transfer_s(moved_bytes, self.fleet.down_mbit_s),
        )

    def _together(
        self, orders: Sequence[ExchangeOrder], before: Mapping[int, ExchangeTimes], model_bytes: int
    ) -> dict[int, ExchangeTimes]:
        """Agents send and receive at the same time, to and from all that have done their half step.

        What a device sends together goes up its own link, so its models arrive together, too; what it gets
        together is held to the same rate.
        """
        ready_s = {device: times_of.download_s + times_of.train_s for device, times_of in before.items()}
        sending_s = {
            order.device: _transfer_s(model_bytes * len(order.neighbours), self.fleet.up_mbit_s)
            for order in orders
        }
        sent_s = {
            order.device: max(ready_s[device] for device in (order.device, *order.neighbours))
            + sending_s[order.device]
            for order in orders
        }
        pull_s = _PULL_S * self.fleet.time_scale
        times = {}
        for order in orders:
            device, neighbours = order.device, order.neighbours
            exchange_s = 0.0
            if neighbours:
                exchange_s = pull_s + max(sent_s[n] for n in (device, *neighbours)) - ready_s[device]
                receiving_s = max(sending_s[n] for n in (device, *neighbours))
                self.air[order.order_id] = AirTime(pull_s + sending_s[device], pull_s + receiving_s)
            times[device] = replace(before[device], exchange_s=exchange_s)
        return times

    def _sgd_steps(self, order: ExchangeOrder) -> int:
        samples = self.settings.samples[order.device]
        return order.training.sgd_steps(samples, self.batch_size)


def _transfer_s(transferred_bytes: int, mbit_s: float) -> float:
    return 8e-6 * transferred_bytes / mbit_s if mbit_s > 0.0 else 0.0
