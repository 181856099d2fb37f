"""A cloud aggregation's model on its way to a device: downloadable for its order only, and reported."""

import asyncio

import numpy as np
import pytest

from hand_agent import LAYOUT, MODEL, REPORT, HandAgent, bench, connected, done, hand_agent
from roambench.contract.errors import LinkError
from roambench.contract.local_training import LocalTraining
from roambench.contract.model_blob import decode
from roambench.contract.model_digest import from_wire
from roambench.contract.orders import AnswerStatus, SyncOrder, SyncReply, TrainOrder
from roambench.wire.v1 import control_pb2 as wire

pytestmark = pytest.mark.asyncio


def sync_order(digest: str) -> SyncOrder:
    return SyncOrder("run/00004/00000/sync", 0, 4, 3, digest)


async def test_a_device_downloads_the_global_model_its_sync_order_names() -> None:
    received: list[bytes] = []

    async def fetch(agent: HandAgent, order: wire.Order) -> None:
        spec = order.sync
        blob, transfer = await agent.data.download(order.order_id, spec.ap, from_wire(spec.digest), 5.0)
        received.append(blob)
        report = wire.SyncReply(downloaded_bytes=transfer.transferred_bytes, download_s=1.5)
        agent.link.send(done(order, sync=report))

    async with bench() as where, hand_agent(where, on_order=fetch):
        await connected(where)
        (answer,) = await where.fleet.perform([sync_order(where.fleet.publish(MODEL))])
    assert answer.status is AnswerStatus.DONE
    assert answer.reply == SyncReply(len(received[0]), 1.5)
    assert np.array_equal(decode(received[0], layout=LAYOUT), MODEL)


async def test_another_model_than_the_ordered_one_cannot_be_downloaded() -> None:
    refusals: list[str] = []

    async def fetch_another(agent: HandAgent, order: wire.Order) -> None:
        other = where.fleet.publish(MODEL + 1)
        with pytest.raises(LinkError) as caught:
            await agent.data.download(order.order_id, 0, other, 5.0)
        refusals.append(str(caught.value))
        failed = wire.Answer(order_id=order.order_id, status=wire.Answer.FAILED, reason="refused")
        agent.link.send(wire.AgentFrame(answer=failed))

    async with bench() as where, hand_agent(where, on_order=fetch_another):
        await connected(where)
        (answer,) = await where.fleet.perform([sync_order(where.fleet.publish(MODEL))])
    assert answer.status is AnswerStatus.FAILED
    assert "no outstanding order names this model" in refusals[0]


@pytest.mark.parametrize("fields", [{}, {"sync": wire.SyncReply(download_s=float("nan"))}])
async def test_a_report_that_cannot_be_is_garbage(fields: dict[str, wire.SyncReply]) -> None:
    async def claim(agent: HandAgent, order: wire.Order) -> None:
        await asyncio.sleep(0)
        agent.link.send(done(order, **fields))

    async with bench() as where, hand_agent(where, on_order=claim):
        await connected(where)
        (answer,) = await where.fleet.perform([sync_order(where.fleet.publish(MODEL))])
    assert answer.status is AnswerStatus.GARBAGE


async def test_a_train_order_may_name_two_models_and_says_how_many_mini_batches() -> None:
    received: dict[str, bytes] = {}  # an order that is not answered yet may be told again
    steps: set[int] = set()

    async def fetch_both(agent: HandAgent, order: wire.Order) -> None:
        spec = order.train
        if not order.HasField("train") or received:
            return
        for name, digest in (("start", spec.start_digest), ("previous", spec.previous_digest)):
            received[name], _ = await agent.data.download(order.order_id, spec.ap, from_wire(digest), 5.0)
        steps.add(spec.training.steps)
        agent.link.send(done(order, train=REPORT))

    async with bench() as where, hand_agent(where, on_order=fetch_both):
        await connected(where)
        start, previous = where.fleet.publish(MODEL), where.fleet.publish(MODEL + 1)
        order = TrainOrder(
            "run/00004/00000/train", 0, 4, 3, start, LocalTraining(1, 7, 12), previous_digest=previous
        )
        (answer,) = await where.fleet.perform([order])
    assert answer.status is AnswerStatus.DONE
    assert np.array_equal(decode(received["start"], layout=LAYOUT), MODEL)
    assert np.array_equal(decode(received["previous"], layout=LAYOUT), MODEL + 1)
    assert steps == {12}


async def test_a_free_synchronisation_is_told_apart_on_the_wire() -> None:
    told: dict[str, bool] = {}

    async def note(agent: HandAgent, order: wire.Order) -> None:
        if order.HasField("sync"):
            told[order.order_id] = order.sync.free
        agent.link.send(done(order, sync=wire.SyncReply()))

    async with bench() as where, hand_agent(where, on_order=note):
        await connected(where)
        digest = where.fleet.publish(MODEL)
        free = SyncOrder("run/00004/00000/sync", 0, 4, 3, digest, free=True)
        charged = SyncOrder("run/00005/00000/sync", 0, 5, 3, digest)
        for order in (free, charged):
            (answer,) = await where.fleet.perform([order])
            assert answer.reply == SyncReply(0, 0.0)
    assert told == {"run/00004/00000/sync": True, "run/00005/00000/sync": False}
