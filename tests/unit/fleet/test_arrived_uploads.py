"""A model that the controller has received and verified is done, whatever becomes of its device's answer."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from cut_device import BLOB, TRAINED, arrived, device, uploaded
from hand_agent import MODEL, HandAgent, bench, connected, hand_agent, redialled, until
from roambench.contract.errors import LinkError
from roambench.contract.events import EventKind
from roambench.contract.model_digest import digest_of
from roambench.contract.orders import AnswerStatus, DiscardOrder, UploadOrder, UploadReply
from roambench.wire.v1 import control_pb2 as wire

pytestmark = pytest.mark.asyncio

ORDER = UploadOrder("run/2/0/upload", 0, 2, 4, TRAINED, keeps_model=True)


async def upload(agent: HandAgent, order: wire.Order, limit_s: float = 10.0) -> None:
    await agent.data.upload(order.order_id, TRAINED, 4, BLOB, digest_of(BLOB), 0.0, limit_s)


@pytest.mark.parametrize("says", ["nothing", "failed", "refused"])
async def test_an_upload_that_arrived_is_done_whatever_its_device_says(says: str) -> None:
    statuses = {"failed": wire.Answer.FAILED, "refused": wire.Answer.REFUSED}

    async def silent(agent: HandAgent, order: wire.Order) -> None:
        if order.HasField("upload"):
            await upload(agent, order)
            if says in statuses:
                answer = wire.Answer(order_id=order.order_id, status=statuses[says], reason="broke off")
                agent.link.send(wire.AgentFrame(answer=answer))

    async with bench(deadline_s=5.0) as where, hand_agent(where, on_order=silent) as agent:
        await connected(where)
        where.fleet.publish(MODEL)
        (answer,) = await where.fleet.perform([ORDER])
        assert answer.status is AnswerStatus.DONE
        assert answer.reason.startswith("the model had arrived: ")
        assert isinstance(answer.reply, UploadReply)
        np.testing.assert_array_equal(answer.reply.model, MODEL + 1)
        assert (answer.reply.uploaded_bytes, answer.reply.model_digest) == (len(BLOB), digest_of(BLOB))
        assert answer.reply.upload_s > 0.0
        # The device takes it for a model that it still has to deliver: it is told.
        await until(lambda: any(order.HasField("discard") for order in agent.orders))
        discard = next(order.discard for order in agent.orders if order.HasField("discard"))
        assert (discard.train_order_id, discard.keeps_model) == (TRAINED, True)


async def test_what_arrives_when_the_order_is_over_stays_with_its_device(tmp_path: Path) -> None:
    """It was acknowledged and thrown away: the device had it no more when it was asked for again."""
    over = threading.Event()
    async with bench(deadline_s=1.0) as where, device(where, tmp_path / "pi", []) as pi:
        pi.shelve(TRAINED)
        where.fleet.publish(MODEL)
        registry, accept = where.fleet._registry, where.fleet._registry.accept

        def slow(order: UploadOrder, blob: bytes) -> object:
            over.wait(30.0)
            return accept(order, blob)

        registry.accept = slow  # type: ignore[method-assign,assignment]
        first = await uploaded(where, pi)
        assert first.status is AnswerStatus.TIMEOUT
        over.set()
        where.fleet._giver.deadline_s = 20.0
        arrived(await uploaded(where, pi, step=3))


async def test_who_uploads_too_late_is_told_that_nobody_waits() -> None:
    told: list[str] = []
    over = threading.Event()

    async def late(agent: HandAgent, order: wire.Order) -> None:
        if order.HasField("upload"):
            try:
                await upload(agent, order)
            except LinkError as error:
                told.append(str(error))

    async with bench(deadline_s=0.5) as where, hand_agent(where, on_order=late):
        await connected(where)
        where.fleet.publish(MODEL)
        registry, accept = where.fleet._registry, where.fleet._registry.accept

        def slow(order: UploadOrder, blob: bytes) -> object:
            over.wait(30.0)
            return accept(order, blob)

        registry.accept = slow  # type: ignore[method-assign,assignment]
        (answer,) = await where.fleet.perform([ORDER])
        assert answer.status is AnswerStatus.TIMEOUT
        over.set()
        await until(lambda: told)
        assert "not finished within" in told[0] or "not awaited" in told[0]


async def test_an_answer_is_known_before_the_cache_lets_go(tmp_path: Path) -> None:
    """Whatever dies in between: the order is answered by the agent's next life."""
    async with bench(deadline_s=10.0) as where, device(where, tmp_path / "pi", []) as pi:
        pi.shelve(TRAINED)
        where.fleet.publish(MODEL)
        cache, release, known = (
            pi.order_queue.model_cache,
            pi.order_queue.model_cache.release,
            list[bytes | None](),
        )

        def watched(order_id: str, *, as_own: bool = False) -> None:
            known.append(cache.answer("run/2/0/upload"))
            release(order_id, as_own=as_own)

        cache.release = watched  # type: ignore[method-assign]
        arrived(await uploaded(where, pi))
        (answer,) = known
        assert answer is not None
        assert wire.Answer.FromString(answer).status == wire.Answer.DONE


async def test_a_discard_that_nobody_may_have_heard_is_said_again() -> None:
    """It was called done when it lay in the queue of a session, which may have been dead for long."""
    discard = DiscardOrder("run/2/0/discard", 0, 2, TRAINED, "late")
    for cached in ([TRAINED], []):  # the second has no such model any more
        async with bench() as where, hand_agent(where, trained=cached) as agent:
            await until(lambda: where.kinds().count(EventKind.CLOCK_OFFSET) == 1)  # it has caught up
            await where.fleet.perform([discard])
            await until(lambda: len(agent.orders) == 1)
            await redialled(where, agent)
            await until(lambda: where.kinds().count(EventKind.CLOCK_OFFSET) == 2)
            assert len(agent.orders) == 1 + len(cached)
