"""The controller's two ports, spoken to by hand over real mutual TLS."""

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
import numpy as np
import pytest

from roambench.agent.control_link import ControlLink, secure_channel
from roambench.agent.data_link import DataLink
from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import FleetError, LinkError, ModelError
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.model_blob import digest_of, encode
from roambench.contract.orders import AnswerStatus, IdleOrder, TrainOrder, UploadOrder, UploadReply
from roambench.contract.records import RecordKind
from roambench.fleet.grpc_fleet import FleetSettings, GrpcFleet
from roambench.identity.authority import CONTROLLER_NAME, Authority, Credential, serial_of
from roambench.wire.v1 import control_pb2 as wire
from roambench.wire.v1 import data_pb2
from roambench.wire.v1.methods import MAX_DATA_MESSAGE_BYTES, PROTOCOL_VERSION, UPLOAD

LAYOUT = "a" * 32
MODEL = np.arange(300_000, dtype=np.float32) / 7.0
SPEC = LearningSpec("mlp", 1, 10, 0.01, 0.9, 0.0, 8, "shard.safetensors")

pytestmark = pytest.mark.asyncio


@dataclass
class Bench:
    fleet: GrpcFleet
    authority: Authority
    seen: list[tuple[int, str, str, str]] = field(default_factory=list)
    stored: list[tuple[str, int, int, bytes]] = field(default_factory=list)

    def kinds(self) -> list[str]:
        return [kind for _, _, kind, _ in self.seen]


@asynccontextmanager
async def bench(*, deadline_s: float = 5.0) -> AsyncIterator[Bench]:
    authority = Authority.create()
    seen: list[tuple[int, str, str, str]] = []
    stored: list[tuple[str, int, int, bytes]] = []

    def sink(name: str, uuid: str, records: Sequence[tuple[int, int, bytes]]) -> int:
        stored.extend((name, *record) for record in records)
        return max(seq for seq, _, _ in records)

    fleet = GrpcFleet(
        FleetSettings("run", ("pi-01", "pi-02"), (SPEC, SPEC), LAYOUT, deadline_s),
        authority.issue(CONTROLLER_NAME),
        DeviceClock(),
        sink,
        lambda *event: seen.append(event),
    )
    await fleet.start()
    try:
        yield Bench(fleet, authority, seen, stored)
    finally:
        await fleet.stop("test over", drain_s=0.5)


@dataclass
class HandAgent:
    """An agent whose every answer the test decides: `on_order` returns the answer or None."""

    link: ControlLink
    data: DataLink
    orders: list[wire.Order]
    task: asyncio.Task[None]
    credential: Credential


@asynccontextmanager
async def hand_agent(
    where: Bench,
    name: str = "pi-01",
    *,
    credential: Credential | None = None,
    on_order: Callable[["HandAgent", wire.Order], Any] | None = None,
    machine: str = "machine-1",
    started: int = 1,
    trained: Sequence[str] = (),
    version: int = PROTOCOL_VERSION,
    claims: str | None = None,
) -> AsyncIterator[HandAgent]:
    credential = credential or where.authority.issue(name)
    orders: list[wire.Order] = []
    chores: set[asyncio.Task[None]] = set()

    def hello() -> wire.Hello:
        return wire.Hello(
            protocol_version=version,
            device=claims or name,
            machine_id=machine,
            started_monotonic_ns=started,
            trained_order_ids=trained,
        )

    def take(frame: wire.ControllerFrame) -> None:
        if frame.HasField("clock_probe"):
            echo = wire.ClockEcho(probe=frame.clock_probe.probe)
            agent.link.send(wire.AgentFrame(clock_echo=echo))
        if frame.HasField("order"):
            orders.append(frame.order)
            if on_order is not None:
                chore = asyncio.ensure_future(on_order(agent, frame.order))
                chores.add(chore)
                chore.add_done_callback(chores.discard)

    address = f"127.0.0.1:{where.fleet.control_port}"
    link = ControlLink(address, credential, name, hello, take, lambda text: None)
    channel = secure_channel(f"127.0.0.1:{where.fleet.data_port}", credential, MAX_DATA_MESSAGE_BYTES)
    agent = HandAgent(
        link, DataLink(channel, name, DeviceClock()), orders, asyncio.create_task(link.run()), credential
    )
    try:
        yield agent
    finally:
        link.hang_up("test")
        agent.task.cancel()
        for chore in list(chores):
            chore.cancel()
        await asyncio.gather(agent.task, *chores, return_exceptions=True)
        await channel.close()


async def connected(where: Bench, count: int = 1) -> None:
    async with asyncio.timeout(5):
        await where.fleet.sessions.wait_for_count(count)


