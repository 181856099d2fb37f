"""One agent that wants too much, or sends rubbish, costs itself something and nobody else."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import grpc.aio
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
    lines,
    train_order,
    until,
    upload_header,
)
from roambench.agent.session.control_link import secure_channel
from roambench.contract.errors import LinkError, ModelError
from roambench.contract.events import EventKind
from roambench.contract.model_blob import encode
from roambench.contract.model_digest import from_wire
from roambench.contract.orders import AnswerStatus, UploadOrder
from roambench.contract.records import RecordKind
from roambench.fleet.limits import AgentLimits, Allowance, Bucket, QuotaExceeded
from roambench.spool.drain import BatchRefused, NotWelcome
from roambench.wire.v1 import control_pb2 as wire
from roambench.wire.v1 import data_pb2
from roambench.wire.v1.methods import (
    DRAIN,
    MAX_CONTROL_MESSAGE_BYTES,
    MAX_DATA_MESSAGE_BYTES,
    PROTOCOL_VERSION,
    SESSION,
    UPLOAD,
)

HELLO = wire.AgentFrame(
    hello=wire.Hello(protocol_version=PROTOCOL_VERSION, device="pi-01", machine_id="machine-1")
)


def test_a_bucket_lends_and_says_how_long_the_debt_takes_to_pay() -> None:
    now_s = 100.0
    bucket = Bucket(per_s=10.0, burst=5.0, now_s=lambda: now_s)
    assert bucket.take(5.0) == 0.0
    assert bucket.take(1.0) == pytest.approx(0.1)
    assert bucket.take(2.0) == pytest.approx(0.3)
    now_s = 100.3
    assert bucket.take(1.0) == pytest.approx(0.1)
    now_s = 200.0  # it never holds more than the burst
    assert bucket.take(6.0) == pytest.approx(0.1)


def test_a_devices_quota_is_charged_before_anything_is_written() -> None:
    allowance = Allowance(AgentLimits(stored_bytes=3 * 2**20, spools=2))
    allowance.store(2 * 2**20)
    with pytest.raises(QuotaExceeded, match="stored 2 MiB in this run, the limit is 3 MiB"):
        allowance.store(2 * 2**20)
    allowance.store(2**20)
    for uuid in ("a", "b", "a"):
        allowance.spool(uuid)
    with pytest.raises(QuotaExceeded, match="names more than 2 spools"):
        allowance.spool("c")


@pytest.mark.asyncio
async def test_a_flood_of_frames_waits_at_its_sender_while_others_are_served() -> None:
    async def serve(agent: HandAgent, order: wire.Order) -> None:
        agent.link.send(done(order, train=REPORT))

    limits = AgentLimits(frames_per_s=20.0, frames_burst=30.0)
    async with (
        bench(limits=limits) as where,
        hand_agent(where, "pi-01") as noisy,
        hand_agent(where, "pi-02", on_order=serve),
    ):
        await connected(where, 2)
        await until(lambda: noisy.link.is_open)
        started_s = time.monotonic()
        for number in range(3000):
            noisy.link.send(wire.AgentFrame(event=wire.SessionEvent(kind="noise", detail=str(number))))
        await until(lambda: lines(where, EventKind.FRAMES_SLOWED))
        digest = where.fleet.publish(MODEL)
        (answer,) = await where.fleet.perform([train_order(digest, device=1)])
        assert answer.status is AnswerStatus.DONE
        assert where.kinds().count("noise") <= 31 + 20.0 * (time.monotonic() - started_s)
        assert len(lines(where, EventKind.FRAMES_SLOWED)) == 1


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("frames", "told"),
    [
        ([b"\xff\xff\xff"], "session refused: pi-01: a session begins with hello"),
        ([], "session refused: pi-01: a session begins with hello"),
        ([HELLO.SerializeToString(), b"\x0a\xff"], "session cut off: pi-01: a frame is not readable"),
        (
            [HELLO.SerializeToString(), bytes(2000)],
            "session cut off: pi-01: a frame is not readable",
        ),
        (
            [
                HELLO.SerializeToString(),
                wire.AgentFrame(hello=wire.Hello(build="b" * 2000)).SerializeToString(),
            ],
            "session cut off: pi-01: a frame is not readable",
        ),
        ([HELLO.SerializeToString(), b""], "frame ignored: pi-01: unexpected empty frame"),
    ],
)
async def test_a_session_of_rubbish_ends_by_name(frames: list[bytes], told: str) -> None:
    async with bench(limits=AgentLimits(request_s=0.5, frame_bytes=1000)) as where:
        credential, over = where.authority.issue("pi-01"), asyncio.Event()
        async with secure_channel(
            f"127.0.0.1:{where.fleet.control_port}", credential, MAX_CONTROL_MESSAGE_BYTES
        ) as channel:

            async def messages() -> AsyncIterator[bytes]:
                for frame in frames:
                    yield frame
                await over.wait()

            call = channel.stream_stream(SESSION)(messages())
            reading = asyncio.create_task(_read_all(call))
            await until(lambda: any(told == f"{kind}: {name}: {why}" for _, name, kind, why in where.seen))
            over.set()
            await reading


@pytest.mark.asyncio
async def test_a_device_has_so_many_calls_of_one_kind_and_no_more() -> None:
    async with bench(limits=AgentLimits(calls_at_once=2)) as where:
        credential, over = where.authority.issue("pi-01"), asyncio.Event()
        async with secure_channel(
            f"127.0.0.1:{where.fleet.control_port}", credential, MAX_CONTROL_MESSAGE_BYTES
        ) as channel:

            async def messages() -> AsyncIterator[bytes]:
                await over.wait()
                yield b""

            calls = [channel.stream_stream(SESSION)(messages()) for _ in range(3)]
            await until(lambda: lines(where, EventKind.CALL_REFUSED))
            assert lines(where, EventKind.CALL_REFUSED) == [
                "pi-01: 'pi-01' has 2 calls of Session open already"
            ]
            over.set()
            for call in calls:
                await asyncio.gather(_read_all(call), return_exceptions=True)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("records", "expected", "reason"),
    [
        (
            [(n, RecordKind.EVENT, b"x") for n in range(11)],
            BatchRefused,
            "11 records at once, the limit is 10",
        ),
        ([(1, RecordKind.EVENT, bytes(101))], BatchRefused, "a record of more than 100 bytes"),
        ([(1, RecordKind.EVENT, bytes(5 * 2**20))], BatchRefused, "larger than"),
        ([(n, RecordKind.EVENT, bytes(90)) for n in range(9)], NotWelcome, "the limit is 0 MiB"),
    ],
)
async def test_a_drain_beyond_the_limits_stores_nothing_and_says_what_to_do(
    records: list[tuple[int, RecordKind, bytes]], expected: type[Exception], reason: str
) -> None:
    limits = AgentLimits(drained_records=10, record_bytes=100, stored_bytes=2048)
    async with bench(limits=limits) as where, hand_agent(where) as agent:
        await until(lambda: agent.link.is_open)
        if expected is NotWelcome:
            await agent.link.drain("spool", records)  # 1 of 2 KiB; a second time is too much
            where.stored.clear()
        with pytest.raises(expected, match=reason):
            await agent.link.drain("spool", records)
        assert where.stored == []


@pytest.mark.asyncio
async def test_spools_have_a_number_and_a_drain_of_rubbish_is_refused() -> None:
    async with bench(limits=AgentLimits(spools=2)) as where, hand_agent(where) as agent:
        await until(lambda: agent.link.is_open)
        for uuid in ("a", "b"):
            assert await agent.link.drain(uuid, [(7, RecordKind.EVENT, b"x")]) == 7
        with pytest.raises(NotWelcome, match="names more than 2 spools in this run"):
            await agent.link.drain("c", [(7, RecordKind.EVENT, b"x")])
        channel = secure_channel(
            f"127.0.0.1:{where.fleet.control_port}", agent.credential, MAX_CONTROL_MESSAGE_BYTES
        )
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await channel.unary_unary(DRAIN)(b"\xff\xff")
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        await channel.close()
        assert len(where.stored) == 2


@pytest.mark.asyncio
async def test_a_model_is_not_downloaded_for_ever_for_one_order() -> None:
    refused: list[str] = []

    async def greedy(agent: HandAgent, order: wire.Order) -> None:
        if not order.HasField("train"):
            return
        try:
            for _ in range(100):
                await agent.data.download(order.order_id, 3, from_wire(order.train.start_digest), 5.0)
        except LinkError as error:
            refused.append(str(error))
        agent.link.send(done(order, train=REPORT))

    async with bench(limits=AgentLimits(transfers_beyond=3)) as where, hand_agent(where, on_order=greedy):
        await connected(where)
        digest = where.fleet.publish(MODEL)
        await where.fleet.perform([train_order(digest)])
        assert "moved 5 times for one order" in refused[0]


@pytest.mark.asyncio
@pytest.mark.parametrize("size", [0, 1])
async def test_an_upload_in_tiny_pieces_is_refused_before_it_costs_memory(size: int) -> None:
    receipts: list[data_pb2.UploadReceipt] = []
    sent = 0

    async def tiny_pieces(agent: HandAgent, order: wire.Order) -> None:
        if not order.HasField("upload"):
            return
        blob = encode(MODEL, LAYOUT)
        header = upload_header(order, blob)

        async def messages() -> AsyncIterator[bytes]:
            nonlocal sent
            yield header.SerializeToString()
            for _ in range(100_000):
                sent += 1
                yield bytes(size)

        async with secure_channel(
            f"127.0.0.1:{where.fleet.data_port}", agent.credential, MAX_DATA_MESSAGE_BYTES
        ) as channel:
            receipts.append(data_pb2.UploadReceipt.FromString(await channel.stream_unary(UPLOAD)(messages())))
        agent.link.send(done(order, upload=wire.UploadReport(model_digest=b"d" * 32)))

    async with bench(deadline_s=20.0) as where, hand_agent(where, on_order=tiny_pieces):
        await connected(where)
        where.fleet.publish(MODEL)
        (answer,) = await where.fleet.perform([UploadOrder("run/2/0/upload", 0, 2, 4, "run/1/0/train")])
        assert answer.status is AnswerStatus.GARBAGE
        assert "more pieces than" in receipts[0].reason
        assert sent < 10_000


@pytest.mark.asyncio
async def test_an_agent_reads_no_model_that_was_not_ordered_for_it() -> None:
    """Whatever it knows of the other's order: id, AP and digest."""
    outcome: list[str] = []

    async def curious(agent: HandAgent, order: wire.Order) -> None:
        if not order.HasField("train"):
            return
        stolen = where.fleet.publish(MODEL + 1)
        for order_id in ("run/1/0/train", order.order_id):
            try:
                await agent.data.download(order_id, 3, stolen, 5.0)
            except (LinkError, ModelError) as error:
                outcome.append(str(error))
        agent.link.send(done(order, train=REPORT))

    async with bench(deadline_s=5.0) as where, hand_agent(where, "pi-02", on_order=curious):
        await connected(where)
        other = train_order(where.fleet.publish(MODEL + 1))
        mine = train_order(where.fleet.publish(MODEL), number=2, device=1)
        await where.fleet.perform([other, mine])
        assert len(set(outcome)) == 2
        assert all("no outstanding order names this model" in line for line in outcome)
        assert all(
            line.startswith("pi-02: no outstanding") for line in lines(where, EventKind.DOWNLOAD_REFUSED)
        )


