"""x_i ← Σ_j W_ij x_j on a device, whoever came first and whoever did not come at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from roambench.agent.peer_inbox import Parcel
from roambench.contract.orders import Vector
from roambench.vectors import RunningSum


@dataclass(slots=True)
class Receipt:
    """The end of one neighbour's model: the whole, checked `parcel`, or the `reason` why it is left out.

    `weight` is W_ij; the reason begins with late, lost, refused or garbage.
    """

    device: int
    weight: float
    parcel: Parcel | None = None
    received_bytes: int = 0
    reason: str = ""


def mixed(device: int, own: Vector, own_weight: float, receipts: Sequence[Receipt], layout: str) -> Vector:
    """The mixed model of `device`, shape (parameters,): `vectors.weighted_mean` in ascending order of device,
    bit for bit. `receipts` ascend, too; each parcel is closed when it has been added.

    A model of weight 0 is not added. The weights of those left out are added to one's own, one by one.
    """
    for receipt in receipts:
        if receipt.reason:
            own_weight += receipt.weight
    total = RunningSum()
    count = 0
    for model, weight in _in_order(device, own, own_weight, receipts, layout):
        total.add(model, weight)
        count += 1
    if not count:
        total.add(own, own_weight)
    return total.total()


def _in_order(
    device: int, own: Vector, own_weight: float, receipts: Sequence[Receipt], layout: str
) -> Iterator[tuple[Vector, float]]:
    below = [receipt for receipt in receipts if receipt.device < device]
    above = [receipt for receipt in receipts if receipt.device > device]
    yield from _theirs(below, layout)
    if own_weight != 0.0:
        yield own, own_weight
    yield from _theirs(above, layout)


def _theirs(receipts: Sequence[Receipt], layout: str) -> Iterator[tuple[Vector, float]]:
    for receipt in receipts:
        if receipt.parcel is not None and not receipt.reason:
            if receipt.weight != 0.0:
                yield receipt.parcel.model(layout), receipt.weight
            receipt.parcel.close()
