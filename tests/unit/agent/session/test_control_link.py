"""An agent and its controller over real mutual TLS: the one goes away, the other dials until it is back."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agent_ports import Log, Party
from roambench.agent.session.control_link import ControlLink
from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import LinkError
from roambench.contract.events import EventKind
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.local_training import LocalTraining
from roambench.contract.orders import AnswerStatus, TrainOrder
from roambench.contract.records import RecordKind
from roambench.fleet.grpc_fleet import FleetSettings, GrpcFleet
from roambench.identity.authority import CONTROLLER_NAME, Authority
from roambench.spool.drain import Drain
from roambench.spool.spool import Spool
from roambench.wire.v1 import control_pb2 as wire
from roambench.wire.v1.methods import PROTOCOL_VERSION

pytestmark = pytest.mark.asyncio

SPEC = LearningSpec("mlp", 1, 10, 0.01, 0.9, 0.0, 8, "shard.safetensors")


@dataclass
class Controller:
    """One life of a controller, and what it saw."""

    fleet: GrpcFleet
    seen: list[tuple[str, str]] = field(default_factory=list)
    seqs: list[int] = field(default_factory=list)

    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.seen]


@asynccontextmanager
async def controller(
    authority: Authority, *, name: str = CONTROLLER_NAME, port: int = 0
) -> AsyncIterator[Controller]:
    seen: list[tuple[str, str]] = []
    seqs: list[int] = []

    def sink(device: str, uuid: str, records: Sequence[tuple[int, int, bytes]]) -> int:
        seqs.extend(seq for seq, _, _ in records)
        return records[-1][0]

    settings = FleetSettings("run", ("pi-01",), (SPEC,), "a" * 32, 20.0, control_port=port)
    fleet = GrpcFleet(
        settings,
        authority.issue(name),
        DeviceClock(),
        sink,
        lambda device, who, kind, detail: seen.append((kind, detail)),
        clock_observer=lambda record: None,
    )
    await fleet.start()
    try:
        yield Controller(fleet, seen, seqs)
    finally:
        await fleet.stop("the controller goes", drain_s=0.01)


@dataclass
class Agent:
    link: ControlLink
    task: asyncio.Task[None]
    frames: list[wire.ControllerFrame]
    log: list[str]

    def waits_s(self) -> list[float]:
        return [float(found[1]) for line in self.log if (found := re.search(r"in ([\d.]+) s$", line))]


@asynccontextmanager
async def agent(authority: Authority, port: int, device: str = "pi-01") -> AsyncIterator[Agent]:
    frames: list[wire.ControllerFrame] = []
    log = Log()
    link = ControlLink(
        f"127.0.0.1:{port}",
        authority.issue(device),
        device,
        log,
    )
    hello = wire.Hello(protocol_version=PROTOCOL_VERSION, device=device, machine_id="machine-1")
    task = asyncio.create_task(link.run(Party(lambda: hello, frames.append)))
    try:
        yield Agent(link, task, frames, log)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def draining(spool: Spool, link: ControlLink) -> AsyncIterator[None]:
    drain = Drain(
        spool.consumers["controller"],
        lambda records: link.drain(spool.uuid, records),
        period_s=0.02,
        backoff_first_s=0.05,
        backoff_most_s=0.2,
        trouble=print,
    )
    task = asyncio.create_task(drain.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(ask: Callable[[], object], patience_s: float = 30.0) -> None:
    async with asyncio.timeout(patience_s):
        while not ask():
            await asyncio.sleep(0.01)


async def test_an_agent_redials_a_controller_that_comes_back_on_its_port_and_takes_its_orders() -> None:
    authority = Authority.create()
    async with AsyncExitStack() as stack:
        async with controller(authority) as first:
            port = first.fleet.control_port
            here = await stack.enter_async_context(agent(authority, port))
            await until(lambda: here.frames)
        await until(lambda: len(here.log) >= 2)  # the session's end, then at least one dial in vain
        async with controller(authority, port=port) as second:
            await until(lambda: EventKind.SESSION_OPENED in second.kinds())
            order = TrainOrder("run/1/0/train", 0, 1, 3, "ab" * 32, LocalTraining())
            asked = asyncio.create_task(second.fleet.perform([order]))
            await until(lambda: any(frame.order.order_id == order.order_id for frame in here.frames))
            refusal = wire.Answer(order_id=order.order_id, status=wire.Answer.FAILED, reason="no disk")
            here.link.send(wire.AgentFrame(answer=refusal))
            (answer,) = await asked
        assert (answer.status, answer.reason) == (AnswerStatus.FAILED, "no disk")
        assert [frame.WhichOneof("frame") for frame in here.frames].count("welcome") == 2


async def test_records_spooled_while_the_controller_is_away_arrive_once_it_is_back(tmp_path: Path) -> None:
    authority = Authority.create()
    async with AsyncExitStack() as stack:
        spool = stack.enter_context(closing(Spool(tmp_path / "spool.sqlite")))
        async with controller(authority) as first:
            port = first.fleet.control_port
            here = await stack.enter_async_context(agent(authority, port))
            await stack.enter_async_context(draining(spool, here.link))
            for _ in range(5):
                spool.append(RecordKind.EVENT, b'["early",1,""]')
            await until(lambda: first.seqs == [1, 2, 3, 4, 5])
        await until(lambda: here.log)
        for _ in range(7):
            spool.append(RecordKind.EVENT, b'["meanwhile",2,""]')
        with pytest.raises(LinkError, match="no session"):
            await here.link.drain(spool.uuid, spool.batch())
        assert spool.depth == 7
        async with controller(authority, port=port) as second:
            await until(lambda: spool.depth == 0)
            assert second.seqs == [6, 7, 8, 9, 10, 11, 12]


async def test_redials_come_later_and_later_and_every_device_has_its_own_rhythm() -> None:
    """0.2 s doubled with every failure, half of it drawn; 36 agents must not come in one moment."""
    authority = Authority.create()
    async with controller(authority) as gone:
        port = gone.fleet.control_port
    async with agent(authority, port) as one, agent(authority, port, "pi-02") as other:
        await until(lambda: min(len(one.log), len(other.log)) >= 3)
    for failures, wait_s in enumerate(one.waits_s()[:3], 1):
        assert 0.1 * 2**failures - 0.05 <= wait_s <= 0.2 * 2**failures + 0.05
    assert one.waits_s()[:3] == sorted(one.waits_s()[:3])
    assert one.waits_s()[:3] != other.waits_s()[:3]


async def test_whoever_cannot_prove_to_be_the_controller_hears_no_hello() -> None:
    """A board's own certificate, of the same authority, makes no controller."""
    authority = Authority.create()
    async with controller(authority, name="pi-01") as impostor:
        async with agent(authority, impostor.fleet.control_port) as here:
            await until(lambda: here.log)
        assert here.frames == []
        assert impostor.seen == []


