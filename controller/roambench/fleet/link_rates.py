"""Puts the emulated link's rates into orders, so that rounds need not know how fast a link is."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from roambench.contract.orders import (
    Answer,
    ExchangeOrder,
    Order,
    ProgramOrder,
    SyncOrder,
    TrainOrder,
    UploadOrder,
    Vector,
)
from roambench.rounds.ports import Fleet, OnAnswer, keep_all


@dataclass(frozen=True, slots=True)
class LinkRates:
    """Mbit/s in each direction; 0: native speed, no pacing."""

    download_mbit_s: float
    upload_mbit_s: float


class RatedFleet:
    """A fleet whose ports run at fixed rates; an order that carries a rate keeps it."""

    def __init__(self, fleet: Fleet, rates: LinkRates) -> None:
        self._fleet = fleet
        self._rates = rates

    async def perform(self, orders: Sequence[Order], on_answer: OnAnswer = keep_all) -> list[Answer]:
        """Perform the orders, each with its link's rates."""
        return await self._fleet.perform([self._rated(order) for order in orders], on_answer)

    def publish(self, model: Vector | bytes) -> str:
        """Offer a model, or a message, for download; returns its digest."""
        return self._fleet.publish(model)

    def retain(self, digests: Collection[str]) -> None:
        """Forget published models but those of `digests`."""
        self._fleet.retain(digests)

    def _rated(self, order: Order) -> Order:
        match order:
            case ExchangeOrder():  # what a device sends goes up its own link, to its neighbours as to an AP
                return replace(
                    order,
                    download_mbit_s=order.download_mbit_s or self._rates.download_mbit_s,
                    exchange_mbit_s=order.exchange_mbit_s or self._rates.upload_mbit_s,
                )
            case TrainOrder() | ProgramOrder() | SyncOrder() if order.download_mbit_s == 0.0:
                return replace(order, download_mbit_s=self._rates.download_mbit_s)
            case UploadOrder() if order.upload_mbit_s == 0.0:
                return replace(order, upload_mbit_s=self._rates.upload_mbit_s)
            case _:
                return order
