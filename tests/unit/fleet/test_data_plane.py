"""Models over the data port: what is right arrives, what is spoilt is refused, nobody takes another's."""

import asyncio
import contextlib
import zlib
from collections.abc import AsyncIterator
from dataclasses import replace

import grpc
import numpy as np
import pytest

from hand_agent import (
    LAYOUT,
    MODEL,
    REPORT,
    HandAgent,
    bench,
    connected,
    done,
    hand_agent,
    train_order,
    upload_header,
)
from roambench.agent.session.control_link import secure_channel
from roambench.contract.errors import LinkError, ModelError
from roambench.contract.events import EventKind
from roambench.contract.link_codecs import LinkCodecs
from roambench.contract.model_blob import encode, encode_coded
from roambench.contract.model_digest import digest_of, from_wire, to_wire
from roambench.contract.orders import AnswerStatus, IdleOrder, UploadOrder, UploadReply
from roambench.learning.codecs.coder import Coder
from roambench.wire.v1 import control_pb2 as wire
from roambench.wire.v1 import data_pb2
from roambench.wire.v1.methods import MAX_DATA_MESSAGE_BYTES, UPLOAD

pytestmark = pytest.mark.asyncio


async def test_a_device_downloads_what_its_order_names_and_its_upload_arrives_verified() -> None:
    received: list[bytes] = []

    async def serve(agent: HandAgent, order: wire.Order) -> None:
        if order.HasField("train"):
            blob, transfer = await agent.data.download(
                order.order_id, order.train.ap, from_wire(order.train.start_digest), 5.0
            )
            assert transfer.transferred_bytes == len(blob)
            received.append(blob)
            agent.link.send(done(order, train=REPORT))
        else:
            blob = encode(MODEL + 1, LAYOUT)
            await agent.data.upload(
                order.order_id, order.upload.train_order_id, order.upload.ap, blob, digest_of(blob), 0.0, 5.0
            )
            report = wire.UploadReport(uploaded_bytes=len(blob), model_digest=to_wire(digest_of(blob)))
            agent.link.send(done(order, upload=report))

    async with bench() as where, hand_agent(where, on_order=serve):
        await connected(where)
        async with asyncio.timeout(60):  # eight probes go to and fro before there is an order
            while EventKind.CLOCK_OFFSET not in where.kinds():
                await asyncio.sleep(0.01)
        digest = where.fleet.publish(MODEL)
        (trained,) = await where.fleet.perform([train_order(digest)])
        assert trained.status is AnswerStatus.DONE
        assert digest_of(received[0]) == digest
        upload = UploadOrder("run/2/0/upload", 0, 2, 4, trained.order_id)
        (uploaded,) = await where.fleet.perform([upload])
        assert isinstance(uploaded.reply, UploadReply)
        np.testing.assert_array_equal(uploaded.reply.model, MODEL + 1)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        ("digest", "does not match its digest"),
        ("oversize", "a model of this run has"),
        ("longer", "longer than"),
        ("random", "readable header"),
        ("layout", "has layout"),
        ("nan", "NaN"),
        ("pickle", "wrong magic"),
    ],
)
async def test_a_spoilt_upload_is_refused_and_logged_and_the_controller_stays_up(
    spoil: str, reason: str
) -> None:
    good = encode(MODEL, LAYOUT)
    nan = MODEL.copy()
    nan[5] = np.nan
    blob = {
        "layout": encode(MODEL, "b" * 32),
        "nan": encode(nan, LAYOUT),
        "pickle": b"\x80\x05" + bytes(len(good) - 2),
    }.get(spoil, good)

    async def spoilt(agent: HandAgent, order: wire.Order) -> None:
        header = upload_header(order, blob)
        if spoil == "oversize":
            header.total_bytes += 10_000_000_000
        if spoil == "digest":
            header.digest = bytes(32)

        async def messages() -> AsyncIterator[bytes]:
            if spoil == "random":
                yield np.random.Generator(np.random.PCG64(1)).bytes(5000)
                return
            yield header.SerializeToString()
            sent = blob + b"x" * (spoil == "longer")
            for start in range(0, len(sent), 200_000):
                yield sent[start : start + 200_000]

        channel = secure_channel(
            f"127.0.0.1:{where.fleet.data_port}", agent.credential, MAX_DATA_MESSAGE_BYTES
        )
        receipt = data_pb2.UploadReceipt.FromString(await channel.stream_unary(UPLOAD)(messages()))
        await channel.close()
        assert not receipt.accepted
        assert reason in receipt.reason
        agent.link.send(done(order, upload=wire.UploadReport(model_digest=b"d" * 32)))

    async with bench() as where, hand_agent(where, on_order=spoilt):
        await connected(where)
        where.fleet.publish(MODEL)
        (answer,) = await where.fleet.perform([UploadOrder("run/2/0/upload", 0, 2, 4, "run/1/0/train")])
        assert answer.status is AnswerStatus.GARBAGE
        assert any(kind == EventKind.UPLOAD_REFUSED and reason in why for _, _, kind, why in where.seen)
        (again,) = await where.fleet.perform([IdleOrder("run/3/0/idle", 0, 3, True)])
        assert again.status is AnswerStatus.DONE


