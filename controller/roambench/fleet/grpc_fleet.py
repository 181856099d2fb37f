"""The fleet of real agents: they dial in, hold a session, are given orders and answer them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass

import grpc
import grpc.aio

from roambench.contract.device_time import DeviceClock
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.orders import (
    Answer,
    AnswerStatus,
    DiscardOrder,
    IdleOrder,
    Order,
    TrainOrder,
    Vector,
)
from roambench.fleet.clock_probes import ClockProbes
from roambench.fleet.data_plane import DataPlane
from roambench.fleet.frames import answer_from, order_frame
from roambench.fleet.guard import Context, Guard, secure_server
from roambench.fleet.model_shop import ModelShop
from roambench.fleet.outstanding import OutstandingOrder, OutstandingOrders
from roambench.fleet.sessions import Session, Sessions
from roambench.identity.authority import Credential
from roambench.wire.v1 import control_pb2 as wire
from roambench.wire.v1.methods import (
    CONTROL_SERVICE,
    MAX_CONTROL_MESSAGE_BYTES,
    MAX_DATA_MESSAGE_BYTES,
)

#: (device name, spool uuid, [(seq, kind, payload)]) -> highest seq that is durable.
RecordSink = Callable[[str, str, Sequence[tuple[int, int, bytes]]], int]
#: (device index or -1, device name, kind, detail): what the fleet saw, for the journal.
Observer = Callable[[int, str, str, str], None]


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """`deadline_s` is in device time, per order, from the moment it is given."""

    run_id: str
    names: tuple[str, ...]
    learning: tuple[LearningSpec, ...]  # one per device: they differ in their shard
    layout: str
    deadline_s: float
    listen_host: str = "127.0.0.1"
    control_port: int = 0
    data_port: int = 0
    data_host: str = "127.0.0.1"  # what agents are told to dial


class GrpcFleet:
    """Implements `rounds.ports.Fleet` over two mutual-TLS ports."""

    def __init__(
        self,
        settings: FleetSettings,
        credential: Credential,
        clock: DeviceClock,
        sink: RecordSink,
        observer: Observer,
        revoked_serials: Collection[int] = (),
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._sink = sink
        self._observe = observer
        self._device_of = {name: index for index, name in enumerate(settings.names)}
        self._shop = ModelShop(settings.layout)
        self._outstanding = OutstandingOrders()
        self._background: dict[int, wire.ControllerFrame] = {}
        self.sessions = Sessions(settings.names)
        self._guard = Guard(revoked_serials)
        self._control, self.control_port = secure_server(
            credential,
            f"{settings.listen_host}:{settings.control_port}",
            MAX_CONTROL_MESSAGE_BYTES,
            self._control_handlers(),
        )
        data_plane = DataPlane(
            guard=self._guard,
            shop=self._shop,
            outstanding=self._outstanding,
            device_of=self._device_of.get,
            clock=clock,
            refused=self._refused,
            transfer_limit_s=clock.host_seconds(settings.deadline_s),
        )
        self._data, self.data_port = secure_server(
            credential,
            f"{settings.listen_host}:{settings.data_port}",
            MAX_DATA_MESSAGE_BYTES,
            data_plane.handlers(),
        )

    # ---- rounds.ports.Fleet ----------------------------------------------------------------

    async def perform(self, orders: Sequence[Order]) -> list[Answer]:
        return list(await asyncio.gather(*(self._perform(order) for order in orders)))

    def publish(self, model: Vector) -> str:
        return self._shop.publish(model)

    def retain(self, digests: Collection[str]) -> None:
        self._shop.retain(digests)

    # ---- life ------------------------------------------------------------------------------

    async def start(self) -> None:
        await self._control.start()
        await self._data.start()

    async def stop(self, reason: str, drain_s: float = 30.0) -> list[str]:
        """Stop all agents, wait until they have drained and said goodbye; returns who did not."""
        for session in self.sessions.all():
            session.send(wire.ControllerFrame(stop=wire.Stop(reason=reason, drain_s=drain_s)))
        try:
            async with asyncio.timeout(drain_s):
                await self.sessions.wait_for_count(0)
        except TimeoutError:
            pass
        late = [session.name for session in self.sessions.all()]
        await asyncio.gather(self._control.stop(0.5), self._data.stop(0.5))
        return late

    # ---- orders ----------------------------------------------------------------------------

    async def _perform(self, order: Order) -> Answer:
        frame = order_frame(order, self._settings.deadline_s)
        if isinstance(order, IdleOrder | DiscardOrder):
            return self._tell(order, frame)
        # An agent that dies over it comes back present in this step, not in the one it last idled in.
        idle = IdleOrder(f"{order.order_id}/background", order.device, order.step, True)
        self._background[order.device] = order_frame(idle, self._settings.deadline_s)
        entry = OutstandingOrder(order, frame)
        self._outstanding.add(entry)
        session = self.sessions.of(order.device)
        if session is not None:
            session.send(frame)
        try:
            async with asyncio.timeout(self._clock.host_seconds(self._settings.deadline_s)):
                await asyncio.shield(entry.answered)
        except TimeoutError:
            here = self.sessions.of(order.device) is not None
            status = AnswerStatus.TIMEOUT if here else AnswerStatus.LOST
            reason = "no answer" if here else "no session"
            entry.fail(status, f"{reason} within {self._settings.deadline_s:.0f} s")
        finally:
            self._outstanding.remove(order.order_id)
        return entry.answered.result()

    def _tell(self, order: IdleOrder | DiscardOrder, frame: wire.ControllerFrame) -> Answer:
        """Orders that need no answer: told now, or (background phases) when the agent is back."""
        if isinstance(order, IdleOrder):
            self._background[order.device] = frame
        session = self.sessions.of(order.device)
        if session is None:
            return Answer(order.order_id, order.device, order.step, AnswerStatus.LOST, "no session")
        session.send(frame)
        return Answer(order.order_id, order.device, order.step, AnswerStatus.DONE)

    # ---- sessions --------------------------------------------------------------------------

    def _control_handlers(self) -> grpc.GenericRpcHandler:
        return grpc.method_handlers_generic_handler(
            CONTROL_SERVICE,
            {
                "Session": grpc.stream_stream_rpc_method_handler(
                    self._session,
                    request_deserializer=wire.AgentFrame.FromString,
                    response_serializer=wire.ControllerFrame.SerializeToString,
                ),
                "Drain": grpc.unary_unary_rpc_method_handler(
                    self._drain,
                    request_deserializer=wire.DrainRequest.FromString,
                    response_serializer=wire.DrainReply.SerializeToString,
                ),
            },
        )

    async def _session(
        self, frames: AsyncIterator[wire.AgentFrame], context: Context
    ) -> AsyncIterator[wire.ControllerFrame]:
        identity = await self._guard.identify(context)
        hello = await self._hello(frames)
        if hello is None:
            yield wire.ControllerFrame(refusal=wire.Refusal(reason="a session begins with hello", final=True))
            return
        refusal = self.sessions.refusal(identity, hello)
        if refusal is not None:
            self._refused(identity, "session refused", refusal.reason)
            yield wire.ControllerFrame(refusal=refusal)
            return
        session = await self.sessions.open(hello)
        self._observe(session.device, session.name, "hello", _describe(hello))
        listener = asyncio.create_task(self._listen(frames, session))
        try:
            yield self._welcome(session.device)
            self._catch_up(session)
            while (frame := await session.outgoing.get()) is not None:
                yield frame
        finally:
            listener.cancel()
            await self.sessions.close(session)
            if not session.said_goodbye:
                self._observe(session.device, session.name, "session lost", "ended without goodbye")

    async def _hello(self, frames: AsyncIterator[wire.AgentFrame]) -> wire.Hello | None:
        async for frame in frames:
            return frame.hello if frame.HasField("hello") else None
        return None

    def _welcome(self, device: int) -> wire.ControllerFrame:
        settings = self._settings
        return wire.ControllerFrame(
            welcome=wire.Welcome(
                run_id=settings.run_id,
                data_address=f"{settings.data_host}:{self.data_port}",
                experiment_json=settings.learning[device].to_json(),
            )
        )

    def _catch_up(self, session: Session) -> None:
        """Tell a (re)joined agent its background phase and give its unanswered orders again."""
        background = self._background.get(session.device)
        if background is not None:
            session.send(background)
        finished = set(session.hello.trained_order_ids)
        for entry in self._outstanding.of_device(session.device):
            process = session.hello.started_monotonic_ns
            died = entry.started_by is not None and entry.started_by != process
            if died and isinstance(entry.order, TrainOrder) and entry.order.order_id not in finished:
                entry.fail(AnswerStatus.LOST, "the agent died while training")
            else:
                session.send(entry.frame)
        probes = ClockProbes(self._clock, session.send)
        session.probes = probes
        probes.begin()

    async def _listen(self, frames: AsyncIterator[wire.AgentFrame], session: Session) -> None:
        """Take the agent's frames until its stream ends; then end ours."""
        try:
            async for frame in frames:
                match frame.WhichOneof("frame"):
                    case "answer":
                        self._take_answer(frame.answer, session)
                    case "event":
                        self._take_event(frame.event, session)
                    case "clock_echo":
                        self._take_echo(frame.clock_echo, session)
                    case "goodbye":
                        session.said_goodbye = True
                        self._observe(session.device, session.name, "goodbye", frame.goodbye.reason)
                    case kind:
                        self._refused(session.name, "frame ignored", f"unexpected {kind or 'empty frame'}")
        finally:
            session.outgoing.put_nowait(None)

    def _take_answer(self, message: wire.Answer, session: Session) -> None:
        entry = self._outstanding.get(message.order_id, session.device)
        if entry is None:
            detail = f"{message.order_id[:120]}: not outstanding (late, or not this device's)"
            self._observe(session.device, session.name, "answer ignored", detail)
            return
        if entry.refusal:
            entry.fail(AnswerStatus.GARBAGE, entry.refusal)
            return
        entry.settle(answer_from(message, entry.order, entry.model))

    def _take_event(self, event: wire.Event, session: Session) -> None:
        entry = self._outstanding.get(event.order_id, session.device)
        if entry is not None and event.kind == "train started":
            entry.started_by = session.hello.started_monotonic_ns
        detail = event.order_id or event.detail
        self._observe(session.device, session.name, event.kind[:60], detail[:200])

    def _take_echo(self, echo: wire.ClockEcho, session: Session) -> None:
        if session.probes is not None and (offset := session.probes.take(echo)) is not None:
            detail = f"{offset.offset_ns * 1e-6:+.3f} ms ± {offset.bound_ns * 1e-6:.3f} ms"
            self._observe(session.device, session.name, "clock offset", detail)

    async def _drain(self, request: wire.DrainRequest, context: Context) -> wire.DrainReply:
        identity = await self._guard.identify(context)
        if request.device != identity or identity not in self._device_of:
            self._refused(identity, "drain refused", f"records of {request.device[:60]!r}")
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "not this device's records")
        records = [(record.seq, record.kind, record.payload) for record in request.records]
        return wire.DrainReply(through_seq=self._sink(identity, request.spool_uuid[:64], records))

    def _refused(self, name: str, kind: str, reason: str) -> None:
        self._observe(self._device_of.get(name, -1), name, kind, reason)


def _describe(hello: wire.Hello) -> str:
    return (
        f"version {hello.agent_version}, boot {hello.boot_id[:8]}, "
        f"reader {hello.rss_bytes / 2**20:.0f} MiB, trainer {hello.trainer_rss_bytes / 2**20:.0f} MiB"
    )
