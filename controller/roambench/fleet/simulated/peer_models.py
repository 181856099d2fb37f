"""Work of virtual devices in decentralised learning: a half step each, then all their mixings at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from roambench.contract.orders import NO_MODEL_HELD, ExchangeOrder, LeftOut, Vector
from roambench.fleet.simulated.job import TrainingJob, TrainingOutcome
from roambench.fleet.simulated.model_rows import ModelRows
from roambench.vectors import weighted_mean

_NONE = -1


@dataclass(slots=True)
class _Held:
    """Rows of a device's mixed model and of its momentum's velocity, -1 where there is none."""

    model: int = _NONE
    velocity: int = _NONE


@dataclass(frozen=True, slots=True)
class Exchanged:
    """Result of one device's iteration: `refused` says why there was no half step."""

    outcome: TrainingOutcome
    left_out: tuple[LeftOut, ...] = ()
    received: int = 0  # models that came

    @property
    def refused(self) -> str:
        """The reason why there was no half step; empty if there was one."""
        return self.outcome.refused


class PeerModels:
    """The models that devices hold between iterations. `has_momentum`: their velocities are kept as well."""

    def __init__(self, rows: ModelRows, *, has_momentum: bool) -> None:
        self._rows = rows
        self._has_momentum = has_momentum
        self._held: dict[int, _Held] = {}

    def model(self, device: int) -> Vector | None:
        """The model that the device holds, to be kept as long as one likes; None if it holds none."""
        held = self._held.get(device)
        return None if held is None or held.model == _NONE else self._rows.lend(held.model)

    def snapshot(self) -> list[tuple[int, int, int]]:
        """(device, row of its model, row of its velocity) of everybody; `restore` is the inverse."""
        return [(device, held.model, held.velocity) for device, held in sorted(self._held.items())]

    def restore(self, saved: Sequence[Sequence[int]]) -> None:
        """Hold again what `snapshot` returned."""
        self._held = {device: _Held(model, velocity) for device, model, velocity in saved}

    def rows(self) -> set[int]:
        """The rows that hold a device's model or velocity."""
        return {row for held in self._held.values() for row in (held.model, held.velocity)} - {_NONE}

    async def exchange(
        self,
        orders: Sequence[ExchangeOrder],
        published: Mapping[str, int],
        compute: Callable[[Sequence[TrainingJob]], Awaitable[list[TrainingOutcome]]],
    ) -> list[Exchanged]:
        """Carry out all orders of a step; answers in their order. `published`: rows by digest."""
        starts = [self._start(order, published) for order in orders]
        jobs = [
            (index, self._job(order, *start))
            for index, (order, start) in enumerate(zip(orders, starts, strict=True))
            if start is not None
        ]
        outcomes = [TrainingOutcome(refused=NO_MODEL_HELD)] * len(orders)
        half: dict[int, int] = {}
        for (index, job), outcome in zip(jobs, await compute([job for _, job in jobs]), strict=True):
            outcomes[index] = outcome
            if outcome.refused:
                self._release(job.out_row, job.velocity_out_row)
                continue
            half[job.device] = job.out_row
            held = self._held.setdefault(job.device, _Held())
            self._release(held.velocity)
            held.velocity = job.velocity_out_row
        refused = {order.device: outcomes[index].refused for index, order in enumerate(orders)}
        mixed = {order.device: self._mixed(order, half) for order in orders if order.device in half}
        for device, row in half.items():
            held = self._held[device]
            self._release(row, held.model)
            held.model = mixed[device]
        return [
            Exchanged(outcome, _left_out(order, half, refused), sum(n in half for n in order.neighbours))
            for order, outcome in zip(orders, outcomes, strict=True)
        ]

    def _start(self, order: ExchangeOrder, published: Mapping[str, int]) -> tuple[int, int] | None:
        """Rows of the model and the velocity to start from; None: it has no model."""
        if order.start_digest:
            return published[order.start_digest], _NONE
        held = self._held.get(order.device)
        return None if held is None or held.model == _NONE else (held.model, held.velocity)

    def _job(self, order: ExchangeOrder, model: int, velocity: int) -> TrainingJob:
        return TrainingJob(
            device=order.device,
            ap_row=model,
            own_row=_NONE,
            global_row=model,
            out_row=self._rows.take(),
            training=order.training,
            velocity_row=velocity,
            velocity_out_row=self._rows.take() if self._has_momentum else _NONE,
        )

    def _mixed(self, order: ExchangeOrder, half: Mapping[int, int]) -> int:
        """Σ_j W_ij x_j in ascending order of device, as an agent adds it up; the row it was put into."""
        own_weight = order.own_weight
        weights = {}
        for neighbour, weight in zip(order.neighbours, order.weights, strict=True):
            if neighbour in half:
                weights[neighbour] = weight
            else:
                own_weight += weight
        weights[order.device] = own_weight
        counted = [(half[device], weight) for device, weight in sorted(weights.items()) if weight != 0.0]
        models = [self._rows.row(row) for row, _ in counted]
        return self._rows.store(weighted_mean(models, np.array([weight for _, weight in counted])))

    def _release(self, *rows: int) -> None:
        for row in rows:
            if row != _NONE:
                self._rows.release(row)


def _left_out(
    order: ExchangeOrder, half: Mapping[int, int], refused: Mapping[int, str]
) -> tuple[LeftOut, ...]:
    return tuple(
        LeftOut(neighbour, f"refused: {refused[neighbour]}" if neighbour in refused else "lost: no order")
        for neighbour in order.neighbours
        if neighbour not in half
    )