def coded(text: str, numbers: int = MODEL.size, layout: str = LAYOUT) -> bytes:
    coder = Coder.of(text, layout, ())
    assert coder is not None
    blob, _ = coder.encode(MODEL[:numbers], key=1)
    return blob


@pytest.mark.parametrize(
    ("up", "blob", "reason"),
    [
        ("int8", coded("fp16"), "expected at most"),
        ("int8", coded("int4"), "bytes, expected"),
        ("int8", coded("int8", layout="b" * 32), "has layout"),
        ("int8", coded("int8", numbers=1000), "1000 numbers, expected 300000"),
        ("fp16", encode_coded(b"\x00\x7c" * MODEL.size, LAYOUT, MODEL.size), "NaN or infinity"),
        (
            "topk:0.5",
            encode_coded(b"\xff" * 8 * (MODEL.size // 2), LAYOUT, MODEL.size),
            "ascending and below",
        ),
        ("deflate", encode_coded(zlib.compress(b"\0" * 10**8), LAYOUT, MODEL.size), "more than 1200000"),
        ("int8", encode(MODEL, LAYOUT), "expected at most"),
    ],
)
async def test_a_hostile_code_is_garbage_of_its_device_alone(up: str, blob: bytes, reason: str) -> None:
    """What is longer than a code can be is refused before it is read. The other device's model arrives."""
    good = coded(up)

    async def serve(agent: HandAgent, order: wire.Order) -> None:
        sent = blob if order.device == 0 else good
        with contextlib.suppress(ModelError):
            await agent.data.upload(
                order.order_id, order.upload.train_order_id, order.upload.ap, sent, digest_of(sent), 0.0, 5.0
            )
        agent.link.send(done(order, upload=wire.UploadReport(model_digest=to_wire(digest_of(sent)))))

    async with (
        bench(codecs=LinkCodecs(up=up)) as where,
        hand_agent(where, on_order=serve),
        hand_agent(where, "pi-02", machine="machine-2", on_order=serve),
    ):
        await connected(where, 2)
        where.fleet.publish(MODEL)
        orders = [UploadOrder(f"run/2/{device}/upload", device, 2, 4, "run/1/0/train") for device in (0, 1)]
        hostile, well_behaved = await where.fleet.perform(orders)
        assert hostile.status is AnswerStatus.GARBAGE
        assert any(kind == EventKind.UPLOAD_REFUSED and reason in why for _, _, kind, why in where.seen)
        assert isinstance(well_behaved.reply, UploadReply)
        assert well_behaved.reply.model.shape == MODEL.shape


async def test_a_coded_version_comes_with_a_digest_of_its_own_and_is_what_differences_are_of() -> None:
    codecs = LinkCodecs(up="int8", down="int4", seed=3)
    up, down = (Coder.of(text, LAYOUT, ()) for text in (codecs.up, codecs.down))
    assert up is not None
    assert down is not None
    bases: list[np.ndarray] = []
    named: list[bytes] = []

    async def serve(agent: HandAgent, order: wire.Order) -> None:
        digest = from_wire(named[0])
        if order.HasField("train"):
            blob, _ = await agent.data.download(order.order_id, order.train.ap, digest, 5.0, coded=True)
            bases.append(down.decode(blob))
            agent.link.send(done(order, train=REPORT))
            return
        if not order.HasField("upload"):
            return
        assert order.upload.base_digest == named[0]
        blob, _ = up.encode(bases[0] + 1, 4, bases[0])
        with contextlib.suppress(ModelError):
            await agent.data.upload(
                order.order_id, order.upload.train_order_id, order.upload.ap, blob, digest_of(blob), 0.0, 5.0
            )
        report = wire.UploadReport(uploaded_bytes=len(blob), model_digest=to_wire(digest_of(blob)))
        agent.link.send(done(order, upload=report))

    async with bench(codecs=codecs) as where, hand_agent(where, on_order=serve):
        await connected(where)
        digest = where.fleet.publish(MODEL)
        named.append(to_wire(digest))
        (trained,) = await where.fleet.perform([train_order(digest)])
        upload = UploadOrder("run/2/0/upload", 0, 2, 4, trained.order_id, base_digest=digest)
        (uploaded,) = await where.fleet.perform([upload])
        assert isinstance(uploaded.reply, UploadReply)
        np.testing.assert_allclose(uploaded.reply.model, bases[0] + 1, rtol=1e-4)
        where.fleet.retain([])
        (gone,) = await where.fleet.perform([replace(upload, order_id="run/3/0/upload")])
        assert gone.status is AnswerStatus.GARBAGE


async def test_done_without_a_model_or_with_nan_losses_is_garbage() -> None:
    async def lie(agent: HandAgent, order: wire.Order) -> None:
        if order.HasField("train"):
            report = wire.TrainReply(samples=5, model_digest=b"d" * 32, mean_loss=float("nan"))
            agent.link.send(done(order, train=report))
        else:
            agent.link.send(done(order, upload=wire.UploadReport(model_digest=b"d" * 32)))

    async with bench() as where, hand_agent(where, on_order=lie):
        await connected(where)
        digest = where.fleet.publish(MODEL)
        answers = await where.fleet.perform(
            [train_order(digest), UploadOrder("run/2/0/upload", 0, 2, 4, "run/1/0/train")]
        )
        assert [answer.status for answer in answers] == [AnswerStatus.GARBAGE] * 2
        assert "NaN" in answers[0].reason
        assert "no model arrived" in answers[1].reason


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -1.0])
async def test_seconds_that_cannot_be_make_a_report_of_an_upload_garbage(seconds: float) -> None:
    blob = encode(MODEL, LAYOUT)

    async def lie(agent: HandAgent, order: wire.Order) -> None:
        await agent.data.upload(
            order.order_id, order.upload.train_order_id, order.upload.ap, blob, digest_of(blob), 0.0, 5.0
        )
        report = wire.UploadReport(model_digest=to_wire(digest_of(blob)), coding_s=seconds)
        agent.link.send(done(order, upload=report))

    async with bench() as where, hand_agent(where, on_order=lie):
        await connected(where)
        where.fleet.publish(MODEL)
        (answer,) = await where.fleet.perform([UploadOrder("run/2/0/upload", 0, 2, 4, "run/1/0/train")])
        assert (answer.status, "upload report" in answer.reason) == (AnswerStatus.GARBAGE, True)


