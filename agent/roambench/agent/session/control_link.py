"""The control plane as an agent uses it: one session, redialled for ever, and the drain of records."""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import grpc
import grpc.aio

from roambench.agent.reporter import Notebook
from roambench.agent.session.dial_trouble import dial_trouble
from roambench.contract.draws import generator
from roambench.contract.errors import IdentityError, LinkError
from roambench.contract.records import RecordKind
from roambench.contract.session import AgentWord, ControllerWord, Hello
from roambench.identity.authority import CONTROLLER_NAME, Credential
from roambench.spool.consumer import Record
from roambench.spool.drain import BatchRefused, NotWelcome, TooSlow
from roambench.spool.spool import Spool
from roambench.wire.frames import agent_frame, controller_word, hello_message
from roambench.wire.v1 import control_pb2 as wire
from roambench.wire.v1.methods import DRAIN, MAX_CONTROL_MESSAGE_BYTES, SESSION, channel_options

Reply = TypeVar("Reply")

_FIRST_REDIAL_S = 0.2
_LONGEST_REDIAL_S = 10.0
#: Answers that only a controller gives which has read a batch, and nothing on the way: unreadable, too many
#: or too large records, or numbers that the run has already for others.
_BATCHS_OWN_FAULT = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.ALREADY_EXISTS)

_NOTHING_LEFT: Final[Mapping[str, int]] = {}


def secure_channel(
    address: str, credential: Credential, max_message_bytes: int, *, keepalive: bool = True
) -> grpc.aio.Channel:
    """A mutual-TLS channel to the controller: it must prove CONTROLLER_NAME, under any address."""
    return grpc.aio.secure_channel(
        address,
        grpc.ssl_channel_credentials(
            credential.authority_pem, credential.key_pem, credential.certificate_pem
        ),
        options=[
            *channel_options(max_message_bytes, keepalive=keepalive),
            ("grpc.ssl_target_name_override", CONTROLLER_NAME),
            ("grpc.initial_reconnect_backoff_ms", 100),
            # Not the wait between two attempts, but how long one may take: at 100 ms no agent came through
            # a road of 300 ms, because TCP and TLS go to and fro three times before the first call.
            ("grpc.min_reconnect_backoff_ms", 10_000),
            ("grpc.max_reconnect_backoff_ms", int(_LONGEST_REDIAL_S * 1000)),
        ],
    )


class CredentialPort(Protocol):
    """Port to a certificate that may change (`identity_files`)."""

    def credential(self) -> Credential:
        """The credential to dial with now; IdentityError: there is none."""
        ...


class Party(Protocol):
    """Port to an agent that talks with its controller."""

    def hello(self) -> Hello:
        """The word with which a session begins."""
        ...

    def take(self, word: ControllerWord | None) -> None:
        """Act on a word of the controller, None where it was of an unknown kind."""
        ...


class FrameParty(Protocol):
    """Port to an agent that speaks in frames."""

    def hello(self) -> wire.Hello:
        """The message with which a session begins."""
        ...

    def take(self, frame: wire.ControllerFrame) -> None:
        """Act on a frame of the controller."""
        ...


@dataclass(frozen=True, slots=True)
class InFrames:
    """A party's words as frames."""

    party: Party

    def hello(self) -> wire.Hello:
        """The message with which a session begins."""
        return hello_message(self.party.hello())

    def take(self, frame: wire.ControllerFrame) -> None:
        """Act on a frame of the controller."""
        self.party.take(controller_word(frame))


