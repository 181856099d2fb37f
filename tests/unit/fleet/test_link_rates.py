"""Ports have a speed; an order that brings a rate of its own is not overruled."""

from __future__ import annotations

import pytest

from roambench.contract.local_training import LocalTraining
from roambench.contract.orders import Answer, IdleOrder, TrainOrder, UploadOrder
from roambench.fleet.link_rates import LinkRates, RatedFleet

pytestmark = pytest.mark.asyncio


class Listening:
    """A fleet that notes what it is asked."""

    def __init__(self):
        self.seen = []

    async def perform(self, orders, on_answer) -> list[Answer]:
        self.seen += orders
        return []

    def publish(self, model) -> str:
        return "digest"

    def retain(self, digests) -> None:
        pass


async def test_native_orders_get_the_ports_rates_and_paced_ones_keep_theirs():
    fleet = Listening()
    await RatedFleet(fleet, LinkRates(download_mbit_s=20.0, upload_mbit_s=10.0)).perform(
        [
            TrainOrder("a", 0, 1, 2, "00", LocalTraining()),
            TrainOrder("b", 0, 1, 2, "00", LocalTraining(), download_mbit_s=36.0),
            UploadOrder("c", 0, 1, 2, "t"),
            UploadOrder("d", 0, 1, 2, "t", upload_mbit_s=7.0),
            IdleOrder("e", 0, 1, True),
        ]
    )
    rates = [getattr(o, "download_mbit_s", getattr(o, "upload_mbit_s", None)) for o in fleet.seen]
    assert rates == [20.0, 36.0, 10.0, 7.0, None]