def train_order(digest: str, number: int = 1, device: int = 0) -> TrainOrder:
    return TrainOrder(f"run/{number}/{device}/train", device, number, 3, digest, 1, 7)


def done(order: wire.Order, **fields: Any) -> wire.AgentFrame:
    return wire.AgentFrame(answer=wire.Answer(order_id=order.order_id, status=wire.Answer.DONE, **fields))


REPORT = wire.TrainReport(samples=5, sgd_steps=1, model_digest=b"d" * 32, mean_loss=1.5)


async def test_a_device_downloads_what_its_order_names_and_its_upload_arrives_verified() -> None:
    received: list[bytes] = []

    async def serve(agent: HandAgent, order: wire.Order) -> None:
        if order.HasField("train"):
            blob, transfer = await agent.data.download(
                order.order_id, order.train.ap, order.train.start_digest.hex(), 5.0
            )
            assert transfer.transferred_bytes == len(blob)
            received.append(blob)
            agent.link.send(done(order, train=REPORT))
        else:
            blob = encode(MODEL + 1, LAYOUT)
            await agent.data.upload(
                order.order_id, order.upload.train_order_id, order.upload.ap, blob, digest_of(blob), 0.0, 5.0
            )
            report = wire.UploadReport(uploaded_bytes=len(blob), model_digest=bytes.fromhex(digest_of(blob)))
            agent.link.send(done(order, upload=report))

    async with bench() as where, hand_agent(where, on_order=serve):
        await connected(where)
        digest = where.fleet.publish(MODEL)
        (trained,) = await where.fleet.perform([train_order(digest)])
        assert trained.status is AnswerStatus.DONE
        assert digest_of(received[0]) == digest
        upload = UploadOrder("run/2/0/upload", 0, 2, 4, trained.order_id)
        (uploaded,) = await where.fleet.perform([upload])
        assert isinstance(uploaded.reply, UploadReply)
        np.testing.assert_array_equal(uploaded.reply.model, MODEL + 1)
        assert "clock offset" in where.kinds()


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        ("digest", "does not match its digest"),
        ("oversize", "a model of this run has"),
        ("longer", "longer than"),
        ("random", "readable header"),
        ("truncated", "ended after"),
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
        header = data_pb2.UploadHeader(
            device="pi-01",
            order_id=order.order_id,
            train_order_id=order.upload.train_order_id,
            ap=order.upload.ap,
            total_bytes=len(blob) + (10_000_000_000 if spoil == "oversize" else 0),
            digest=bytes(32) if spoil == "digest" else bytes.fromhex(digest_of(blob)),
        )

        async def messages() -> AsyncIterator[bytes]:
            if spoil == "random":
                yield np.random.Generator(np.random.PCG64(1)).bytes(5000)
                return
            yield header.SerializeToString()
            sent = blob[:-9] if spoil == "truncated" else blob + b"x" * (spoil == "longer")
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
        assert any(kind == "upload refused" and reason in why for _, _, kind, why in where.seen)
        (again,) = await where.fleet.perform([IdleOrder("run/3/0/idle", 0, 3, True)])
        assert again.status is AnswerStatus.DONE


async def test_done_without_a_model_or_with_nan_losses_is_garbage() -> None:
    async def lie(agent: HandAgent, order: wire.Order) -> None:
        if order.HasField("train"):
            report = wire.TrainReport(samples=5, model_digest=b"d" * 32, mean_loss=float("nan"))
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


async def test_a_silent_agent_times_out_and_an_absent_one_is_lost() -> None:
    async with bench(deadline_s=0.4) as where, hand_agent(where):
        await connected(where)
        digest = where.fleet.publish(MODEL)
        silent, absent = await where.fleet.perform([train_order(digest), train_order(digest, device=1)])
        assert silent.status is AnswerStatus.TIMEOUT
        assert absent.status is AnswerStatus.LOST


async def test_an_agent_that_dies_while_training_is_lost_as_soon_as_it_is_back() -> None:
    async def begin(agent: HandAgent, order: wire.Order) -> None:
        agent.link.send(wire.AgentFrame(event=wire.Event(order_id=order.order_id, kind="train started")))

    async with bench(deadline_s=30) as where:
        async with hand_agent(where, on_order=begin, started=1):
            await connected(where)
            digest = where.fleet.publish(MODEL)
            asked = asyncio.create_task(where.fleet.perform([train_order(digest)]))
            async with asyncio.timeout(5):
                while "train started" not in where.kinds():
                    await asyncio.sleep(0.01)
        async with hand_agent(where, started=2):
            (answer,) = await asyncio.wait_for(asked, 5)
    assert answer.status is AnswerStatus.LOST
    assert "died while training" in answer.reason