class ControlLink:
    """Holds a session with the controller for as long as the agent lives."""

    def __init__(
        self,
        address: str,
        identity: Credential | CredentialPort,
        device: str,
        notebook: Notebook,
        *,
        keepalive: bool = True,
        patient: bool = False,
    ) -> None:
        """`patient`: a controller that is away is normal, and no refusal is final.

        An `identity` that may change is asked at every dial; an IdentityError of it is a failed dial.
        """
        self._address = address
        self.keepalive = keepalive  # of the next session
        self._patient = patient
        self._logged = ""
        self._identity = identity
        self._device = device
        self._notebook = notebook
        self._outgoing: asyncio.Queue[wire.AgentFrame | None] | None = None
        self._channel: grpc.aio.Channel | None = None
        self._awaited: set[asyncio.Future[Any]] = set()
        self._ended = asyncio.Event()
        self._awake = asyncio.Event()
        self._awake.set()
        self._at_once = False
        self.serves_run = False  # the session is with the controller of our run
        self._left_s = time.monotonic()

    def send(self, frame: wire.AgentFrame) -> None:
        """Queue a frame for the open session; without one it is dropped (answers and records are on disk)."""
        if self._outgoing is not None:
            self._outgoing.put_nowait(frame)

    def say(self, word: AgentWord) -> None:
        """Queue a word, as `send` does."""
        self.send(agent_frame(word))

    async def answered(self, word: AgentWord, reply: asyncio.Future[Reply]) -> Reply:
        """Send a word, and return its reply, which `take` of a party sets; LinkError without a session, or
        where it ends before."""
        if self._outgoing is None:
            raise LinkError("no session")
        self._awaited.add(reply)
        try:
            self.say(word)
            return await reply
        finally:
            self._awaited.discard(reply)

    def hang_up(self, reason: str, left_in_spool: Mapping[str, int] = _NOTHING_LEFT) -> None:
        """Say Goodbye, with how many records a store has yet to get, and end the session; `run` returns."""
        self._ended.set()
        self._awake.set()
        self._goodbye(reason, left_in_spool)

    def _goodbye(self, reason: str, left_in_spool: Mapping[str, int] = _NOTHING_LEFT) -> None:
        if self._outgoing is not None:
            goodbye = wire.Goodbye(reason=reason, left_in_spool=left_in_spool)
            self._outgoing.put_nowait(wire.AgentFrame(goodbye=goodbye))
            self._outgoing.put_nowait(None)

    @property
    def is_open(self) -> bool:
        """Return whether there is a session."""
        return self._outgoing is not None

    @property
    def away_s(self) -> float:
        """Host seconds since the last session ended, or since this began without one; 0 in a session."""
        return 0.0 if self.is_open else round(time.monotonic() - self._left_s, 1)

    def redial(self, reason: str) -> None:
        """End the session politely and dial again at once."""
        self._at_once = True
        self._goodbye(reason)

    def rest(self, reason: str, left_in_spool: Mapping[str, int] = _NOTHING_LEFT) -> None:
        """End the session politely, as `hang_up` does, and dial no more, until `wake`."""
        self._awake.clear()
        self._goodbye(reason, left_in_spool)

    def wake(self) -> None:
        """Dial at once instead of waiting out the pause between attempts."""
        self._awake.set()

    async def run(self, party: FrameParty) -> None:
        """Dial, say hello, hold, redial with backoff; `party` takes what the controller sends.

        Raises LinkError when the controller says that it is final.
        """
        failures = 0
        while not self._ended.is_set():
            await self._awake.wait()
            if self._ended.is_set():
                return
            welcomed, problem = await self._hold_one_session(party)
            if self._ended.is_set():
                return
            failures = 0 if welcomed else failures + 1
            wait_s = min(_LONGEST_REDIAL_S, _FIRST_REDIAL_S * 2.0 ** min(failures, 8))
            key = zlib.crc32(self._device.encode())
            wait_s *= 0.5 + 0.5 * float(generator(key, "redial", 0, failures).random())
            if self._at_once:
                self._at_once = False
                continue
            if self._awake.is_set():
                self._log_dial(welcomed, problem, wait_s)
            await asyncio.sleep(wait_s)

    def _log_dial(self, welcomed: bool, problem: str, wait_s: float) -> None:
        """A patient one's log has a line when its controller goes, not one for each dial that fails."""
        if not self._patient:
            self._notebook.log(f"session ended ({problem}); redialling in {wait_s:.1f} s")
        elif welcomed or problem != self._logged:
            self._logged = problem
            now = "session ended" if welcomed else "no session"
            self._notebook.log(f"{now} ({problem}); dialling {self._address} on")

    async def _hold_one_session(self, party: FrameParty) -> tuple[bool, str]:
        try:
            credential = self._credential()
        except IdentityError as error:
            return False, str(error)
        outgoing: asyncio.Queue[wire.AgentFrame | None] = asyncio.Queue()
        outgoing.put_nowait(wire.AgentFrame(hello=party.hello()))

        async def frames() -> AsyncIterator[wire.AgentFrame]:
            while (frame := await outgoing.get()) is not None:
                yield frame

        welcomed = False
        channel = secure_channel(
            self._address, credential, MAX_CONTROL_MESSAGE_BYTES, keepalive=self.keepalive
        )
        self._channel = channel
        session = channel.stream_stream(
            SESSION,
            request_serializer=wire.AgentFrame.SerializeToString,
            response_deserializer=wire.ControllerFrame.FromString,
        )
        try:
            async for frame in session(frames()):
                if frame.HasField("refusal"):
                    if frame.refusal.final and not self._patient:
                        raise LinkError(f"the controller refuses this agent: {frame.refusal.reason}")
                    return welcomed, f"refused: {frame.refusal.reason}"
                if frame.HasField("welcome"):
                    welcomed = True
                    self._outgoing = outgoing
                party.take(frame)
            return welcomed, "closed by the controller"
        except grpc.aio.AioRpcError as error:
            problem = error.details() or str(error.code())
            if not welcomed and error.code() is grpc.StatusCode.UNAVAILABLE:
                problem = await dial_trouble(self._address, credential) or problem
            return welcomed, problem
        finally:
            if self._outgoing is not None:
                self._outgoing, self._left_s = None, time.monotonic()
            for reply in self._awaited:
                if not reply.done():
                    reply.set_exception(LinkError("the session ended"))
            outgoing.put_nowait(None)
            await channel.close()
            self._channel = None

    def _credential(self) -> Credential:
        return self._identity if isinstance(self._identity, Credential) else self._identity.credential()

    async def drain(
        self,
        spool_uuid: str,
        records: Sequence[tuple[int, RecordKind, bytes]],
        timeout_s: float = 20.0,
        *,
        device: str = "",
    ) -> int:
        """Send records, `device`'s or our own; returns the highest seq that is durable at the controller.

        Raises BatchRefused when the controller finds fault with these very records, NotWelcome when a person
        must act, TooSlow when it does not answer in time, LinkError when it should be tried again: every
        other answer, also gRPC's own of a port that is full (RESOURCE_EXHAUSTED).
        """
        if self._channel is None or self._outgoing is None:
            raise LinkError("no session")
        request = wire.DrainRequest(
            device=device or self._device,
            spool_uuid=spool_uuid,
            records=[wire.Record(seq=seq, kind=int(kind), payload=payload) for seq, kind, payload in records],
        )
        if (size := request.ByteSize()) > MAX_CONTROL_MESSAGE_BYTES:  # the one limit that gRPC would name
            raise BatchRefused(f"{size} bytes, larger than the {MAX_CONTROL_MESSAGE_BYTES} of one message")
        call = self._channel.unary_unary(
            DRAIN,
            request_serializer=wire.DrainRequest.SerializeToString,
            response_deserializer=wire.DrainReply.FromString,
        )
        try:
            reply = await call(request, timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            reason = f"drain failed: {error.details()}"
            if error.code() in _BATCHS_OWN_FAULT:
                raise BatchRefused(reason) from None
            if error.code() is grpc.StatusCode.PERMISSION_DENIED:
                raise NotWelcome(reason) from None
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                raise TooSlow(f"no answer within {timeout_s:g} s") from None
            raise LinkError(reason) from None
        except asyncio.CancelledError:
            # Closing a session's channel cancels the calls over it; that must not end their caller.
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise LinkError("drain failed: the session ended") from None
        return int(reply.through_seq)


@dataclass(slots=True)
class RunDrain:
    """Drains `spool`, which has `device`'s records, to the controller of our run: those of one whose
    controller died are none of the next one's."""

    link: ControlLink
    device: str
    spool: Spool

    @property
    def is_there(self) -> bool:
        """Return whether there is a session with a controller."""
        return self.link.is_open

    async def send(self, records: Sequence[Record]) -> int:
        """Send records as `ControlLink.drain` does."""
        if not self.link.serves_run:
            raise LinkError("no session with this run's controller")
        return await self.link.drain(self.spool.uuid_of(records[0][0]), records, device=self.device)
