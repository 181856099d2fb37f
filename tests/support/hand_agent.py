"""A controller on real ports, and agents driven by hand: a test decides what each one answers."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from agent_ports import Log, Party
from roambench.agent.session.control_link import ControlLink, CredentialPort, secure_channel
from roambench.agent.session.data_link import DataLink
from roambench.agent.session.session_models import SessionModels
from roambench.contract.addresses import host_port
from roambench.contract.device_time import DeviceClock
from roambench.contract.events import EventKind
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.link_codecs import NOT_CODED, LinkCodecs
from roambench.contract.local_training import LocalTraining
from roambench.contract.model_digest import digest_of, to_wire
from roambench.contract.orders import TrainOrder
from roambench.contract.session import ModelReceipt, ModelReply
from roambench.fleet.drain_writer import RecordSink
from roambench.fleet.grpc_fleet import FleetSettings, GrpcFleet
from roambench.fleet.guard import FleetIdentity
from roambench.fleet.limits import AgentLimits
from roambench.identity.authority import CONTROLLER_NAME, Authority, Credential
from roambench.provision.certificates import BenchAuthority
from roambench.wire.frames import controller_word
from roambench.wire.v1 import control_pb2 as wire
from roambench.wire.v1 import data_pb2
from roambench.wire.v1.methods import MAX_DATA_MESSAGE_BYTES, PROTOCOL_VERSION

LAYOUT = "a" * 32
MODEL = np.arange(300_000, dtype=np.float32) / 7.0
SPEC = LearningSpec("mlp", 1, 10, 0.01, 0.9, 0.0, 8, "shard.safetensors")


@dataclass
class Bench:
    fleet: GrpcFleet
    authority: Authority
    seen: list[tuple[int, str, str, str]] = field(default_factory=list)
    stored: list[tuple[str, int, int, bytes]] = field(default_factory=list)
    host: str = "127.0.0.1"

    def kinds(self) -> list[str]:
        return [kind for _, _, kind, _ in self.seen]


@asynccontextmanager
async def bench(
    *,
    deadline_s: float = 5.0,
    rest_s: float = 0.0,
    limits: AgentLimits | None = None,
    identity: Callable[[Authority], FleetIdentity | Credential] = lambda authority: authority.issue(
        CONTROLLER_NAME
    ),
    sink: RecordSink | None = None,
    hears: Callable[[str, str], None] = lambda name, kind: None,
    host: str = "127.0.0.1",
    codecs: LinkCodecs = NOT_CODED,
    reads_for: Mapping[str, Collection[str]] | None = None,
) -> AsyncIterator[Bench]:
    """`hears` is told before an event is written down, and may raise."""
    authority = Authority.create()
    seen: list[tuple[int, str, str, str]] = []
    stored: list[tuple[str, int, int, bytes]] = []

    def store(name: str, uuid: str, records: Sequence[tuple[int, int, bytes]]) -> int:
        stored.extend((name, *record) for record in records)
        return max(seq for seq, _, _ in records)

    def observe(device: int, name: str, kind: str, detail: str) -> None:
        hears(name, kind)
        seen.append((device, name, kind, detail))

    fleet = GrpcFleet(
        FleetSettings(
            "run",
            ("pi-01", "pi-02"),
            (replace(SPEC, codecs=codecs), SPEC),
            LAYOUT,
            deadline_s,
            rest_s=rest_s,
            listen_host=host,
            data_host=host,
            reads_for=reads_for or {},
        ),
        identity(authority),
        DeviceClock(),
        sink or store,
        observe,
        limits=limits,
        clock_observer=lambda record: None,
    )
    await fleet.start()
    try:
        yield Bench(fleet, authority, seen, stored, host)
    finally:
        await fleet.stop("test over", drain_s=0.5)


@dataclass
class HandAgent:
    """An agent whose every answer the test decides: `on_order` returns the answer or None. `take` hears every
    frame."""

    link: ControlLink
    data: DataLink
    session: SessionModels
    orders: list[wire.Order]
    task: asyncio.Task[None]
    credential: Credential
    take: Callable[[wire.ControllerFrame], None]
    log: list[str] = field(default_factory=list)


@asynccontextmanager
async def hand_agent(
    where: Bench,
    name: str = "pi-01",
    *,
    credential: Credential | CredentialPort | None = None,
    on_order: Callable[["HandAgent", wire.Order], Any] | None = None,
    machine: str = "machine-1",
    boot: str = "",
    started: int = 1,
    trained: Sequence[str] = (),
    version: int = PROTOCOL_VERSION,
    claims: str | None = None,
) -> AsyncIterator[HandAgent]:
    dial_with = credential or where.authority.issue(name)
    credential = dial_with if isinstance(dial_with, Credential) else dial_with.credential()
    log = Log()
    orders: list[wire.Order] = []
    chores: set[asyncio.Task[None]] = set()

    def hello() -> wire.Hello:
        return wire.Hello(
            protocol_version=version,
            device=claims or name,
            machine_id=machine,
            boot_id=boot,
            started_ns=started,
            trained_order_ids=trained,
        )

    def take(frame: wire.ControllerFrame) -> None:
        if frame.HasField("clock_probe"):
            echo = wire.ClockEcho(probe=frame.clock_probe.probe)
            agent.link.send(wire.AgentFrame(clock_echo=echo))
        if isinstance(word := controller_word(frame), ModelReply | ModelReceipt):
            agent.session.take(word)
        if frame.HasField("order"):
            orders.append(frame.order)
            if on_order is not None:
                chore = asyncio.ensure_future(on_order(agent, frame.order))
                chores.add(chore)
                chore.add_done_callback(chores.discard)

    address = host_port(where.host, where.fleet.control_port)
    link = ControlLink(address, dial_with, name, log)
    channel = secure_channel(host_port(where.host, where.fleet.data_port), credential, MAX_DATA_MESSAGE_BYTES)
    agent = HandAgent(
        link,
        DataLink(channel, name, DeviceClock()),
        SessionModels(link, DeviceClock()),
        orders,
        asyncio.create_task(link.run(Party(hello, lambda frame: agent.take(frame)))),
        credential,
        take,
        log,
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
    async with asyncio.timeout(30):
        await where.fleet.sessions.wait_for_count(count)


async def until(happened: Callable[[], object], seconds: float = 30.0) -> None:
    async with asyncio.timeout(seconds):
        while not happened():
            await asyncio.sleep(0.02)


async def redialled(where: Bench, *agents: HandAgent) -> None:
    await until(lambda: all(agent.link.is_open for agent in agents))
    before = where.kinds().count(EventKind.SESSION_OPENED)
    for agent in agents:
        agent.link.redial("test")
    await until(lambda: where.kinds().count(EventKind.SESSION_OPENED) == before + len(agents))


def lines(where: Bench, kind: str) -> list[str]:
    return [f"{name}: {reason}" for _, name, seen, reason in where.seen if seen == kind]


def live(state_dir: Path) -> Callable[[Authority], FleetIdentity]:
    """A controller with the identity of a bench: agents of it are issued by `BenchAuthority(state_dir)`."""
    return lambda unused: BenchAuthority(state_dir).fleet_identity()


def train_order(digest: str, number: int = 1, device: int = 0) -> TrainOrder:
    return TrainOrder(f"run/{number}/{device}/train", device, number, 3, digest, LocalTraining(1, 7))


def done(order: wire.Order, **fields: Any) -> wire.AgentFrame:
    return wire.AgentFrame(answer=wire.Answer(order_id=order.order_id, status=wire.Answer.DONE, **fields))


REPORT = wire.TrainReply(samples=5, sgd_steps=1, model_digest=b"d" * 32, mean_loss=1.5)


def upload_header(order: wire.Order, blob: bytes) -> data_pb2.UploadHeader:
    """What pi-01 sends before the model that an order asks for."""
    return data_pb2.UploadHeader(
        device="pi-01",
        order_id=order.order_id,
        train_order_id=order.upload.train_order_id,
        ap=order.upload.ap,
        total_bytes=len(blob),
        digest=to_wire(digest_of(blob)),
    )