async def test_hanging_up_says_goodbye_with_its_reason_and_ends_the_dialling() -> None:
    authority = Authority.create()
    async with controller(authority) as there, agent(authority, there.fleet.control_port) as here:
        await until(lambda: here.frames)
        here.link.hang_up("SIGTERM", {"influxdb": 35, "controller": 3})
        await asyncio.wait_for(here.task, 30)
        await until(lambda: (EventKind.SESSION_CLOSED, "SIGTERM") in there.seen)
        assert (EventKind.LEFT_IN_SPOOL, "controller 3, influxdb 35") in there.seen
        here.link.send(wire.AgentFrame(goodbye=wire.Goodbye(reason="nobody hears this")))
        assert EventKind.SESSION_LOST not in there.kinds()


async def test_a_session_that_ends_under_a_drain_fails_the_drain_and_not_the_agent():
    """grpc cancels the calls of a channel that is closed: a drain that took that for its own end took the
    agent with it."""
    authority = Authority.create()
    async with controller(authority) as there, agent(authority, there.fleet.control_port) as dialled:
        async with asyncio.timeout(20):
            await there.fleet.sessions.wait_for_count(1)
            while not dialled.link.is_open:
                await asyncio.sleep(0.01)
        draining_task = asyncio.create_task(dialled.link.drain("uuid", [(1, RecordKind.EVENT, b"[]")]))
        await asyncio.sleep(0)  # the call is on its way
        assert dialled.link._channel is not None
        await dialled.link._channel.close()
        with pytest.raises(LinkError, match="the session ended"):
            await draining_task


async def test_whoever_drains_can_still_be_cancelled():
    authority = Authority.create()
    async with controller(authority) as there, agent(authority, there.fleet.control_port) as dialled:
        async with asyncio.timeout(20):
            while not dialled.link.is_open:
                await asyncio.sleep(0.01)
        draining_task = asyncio.create_task(dialled.link.drain("uuid", [(1, RecordKind.EVENT, b"[]")]))
        await asyncio.sleep(0)
        draining_task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await draining_task