async def test_no_device_answers_downloads_or_uploads_for_another() -> None:
    async with bench(deadline_s=5.0) as where:

        async def steal(agent: HandAgent, order: wire.Order) -> None:
            agent.link.send(
                wire.AgentFrame(
                    answer=wire.Answer(order_id="run/1/0/train", status=wire.Answer.DONE, train=REPORT)
                )
            )
            with pytest.raises(LinkError, match="no outstanding order"):
                await agent.data.download("run/1/0/train", 3, from_wire(order.train.start_digest), 5.0)
            with pytest.raises(ModelError, match="no outstanding order"):
                await agent.data.upload("run/1/0/train", "x", 3, encode(MODEL, LAYOUT), "00" * 32, 0.0, 5.0)
            agent.link.send(done(order, train=REPORT))

        async with hand_agent(where, "pi-02", on_order=steal):
            await connected(where)
            digest = where.fleet.publish(MODEL)
            victim, thief = await where.fleet.perform([train_order(digest), train_order(digest, device=1)])
        assert victim.status is AnswerStatus.LOST
        assert thief.status is AnswerStatus.DONE
        assert EventKind.ANSWER_IGNORED in where.kinds()


async def test_an_upload_that_broke_off_counts_once_it_is_done_again() -> None:
    """What SIGKILL in the middle of an upload leaves behind is no lie of the next life's answer."""
    blob = encode(MODEL, LAYOUT)

    async def stumble(agent: HandAgent, order: wire.Order) -> None:
        header = upload_header(order, blob)

        async def half() -> AsyncIterator[bytes]:
            yield header.SerializeToString()
            yield blob[: len(blob) // 2]

        channel = secure_channel(
            f"127.0.0.1:{where.fleet.data_port}", agent.credential, MAX_DATA_MESSAGE_BYTES
        )
        with pytest.raises(grpc.aio.AioRpcError, match="upload ended after 600048 of 1200096 bytes"):
            await channel.stream_unary(UPLOAD)(half())
        await channel.close()
        await agent.data.upload(
            order.order_id, order.upload.train_order_id, order.upload.ap, blob, digest_of(blob), 0.0, 5.0
        )
        report = wire.UploadReport(uploaded_bytes=len(blob), model_digest=to_wire(digest_of(blob)))
        agent.link.send(done(order, upload=report))

    async with bench() as where, hand_agent(where, on_order=stumble):
        await connected(where)
        where.fleet.publish(MODEL)
        (answer,) = await where.fleet.perform([UploadOrder("run/2/0/upload", 0, 2, 4, "run/1/0/train")])
    assert EventKind.UPLOAD_BROKE_OFF in where.kinds()
    assert answer.status is AnswerStatus.DONE
    assert isinstance(answer.reply, UploadReply)
    np.testing.assert_array_equal(answer.reply.model, MODEL)