@asynccontextmanager
async def silent(port: int, count: int) -> AsyncIterator[list[asyncio.StreamReader]]:
    """So many TCP connections that say nothing."""
    opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]
    try:
        yield [reader for reader, _ in opened]
    finally:
        for _, writer in opened:
            writer.transport.abort()
        await asyncio.sleep(0)


@pytest.mark.asyncio
async def test_silent_connections_are_closed_and_do_not_keep_an_agent_out() -> None:
    async with (
        bench(limits=AgentLimits(handshake_s=5.0)) as where,
        silent(where.fleet.control_port, 200) as readers,
        hand_agent(where) as agent,
    ):
        await until(where.fleet.sessions.all, 30.0)
        assert agent.log == []
        async with asyncio.timeout(30):
            ends = await asyncio.gather(*(reader.read() for reader in readers))
        assert ends == [b""] * 200
        # Of the agent itself, slowed by 200 others, a handshake may have ended late, too.
        told = "to the control port ended without a certificate"
        await until(lambda: [line for line in lines(where, EventKind.CONNECTION_REFUSED) if told in line])


@pytest.mark.asyncio
async def test_a_port_takes_so_many_connections_and_no_more() -> None:
    async with (
        bench(limits=AgentLimits(port_connections=5, handshake_s=8.0)) as where,
        silent(where.fleet.control_port, 20) as readers,
    ):
        assert (
            sum(await asyncio.gather(*(_ends_at_once(reader) for reader in readers))) >= 11
        )  # 5 and 2 of each device stay
        async with hand_agent(where):
            await until(where.fleet.sessions.all, 30.0)  # those that said nothing have gone: there is room


async def _ends_at_once(reader: asyncio.StreamReader) -> bool:
    try:
        return await asyncio.wait_for(reader.read(), 6.0) == b""
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True


async def _read_all(call: AsyncIterator[bytes]) -> None:
    async for _ in call:
        pass


_ROOM = """
import resource, sys
from roambench.contract.errors import FleetError
from roambench.fleet.limits import AgentLimits

resource.setrlimit(resource.RLIMIT_NOFILE, (256, 4096))
try:
    AgentLimits().make_room(int(sys.argv[1]))
except FleetError as error:
    print(error)
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(("devices", "files"), [(8, 800), (1000, 4096)])
def test_a_controller_may_open_the_files_that_its_devices_need(devices: int, files: int) -> None:
    told = subprocess.run([sys.executable, "-c", _ROOM, str(devices)], capture_output=True, text=True)
    assert told.stdout == f"{files} 4096\n"


def test_more_devices_than_the_system_has_files_for_are_refused_with_a_way_out() -> None:
    told = subprocess.run([sys.executable, "-c", _ROOM, "2000"], capture_output=True, text=True)
    assert "2,000 devices need 4,256 open files, this system lets a process have 4,096" in told.stdout
    assert "`ulimit -n 4256`" in told.stdout
