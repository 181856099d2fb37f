"""While records wait for a slow disk, everything else goes on: orders, models, sessions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from hand_agent import LAYOUT, MODEL, REPORT, SPEC, Bench, HandAgent, done, hand_agent, train_order
from roambench.contract.device_time import DeviceClock
from roambench.contract.model_blob import decode
from roambench.contract.model_digest import from_wire
from roambench.contract.orders import AnswerStatus
from roambench.contract.records import AgentEvent, RecordKind
from roambench.fleet.grpc_fleet import FleetSettings, GrpcFleet
from roambench.identity.authority import CONTROLLER_NAME, Authority
from roambench.wire.v1 import control_pb2 as wire

NAMES = ("pi-01", "pi-02")
EVENT = AgentEvent("something", 1, "").to_bytes()


@pytest.mark.asyncio
async def test_a_model_is_downloaded_and_an_order_answered_while_a_drain_waits_for_the_disk() -> None:
    disk_is_there, waiting = threading.Event(), threading.Event()

    def sink(name: str, uuid: str, records: Sequence[tuple[int, int, bytes]]) -> int:
        waiting.set()
        assert disk_is_there.wait(30)
        return max(seq for seq, _, _ in records)

    authority = Authority.create()
    fleet = GrpcFleet(
        FleetSettings("run", NAMES, (SPEC, SPEC), LAYOUT, 10.0),
        authority.issue(CONTROLLER_NAME),
        DeviceClock(),
        sink,
        lambda *event: None,
        clock_observer=lambda record: None,
    )
    await fleet.start()
    where = Bench(fleet, authority)

    async def train(agent: HandAgent, order: wire.Order) -> None:
        digest = from_wire(order.train.start_digest)
        blob, _ = await agent.data.download(order.order_id, order.train.ap, digest, 10.0)
        assert decode(blob).tobytes() == MODEL.tobytes()
        agent.link.send(done(order, train=REPORT))

    try:
        async with hand_agent(where, on_order=train) as agent:
            async with asyncio.timeout(60):
                while not agent.link.is_open:
                    await asyncio.sleep(0.01)
            drain = asyncio.create_task(agent.link.drain("ab" * 16, [(1, RecordKind.EVENT, EVENT)]))
            assert await asyncio.to_thread(waiting.wait, 10)
            (answer,) = await fleet.perform([train_order(fleet.publish(MODEL))])
            assert answer.status is AnswerStatus.DONE
            assert not drain.done()  # nothing is acknowledged that is not on the disk
            disk_is_there.set()
            assert await drain == 1
    finally:
        disk_is_there.set()
        await fleet.stop("test over", drain_s=0.5)
