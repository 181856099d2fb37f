"""The control port: sessions with agents, their answers and events, and the records they drain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from google.protobuf.message import DecodeError

from roambench.contract.awake_timeout import AwakeTimeout
from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import LinkError, RecordConflict, reason_of
from roambench.contract.events import AnyEventKind, EventKind, event_kind
from roambench.contract.orders import AnswerStatus, DiscardOrder, ExchangeOrder, GivenOrder, TrainOrder
from roambench.contract.printable import printable
from roambench.contract.session import (
    ClockEcho,
    Hello,
    ModelReceipt,
    ModelReply,
    ModelRequest,
    ModelUpload,
    Refusal,
    Welcome,
)
from roambench.fleet.answers import answer_from
from roambench.fleet.clock_probes import ClockProbes, clock_probed
from roambench.fleet.data_plane import DataPlane
from roambench.fleet.guard import Context, Guard
from roambench.fleet.limits import Allowances, QuotaExceeded
from roambench.fleet.outstanding import OutstandingOrders
from roambench.fleet.sessions import Session, Sessions
from roambench.fleet.traced_grpc import grpc
from roambench.rounds.records import ClockOccasion, ClockProbed
from roambench.wire.fields import word_of
from roambench.wire.frames import controller_frame, hello_of
from roambench.wire.server import first_request
from roambench.wire.v1 import control_pb2 as wire
from roambench.wire.v1.methods import CONTROL_SERVICE

INVALID_ARGUMENT = grpc.StatusCode.INVALID_ARGUMENT
ALREADY_EXISTS = grpc.StatusCode.ALREADY_EXISTS
PERMISSION_DENIED = grpc.StatusCode.PERMISSION_DENIED
_JOURNAL_LINE_BYTES: Final = 512  # what a frame may cost the journal, charged to the device's quota
_MOST_UNREAD: Final = 32  # words for an agent
_LOOK_S: Final = 0.1
_DIALS: Final = 5  # that fail the same way are enough
_MOST_STORES: Final = 4  # of one goodbye; an agent has two

#: (device name, spool uuid, [(seq, kind, payload)]) -> highest seq that is durable. A RecordConflict is the
#: records' own fault.
Store = Callable[[str, str, Sequence[tuple[int, int, bytes]]], Awaitable[int]]
#: (device index or -1, device name, kind, detail): what the fleet saw, for the journal.
Observer = Callable[[int, str, AnyEventKind, str], None]
#: Hears of every burst of clock probes.
ClockObserver = Callable[[ClockProbed], None]


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """Session and Drain. `device_of` maps a certificate's name to a device index (None: unknown).

    `background` and `discards` hold the newest of these orders per device, for agents that come back;
    `reads_for` has, by reader, the other boards whose meters it reads: their readings it may drain, too.
    `welcome` makes the first frame of a device's session; `may_probe` says whether its clock may be probed
    now. A device's rates and its share of the disk are held by `allowances`. `trains_by_program`: programs
    carry out train orders. `models` checks those that come and go within sessions.
    """

    guard: Guard
    sessions: Sessions
    outstanding: OutstandingOrders
    background: dict[int, GivenOrder]
    discards: dict[int, GivenOrder]
    device_of: Callable[[str], int | None]
    reads_for: Mapping[str, Collection[str]]
    clock: DeviceClock
    welcome: Callable[[int], Welcome]
    store: Store
    models: DataPlane
    observe: Observer
    clock_observed: ClockObserver
    may_probe: Callable[[int], bool]
    allowances: Allowances
    trains_by_program: bool = False
    #: By device, of sessions that failed one after the other: their common reason, and how many they are.
    failures: dict[str, tuple[str, int]] = field(default_factory=dict)

    def handlers(self) -> grpc.GenericRpcHandler:
        """Frames and drains arrive as bytes: what is no message is refused here, with a name."""
        return grpc.method_handlers_generic_handler(
            CONTROL_SERVICE,
            {
                "Session": grpc.stream_stream_rpc_method_handler(
                    self._session,
                    response_serializer=wire.ControllerFrame.SerializeToString,
                ),
                "Drain": grpc.stream_unary_rpc_method_handler(
                    self._drain,
                    response_serializer=wire.DrainReply.SerializeToString,
                ),
            },
        )

    async def _session(self, messages: AsyncIterator[bytes], context: Context) -> None:
        async with self.guard.admitted(context, "Session") as identity:
            await self.allowances.of(identity).call()
            try:
                await self._hold(self._frames(messages, identity), identity, context)
            except (OSError, grpc.aio.BaseError):  # a disk or a network that may be there again
                raise
            except Exception as error:
                self._note_failure(identity, reason_of(error))
                raise
            self.failures.pop(identity, None)

    def _note_failure(self, identity: str, reason: str) -> None:
        """Report a device whose sessions fail the same way at each dial: it will never be ready."""
        before, times = self.failures.get(identity, ("", 0))
        self.failures[identity] = reason, (times if reason == before else 0) + 1
        device = self.device_of(identity)
        if self.failures[identity][1] == _DIALS and device is not None:
            why = f"its session failed {_DIALS} times in a row: {reason}"
            self.observe(device, identity, EventKind.TRAINER_NOT_READY, why)

    async def _hold(self, frames: AsyncIterator[wire.AgentFrame], identity: str, context: Context) -> None:
        hello = await self._hello(frames, identity)
        refusal = (
            Refusal("a session begins with hello", final=True)
            if hello is None
            else self.sessions.refusal(identity, hello)
        )
        if hello is None or refusal is not None:
            assert refusal is not None
            self.guard.report(identity, EventKind.SESSION_REFUSED, refusal.reason)
            await context.write(controller_frame(refusal))
            return
        session = await self.sessions.open(hello)
        session.probes = ClockProbes(self.clock, session.send, self.allowances.limits.echo_s)
        tasks: list[asyncio.Task[None]] = []
        try:
            self.observe(session.device, session.name, EventKind.SESSION_OPENED, _describe(hello))
            tasks.append(asyncio.create_task(_noted(partial(self._listen, frames), session)))
            await context.write(controller_frame(self.welcome(session.device)))
            self._catch_up(session)
            tasks.append(asyncio.create_task(_noted(partial(self.probe_clock, occasion="hello"), session)))
            while (word := await session.outgoing.get()) is not None:
                await context.write(controller_frame(word))
            if session.trouble is not None:
                raise session.trouble
        finally:
            for task in tasks:
                task.cancel()
            session.probes.close()
            await self.sessions.close(session)
            if session.device in self.sessions.dark:
                self.observe(session.device, session.name, EventKind.SESSION_CLOSED, "its power was cut")
            elif not session.said_goodbye:
                self.observe(session.device, session.name, EventKind.SESSION_LOST, "ended without goodbye")

    async def _frames(self, messages: AsyncIterator[bytes], identity: str) -> AsyncIterator[wire.AgentFrame]:
        """The frames of a session within its device's rate; ends at the first that is none."""
        allowance = self.allowances.of(identity)
        async for message in messages:
            if await allowance.frame(len(message)) > 0:
                self.guard.report(
                    identity, EventKind.FRAMES_SLOWED, "more frames or bytes than a device may send"
                )
            try:
                if len(message) > self.allowances.limits.frame_bytes:
                    raise DecodeError(f"it has {len(message)} bytes")
                frame = wire.AgentFrame.FromString(message)
                if not frame.HasField("clock_echo"):  # those are not written down
                    allowance.store(_JOURNAL_LINE_BYTES)
            except (DecodeError, QuotaExceeded) as error:
                why = str(error) if isinstance(error, QuotaExceeded) else "a frame is not readable"
                self.guard.report(identity, EventKind.SESSION_CUT_OFF, why)
                return
            yield frame

    async def _hello(self, frames: AsyncIterator[wire.AgentFrame], identity: str) -> Hello | None:
        try:
            async with AwakeTimeout(self.allowances.limits.request_s):
                frame = await anext(frames)
        except (TimeoutError, StopAsyncIteration):
            return None
        return hello_of(frame.hello) if frame.HasField("hello") else None

    def _catch_up(self, session: Session) -> None:
        """Tell a (re)joined agent its background phase and give its unanswered orders again."""
        background = self.background.get(session.device)
        if background is not None:
            session.send(background)
        finished = set(session.hello.trained_order_ids)
        discard = self.discards.get(session.device)
        if (
            discard is not None
            and isinstance(discard.order, DiscardOrder)
            and discard.order.train_order_id in finished
        ):
            session.send(discard)
        for entry in self.outstanding.of_device(session.device):
            process = session.hello.started_ns
            died = entry.started_by is not None and entry.started_by != process
            trains = isinstance(entry.order, TrainOrder | ExchangeOrder)
            if died and trains and entry.order.order_id not in finished:
                entry.fail(AnswerStatus.LOST, "the agent died while training")
            else:
                session.send(entry.given)

    async def probe_clock(self, session: Session, occasion: ClockOccasion) -> ClockProbed | None:
        """Send a burst of probes, passed to `clock_observed`; None when `may_probe` says no, or no echo
        comes.

        Not while the device has an order or idles for a baseline: nothing is sent into what is measured.
        """
        if session.probes is None:
            return None
        exchanges = await session.probes.burst(lambda: self.may_probe(session.device))
        if exchanges is None:
            return None
        try:
            record = clock_probed(exchanges, session.device, occasion, session.hello.boot_id, self.clock)
        except ValueError as error:
            self.observe(session.device, session.name, EventKind.CLOCK_NOT_PROBED, str(error))
            return None
        self.clock_observed(record)
        if occasion == "hello":
            detail = f"{record.offset_ns * 1e-6:+.3f} ms ± {record.bound_ns * 1e-6:.3f} ms"
            self.observe(session.device, session.name, EventKind.CLOCK_OFFSET, detail)
        return record

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
                        self._take_goodbye(frame.goodbye, session)
                    case "model_request":
                        request = word_of(ModelRequest, frame.model_request)
                        await _reply(session, self.models.requested(session.name, request))
                    case "model_upload":
                        upload = word_of(ModelUpload, frame.model_upload)
                        await _reply(session, self.models.uploaded(session.name, upload))
                    case kind:
                        what = f"unexpected {kind or 'empty frame'}"
                        self.guard.report(session.name, EventKind.FRAME_IGNORED, what)
        finally:
            session.outgoing.put_nowait(None)

    def _take_answer(self, message: wire.Answer, session: Session) -> None:
        entry = self.outstanding.get(message.order_id, session.device)
        if entry is None:
            detail = f"{message.order_id[:120]}: not outstanding (late, or not this device's)"
            self.observe(session.device, session.name, EventKind.ANSWER_IGNORED, detail)
            return
        if entry.refusal:
            entry.fail(AnswerStatus.GARBAGE, entry.refusal)
            return
        answer = answer_from(
            message, entry.order, entry.received, entry.uploads, by_program=self.trains_by_program
        )
        entry.settle(answer)

    def _take_event(self, event: wire.SessionEvent, session: Session) -> None:
        entry = self.outstanding.get(event.order_id, session.device)
        kind = event_kind(event.kind[:60])
        if entry is not None and kind in (EventKind.TRAIN_STARTED, EventKind.EVALUATE_STARTED):
            entry.started_by = session.hello.started_ns
        if kind is EventKind.PEER_PORT_OPEN:
            self.sessions.peer_port_open(session, event.detail)
        elif kind is EventKind.BOARD_TAKEN:
            self._taken(session, printable(event.detail[:200]))
        detail = event.order_id or event.detail
        self.observe(session.device, session.name, kind, detail[:200])

    def _taken(self, session: Session, by: str) -> None:
        """Another bench has the board: none of its orders is answered any more."""
        self.sessions.taken(session, by)
        for entry in self.outstanding.of_device(session.device):
            entry.fail(AnswerStatus.LOST, f"bench {by} has taken the board")

    def _take_goodbye(self, goodbye: wire.Goodbye, session: Session) -> None:
        session.said_goodbye = True
        device, name = session.device, session.name
        self.observe(device, name, EventKind.SESSION_CLOSED, goodbye.reason[:300])
        if left := sorted(goodbye.left_in_spool.items())[:_MOST_STORES]:
            detail = ", ".join(f"{store[:40]} {records}" for store, records in left)
            self.observe(device, name, EventKind.LEFT_IN_SPOOL, detail)

    def _take_echo(self, echo: wire.ClockEcho, session: Session) -> None:
        if session.probes is not None:
            session.probes.take(word_of(ClockEcho, echo))

    async def _drain(self, messages: AsyncIterator[bytes], context: Context) -> wire.DrainReply:
        async with self.guard.admitted(context, "Drain") as identity:
            allowance = self.allowances.of(identity)
            try:
                message = await first_request(messages, self.allowances.limits.request_s)
            except LinkError as error:
                await self._refuse_drain(identity, context, grpc.StatusCode.DEADLINE_EXCEEDED, str(error))
                raise AssertionError("abort raises") from None
            await allowance.call(len(message))
            try:
                request = wire.DrainRequest.FromString(message)
            except DecodeError:
                await self._refuse_drain(identity, context, INVALID_ARGUMENT, "request is not readable")
                raise AssertionError("abort raises") from None
            owner = request.device
            is_its = owner == identity or owner in self.reads_for.get(identity, ())
            if not is_its or self.device_of(identity) is None:
                claim = f"records of {request.device[:60]!r}"
                await self._refuse_drain(identity, context, PERMISSION_DENIED, claim)
            limits = self.allowances.limits
            if len(request.records) > limits.drained_records:
                why = f"{len(request.records)} records at once, the limit is {limits.drained_records}"
                await self._refuse_drain(identity, context, INVALID_ARGUMENT, why)
            if any(len(record.payload) > limits.record_bytes for record in request.records):
                why = f"a record of more than {limits.record_bytes} bytes"
                await self._refuse_drain(identity, context, INVALID_ARGUMENT, why)
            try:
                allowance.spool(request.spool_uuid[:64])
                allowance.store(len(message))
            except QuotaExceeded as error:
                await self._refuse_drain(identity, context, PERMISSION_DENIED, str(error))
            records = [(record.seq, record.kind, record.payload) for record in request.records]
            through = 0
            if records and self.device_of(owner) is None:
                through = records[-1][0]  # the reader is in the run, the board that it reads for is not
            elif records:
                try:
                    through = await self.store(owner, request.spool_uuid[:64], records)
                except RecordConflict as error:
                    await self._refuse_drain(identity, context, ALREADY_EXISTS, str(error))
            return wire.DrainReply(through_seq=through)

    async def _refuse_drain(self, identity: str, context: Context, code: grpc.StatusCode, why: str) -> None:
        self.guard.report(identity, EventKind.DRAIN_REFUSED, why)
        detail = "not this device's records" if why.startswith("records of") else why
        await context.abort(code, detail)


async def _reply(session: Session, word: ModelReply | ModelReceipt) -> None:
    """Send a reply; an agent that does not read its replies is not read any more until it does."""
    while session.outgoing.qsize() >= _MOST_UNREAD:  # noqa: ASYNC110
        await asyncio.sleep(_LOOK_S)
    session.send(word)


async def _noted(work: Callable[[Session], Awaitable[object]], session: Session) -> None:
    """A session ends by what fails beside it. What is cancelled before it began was not even called."""
    try:
        await work(session)
    except Exception as error:
        session.trouble = error
        session.outgoing.put_nowait(None)


def _describe(hello: Hello) -> str:
    return (
        f"version {hello.agent_version[:40]}, boot {hello.boot_id[:8]}, "
        f"reader {hello.rss_bytes / 2**20:.0f} MiB, trainer {hello.trainer_rss_bytes / 2**20:.0f} MiB"
    )
