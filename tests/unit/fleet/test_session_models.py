"""Small models within the session: what is right arrives, what is spoilt is refused, no other connection is
made."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from cut_device import TRAINED, device
from hand_agent import (
    LAYOUT,
    REPORT,
    Bench,
    HandAgent,
    bench,
    connected,
    done,
    hand_agent,
    lines,
    train_order,
    until,
)
from roambench.agent.session.control_link import secure_channel
from roambench.contract.errors import LinkError, ModelError
from roambench.contract.events import EventKind
from roambench.contract.link_codecs import LinkCodecs
from roambench.contract.model_blob import SESSION_BYTES, encode
from roambench.contract.model_digest import digest_of, from_wire, to_wire
from roambench.contract.orders import AnswerStatus, SyncOrder, TrainOrder, UploadOrder, UploadReply
from roambench.contract.phases import Phase
from roambench.wire.v1 import control_pb2 as wire
from roambench.wire.v1.methods import PROTOCOL_VERSION, SESSION

pytestmark = pytest.mark.asyncio

SMALL = np.arange(5_000, dtype=np.float32) / 7.0
BLOB = encode(SMALL + 1, LAYOUT)
UPLOAD = UploadOrder("run/2/0/upload", 0, 2, 4, TRAINED)


async def caught_up(where: Bench, count: int = 1) -> None:
    """Sessions are open, and no order is given twice because it was outstanding when they opened."""
    await connected(where, count)
    await until(lambda: where.kinds().count(EventKind.CLOCK_OFFSET) == count)


async def send(agent: HandAgent, order: wire.Order, blob: bytes = BLOB, digest: str = "") -> None:
    asked = order.upload
    await agent.session.upload(
        order.order_id, asked.train_order_id, asked.ap, blob, digest or digest_of(blob), 0.0, 10.0
    )


async def serve(agent: HandAgent, order: wire.Order) -> None:
    if order.HasField("train"):
        digest = from_wire(order.train.start_digest)
        blob, moved = await agent.session.download(order.order_id, order.train.ap, digest, 10.0)
        assert moved.transferred_bytes == len(blob)
        agent.link.send(done(order, train=REPORT))
    else:
        await send(agent, order)
        report = wire.UploadReport(uploaded_bytes=len(BLOB), model_digest=to_wire(digest_of(BLOB)))
        agent.link.send(done(order, upload=report))


async def test_an_agent_gets_and_gives_small_models_in_its_phases_without_another_connection(
    tmp_path: Path,
) -> None:
    async with bench(deadline_s=30.0) as where, device(where, tmp_path / "pi", []) as pi:
        digest = where.fleet.publish(SMALL)
        (synced,) = await where.fleet.perform([SyncOrder("run/1/0/sync", 0, 1, 3, digest)])
        assert (synced.status, synced.reason) == (AnswerStatus.DONE, "")
        kept = pi.order_queue.model_cache.global_model()
        assert kept is not None
        assert digest_of(kept.read_bytes()) == digest
        pi.shelve(TRAINED, BLOB)
        (answer,) = await where.fleet.perform([UPLOAD])
        assert (answer.status, answer.reason) == (AnswerStatus.DONE, "")
        assert isinstance(answer.reply, UploadReply)
        np.testing.assert_array_equal(answer.reply.model, SMALL + 1)
        assert answer.reply.uploaded_bytes == len(BLOB)
        for phase in (Phase.DOWNLOAD, Phase.UPLOAD):
            (span,) = pi.phases(phase)
            assert span.transferred_bytes == len(BLOB)
            assert span.start_ns <= span.first_byte_ns <= span.last_byte_ns <= span.end_ns
        assert pi.links.connections == 0


async def test_larger_and_paced_models_need_the_data_port(tmp_path: Path) -> None:
    large = np.zeros(SESSION_BYTES // 4, np.float32)  # and a header
    async with bench(deadline_s=30.0) as where, hand_agent(where, on_order=serve) as agent:
        await caught_up(where)
        small, larger = (where.fleet.publish(model) for model in (SMALL, large))
        answered = [
            asyncio.ensure_future(where.fleet.perform([order]))
            for order in (
                train_order(small),
                train_order(larger, 2),
                TrainOrder("run/3/0/train", 0, 3, 3, small, train_order(small).training, 500.0),
            )
        ]
        await until(lambda: len(agent.orders) >= 3)
        told = {order.order_id: order.in_session for order in agent.orders if order.HasField("train")}
        assert list(told.values()) == [True, False, False]
        # One who asks for them within the session all the same does not get them.
        await until(lambda: len(lines(where, EventKind.DOWNLOAD_REFUSED)) == 2)
        refused = lines(where, EventKind.DOWNLOAD_REFUSED)
        assert refused == 2 * ["pi-01: this model travels over the data port"]
        ((first,), *_) = [await answered[0]]
        assert first.status is AnswerStatus.DONE
        for waiting in answered[1:]:
            waiting.cancel()
        await asyncio.gather(*answered, return_exceptions=True)


@pytest.mark.parametrize(
    ("blob", "digest", "reason"),
    [
        (BLOB, "d" * 64, "does not match its digest"),
        (BLOB + b"x", "", "a model of this run has"),
        (b"", "", "a model of this run has"),
        (encode(SMALL, "b" * 32), "", "has layout"),
        (b"\x80\x05" + bytes(len(BLOB) - 2), "", "wrong magic"),
    ],
)
async def test_a_spoilt_upload_is_refused_and_its_answer_is_garbage(
    blob: bytes, digest: str, reason: str
) -> None:
    async def spoilt(agent: HandAgent, order: wire.Order) -> None:
        with pytest.raises(ModelError, match=reason):
            await send(agent, order, blob, digest)
        agent.link.send(done(order, upload=wire.UploadReport(model_digest=b"d" * 32)))

    async with bench() as where, hand_agent(where, on_order=spoilt):
        await caught_up(where)
        where.fleet.publish(SMALL)
        (answer,) = await where.fleet.perform([UPLOAD])
        assert answer.status is AnswerStatus.GARBAGE
        assert reason in answer.reason
        assert any(reason in line for line in lines(where, EventKind.UPLOAD_REFUSED))


async def test_no_device_gets_or_gives_what_no_order_of_its_own_names() -> None:
    async with (
        bench(deadline_s=2.0) as where,
        hand_agent(where) as agent,
        hand_agent(where, "pi-02") as other,
    ):
        await caught_up(where, 2)
        digest = where.fleet.publish(SMALL)
        orders = [train_order(digest), UPLOAD, UploadOrder("run/3/0/upload", 0, 3, 4, TRAINED, 5.0)]
        performed = asyncio.ensure_future(where.fleet.perform(orders))
        await until(lambda: len(agent.orders) >= 3)
        _, upload, paced = agent.orders[-3:]
        with pytest.raises(LinkError, match="no outstanding order names this model"):
            await other.session.download(orders[0].order_id, 3, digest, 10.0)
        with pytest.raises(LinkError, match="no outstanding order names this model"):
            await agent.session.download(orders[0].order_id, 3, "d" * 64, 10.0)
        with pytest.raises(ModelError, match="no outstanding order asks for this upload"):
            await send(other, upload)
        with pytest.raises(ModelError, match="travels over the data port"):
            await send(agent, paced)
        await performed


async def test_a_device_that_asks_again_and_again_is_refused() -> None:
    """Each reply lies in the queue of its session until it is written."""
    async with bench(deadline_s=2.0) as where, hand_agent(where) as agent:
        await caught_up(where)
        digest = where.fleet.publish(SMALL)
        performed = asyncio.ensure_future(where.fleet.perform([train_order(digest)]))
        await until(lambda: agent.orders)

        async def again_and_again() -> None:
            for _ in range(50):
                await agent.session.download(train_order(digest).order_id, 3, digest, 10.0)

        with pytest.raises(LinkError, match="times for one order"):
            await again_and_again()
        await performed


async def test_an_upload_that_arrives_twice_is_taken_once_and_its_answer_too() -> None:
    async def twice(agent: HandAgent, order: wire.Order) -> None:
        await send(agent, order)
        await serve(agent, order)

    async with bench() as where, hand_agent(where, on_order=twice):
        await caught_up(where)
        where.fleet.publish(SMALL)
        (answer,) = await where.fleet.perform([UPLOAD])
        assert (answer.status, answer.reason) == (AnswerStatus.DONE, "")


@pytest.mark.parametrize("way", ["download", "upload"])
async def test_a_session_that_breaks_in_a_transfer_costs_an_attempt(tmp_path: Path, way: str) -> None:
    """The model comes over the next session, and its bytes count once."""
    async with bench(deadline_s=30.0) as where, device(where, tmp_path / "pi", []) as pi:
        session, broken = pi.dial.session, list[str]()
        move = getattr(session, way)

        async def breaks(*given: object, **more: object) -> object:
            if not broken:
                broken.append(way)
                session._control.redial("in the middle of a transfer")
            return await move(*given, **more)

        setattr(session, way, breaks)
        digest = where.fleet.publish(SMALL)
        if way == "upload":
            pi.shelve(TRAINED, BLOB)
        order = SyncOrder("run/1/0/sync", 0, 1, 3, digest) if way == "download" else UPLOAD
        (answer,) = await where.fleet.perform([order])
        assert (answer.status, answer.reason) == (AnswerStatus.DONE, "")
        spans = pi.phases(Phase.DOWNLOAD if way == "download" else Phase.UPLOAD)
        moved = [span.transferred_bytes for span in spans]
        assert (len(moved) > 1, moved[-1], sum(moved)) == (True, len(BLOB), len(BLOB))
        assert broken == [way]
        assert pi.links.connections == 0


@pytest.mark.parametrize("codecs", [LinkCodecs(up="int8", down="fp16")])
async def test_coded_models_come_under_the_digest_of_their_code(codecs: LinkCodecs) -> None:
    received: list[bytes] = []

    async def fetch(agent: HandAgent, order: wire.Order) -> None:
        digest = from_wire(order.train.start_digest)
        blob, _ = await agent.session.download(order.order_id, 3, digest, 10.0, coded=True)
        received.append(blob)
        agent.link.send(done(order, train=REPORT))

    async with bench(codecs=codecs) as where, hand_agent(where, on_order=fetch):
        await caught_up(where)
        digest = where.fleet.publish(SMALL)
        (answer,) = await where.fleet.perform([train_order(digest)])
        assert answer.status is AnswerStatus.DONE
        assert digest_of(received[0]) == where.fleet._registry.sent(digest) != digest


async def test_an_agent_that_does_not_read_its_replies_is_not_read_any_more() -> None:
    async with bench() as where:
        channel = secure_channel(
            f"127.0.0.1:{where.fleet.control_port}", where.authority.issue("pi-01"), 2**22
        )
        session = channel.stream_stream(SESSION)()
        hello = wire.Hello(protocol_version=PROTOCOL_VERSION, device="pi-01", machine_id="m")
        await session.write(wire.AgentFrame(hello=hello).SerializeToString())
        asks = wire.AgentFrame(model_request=wire.ModelRequest(order_id="x" * 100_000)).SerializeToString()

        async def ask_on() -> None:
            for _ in range(200):
                await session.write(asks)

        asking = asyncio.create_task(ask_on())
        await connected(where)
        held = where.fleet.sessions.of(0)
        assert held is not None
        await until(lambda: held.outgoing.qsize() >= 32)
        await asyncio.sleep(0.5)  # a slower machine proves less
        assert held.outgoing.qsize() <= 32
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await channel.close()


async def test_without_a_session_nothing_is_asked_for() -> None:
    async with bench() as where, hand_agent(where) as agent:
        await caught_up(where)
        agent.link.rest("between runs")
        await until(lambda: not agent.link.is_open)
        with pytest.raises(LinkError, match="no session"):
            await agent.session.download("run/1/0/train", 3, "d" * 64, 1.0)