async def test_an_agent_back_with_its_model_is_asked_again_and_its_answer_counts() -> None:
    async def begin(agent: HandAgent, order: wire.Order) -> None:
        agent.link.send(wire.AgentFrame(event=wire.Event(order_id=order.order_id, kind="train started")))

    async def finish(agent: HandAgent, order: wire.Order) -> None:
        agent.link.send(done(order, train=REPORT))

    async with bench(deadline_s=30) as where:
        digest = ""
        async with hand_agent(where, on_order=begin, started=1):
            await connected(where)
            digest = where.fleet.publish(MODEL)
            asked = asyncio.create_task(where.fleet.perform([train_order(digest)]))
            async with asyncio.timeout(5):
                while "train started" not in where.kinds():
                    await asyncio.sleep(0.01)
        async with hand_agent(where, on_order=finish, started=2, trained=["run/1/0/train"]):
            (answer,) = await asyncio.wait_for(asked, 5)
    assert answer.status is AnswerStatus.DONE


async def test_no_device_answers_downloads_or_uploads_for_another() -> None:
    async with bench(deadline_s=1.0) as where:

        async def steal(agent: HandAgent, order: wire.Order) -> None:
            agent.link.send(
                wire.AgentFrame(
                    answer=wire.Answer(order_id="run/1/0/train", status=wire.Answer.DONE, train=REPORT)
                )
            )
            with pytest.raises(LinkError, match="no outstanding order"):
                await agent.data.download("run/1/0/train", 3, order.train.start_digest.hex(), 5.0)
            with pytest.raises(ModelError, match="no outstanding order"):
                await agent.data.upload("run/1/0/train", "x", 3, encode(MODEL, LAYOUT), "00" * 32, 0.0, 5.0)
            agent.link.send(done(order, train=REPORT))

        async with hand_agent(where, "pi-02", on_order=steal):
            await connected(where)
            digest = where.fleet.publish(MODEL)
            victim, thief = await where.fleet.perform([train_order(digest), train_order(digest, device=1)])
        assert victim.status is AnswerStatus.LOST
        assert thief.status is AnswerStatus.DONE
        assert "answer ignored" in where.kinds()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"version": 99}, "speaks protocol version 99"),
        ({"claims": "pi-02"}, "its certificate says 'pi-01'"),
        ({"name": "pi-77"}, "not part of this run"),
    ],
)
async def test_a_wrong_hello_is_refused_for_good_with_what_to_do(
    changes: dict[str, Any], reason: str
) -> None:
    async with bench() as where, hand_agent(where, **changes) as agent:
        with pytest.raises(LinkError, match=reason):
            await asyncio.wait_for(agent.task, 5)


async def test_strangers_and_expired_certificates_open_no_session() -> None:
    async with bench() as where:
        stranger = Authority.create().issue("pi-01")
        expired = where.authority.issue("pi-01", lifetime=dt.timedelta(seconds=-1))
        for credential in (stranger, expired):
            mixed = Credential(
                credential.certificate_pem, credential.key_pem, where.authority.certificate_pem
            )
            async with hand_agent(where, credential=mixed):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.7):
                        await where.fleet.sessions.wait_for_count(1)


async def test_a_revoked_serial_is_refused_by_name() -> None:
    authority = Authority.create()
    revoked = authority.issue("pi-01")
    seen: list[str] = []
    fleet = GrpcFleet(
        FleetSettings("run", ("pi-01",), (SPEC,), LAYOUT, 5.0),
        authority.issue(CONTROLLER_NAME),
        DeviceClock(),
        lambda name, uuid, records: 0,
        lambda *event: None,
        [serial_of(revoked.certificate_pem)],
    )
    await fleet.start()
    link = ControlLink(
        f"127.0.0.1:{fleet.control_port}",
        revoked,
        "pi-01",
        lambda: wire.Hello(protocol_version=PROTOCOL_VERSION, device="pi-01"),
        lambda frame: None,
        seen.append,
    )
    task = asyncio.create_task(link.run())
    async with asyncio.timeout(5):
        while not seen:
            await asyncio.sleep(0.02)
    assert "'pi-01' is revoked" in seen[0]
    link.hang_up("test")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await fleet.stop("over", drain_s=0.1)


async def test_two_machines_with_one_identity_are_both_named_and_refused() -> None:
    async with bench() as where, hand_agent(where, machine="machine-A") as first:
        await connected(where)
        async with hand_agent(where, machine="machine-B") as second:
            for agent in (first, second):
                with pytest.raises(LinkError, match=r"machine-A and from machine-B.*cloned SD card"):
                    await asyncio.wait_for(agent.task, 5)


