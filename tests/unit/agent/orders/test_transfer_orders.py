"""Transfer orders as agents carry them out."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from agent_ports import Records, reporter
from fixed_dial import FixedDial
from roambench.agent.board_load import BoardLoad
from roambench.agent.orders.model_cache import ModelCache
from roambench.agent.orders.transfer_orders import TransferOrders
from roambench.agent.orders.workplace import Workplace
from roambench.agent.readings.timeline import PhaseTimeline
from roambench.agent.session.data_link import DataLink, ModelTransfer
from roambench.contract.device_time import DeviceClock
from roambench.contract.orders import GivenOrder, TransferOrder
from roambench.contract.phases import Moved


@dataclass
class SlowLink:
    """Takes a tenth of a second for every transfer, and notes how long it was allowed to take."""

    limits_s: list[float] = field(default_factory=list)

    async def fetch_padding(
        self, order_id: str, total_bytes: int, limit_s: float, radio: object
    ) -> ModelTransfer:
        self.limits_s.append(limit_s)
        await asyncio.sleep(0.1)
        return ModelTransfer(Moved(total_bytes), 0.1)


@pytest.mark.asyncio
async def test_all_transfers_of_an_order_have_its_time_together(tmp_path: Path) -> None:
    """A slow link's device is free again when nobody waits for the answer any more."""
    clock, link = DeviceClock(), SlowLink()
    place = Workplace(
        timeline=PhaseTimeline("pi-01", "boot", clock, tmp_path, Records()),
        worker=cast(Any, None),
        clock=clock,
        folder=tmp_path,
        reporter=reporter(clock=clock),
        load=BoardLoad(),
        dial=FixedDial(cast(DataLink, link)),
    )
    order = TransferOrder("calibration/1", 0, 0, False, 1000, 4.0, 3)
    await TransferOrders(place, ModelCache(tmp_path / "cache")).padding(GivenOrder(order, 20.0), order)
    first, second, third = link.limits_s
    assert 20.0 >= first >= second + 0.1 >= third + 0.2