async def test_drained_records_are_stored_only_under_the_certificates_own_name() -> None:
    async with bench() as where, hand_agent(where) as agent:
        await connected(where)
        async with asyncio.timeout(5):
            while "clock offset" not in where.kinds():
                await asyncio.sleep(0.01)
        through = await agent.link.drain(
            "spool-1", [(4, RecordKind.EVENT, b"a"), (5, RecordKind.EVENT, b"b")]
        )
        assert through == 5
        assert where.stored == [("pi-01", 4, 3, b"a"), ("pi-01", 5, 3, b"b")]
        channel = secure_channel(
            f"127.0.0.1:{where.fleet.control_port}", agent.credential, MAX_DATA_MESSAGE_BYTES
        )
        call = channel.unary_unary("/roambench.wire.v1.Control/Drain")
        forged = wire.DrainRequest(device="pi-02", records=[wire.Record(seq=1)]).SerializeToString()
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call(forged)
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        await channel.close()
        assert len(where.stored) == 2


async def test_the_background_phase_is_told_again_to_an_agent_that_was_away() -> None:
    async with bench() as where:
        (told,) = await where.fleet.perform([IdleOrder("run/0/0/idle", 0, 0, False)])
        assert told.status is AnswerStatus.LOST
        async with hand_agent(where) as agent:
            async with asyncio.timeout(5):
                while not agent.orders:
                    await asyncio.sleep(0.01)
            assert not agent.orders[0].idle.present


async def test_a_taken_port_is_an_error_that_says_what_to_do() -> None:
    async with bench() as where:
        settings = FleetSettings(
            "run", ("pi-01",), (SPEC,), LAYOUT, 5.0, control_port=where.fleet.control_port
        )
        with pytest.raises(FleetError, match=r"cannot listen on 127\.0\.0\.1:\d+: the port is taken"):
            GrpcFleet(
                settings,
                where.authority.issue(CONTROLLER_NAME),
                DeviceClock(),
                lambda name, uuid, records: 0,
                lambda *event: None,
            )


async def test_an_agent_that_died_over_an_order_comes_back_in_the_step_of_that_order() -> None:
    async with bench(deadline_s=5) as where:
        await where.fleet.perform([IdleOrder("run/0/0/idle", 0, 0, False)])
        digest = where.fleet.publish(MODEL)
        asked = asyncio.create_task(where.fleet.perform([train_order(digest, number=6)]))

        async def finish(agent: HandAgent, order: wire.Order) -> None:
            if order.HasField("train"):
                agent.link.send(done(order, train=REPORT))

        async with hand_agent(where, on_order=finish) as agent:
            (answer,) = await asyncio.wait_for(asked, 5)
        background, work = agent.orders
        assert (background.step, background.idle.present) == (6, True)
        assert work.order_id == answer.order_id != background.order_id


async def test_an_upload_that_broke_off_counts_once_it_is_done_again() -> None:
    """What SIGKILL in the middle of an upload leaves behind is no lie of the next life's answer."""
    blob = encode(MODEL, LAYOUT)

    async def stumble(agent: HandAgent, order: wire.Order) -> None:
        header = data_pb2.UploadHeader(
            device="pi-01",
            order_id=order.order_id,
            train_order_id=order.upload.train_order_id,
            ap=order.upload.ap,
            total_bytes=len(blob),
            digest=bytes.fromhex(digest_of(blob)),
        )

        async def half() -> AsyncIterator[bytes]:
            yield header.SerializeToString()
            yield blob[: len(blob) // 2]

        channel = secure_channel(
            f"127.0.0.1:{where.fleet.data_port}", agent.credential, MAX_DATA_MESSAGE_BYTES
        )
        await channel.stream_unary(UPLOAD)(half())
        await channel.close()
        await agent.data.upload(
            order.order_id, order.upload.train_order_id, order.upload.ap, blob, digest_of(blob), 0.0, 5.0
        )
        report = wire.UploadReport(uploaded_bytes=len(blob), model_digest=bytes.fromhex(digest_of(blob)))
        agent.link.send(done(order, upload=report))

    async with bench() as where, hand_agent(where, on_order=stumble):
        await connected(where)
        where.fleet.publish(MODEL)
        (answer,) = await where.fleet.perform([UploadOrder("run/2/0/upload", 0, 2, 4, "run/1/0/train")])
    assert "upload refused" in where.kinds()
    assert answer.status is AnswerStatus.DONE
    assert isinstance(answer.reply, UploadReply)
    np.testing.assert_array_equal(answer.reply.model, MODEL)
