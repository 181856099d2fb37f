"""Connected agents: one session per device, and the rule by which a new one replaces the old."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from roambench.contract.session import ControllerWord, Hello, Refusal
from roambench.fleet.clock_probes import ClockProbes
from roambench.wire.v1.methods import PROTOCOL_VERSION

_RETURNS: Final = 2
_LIVES_KEPT: Final = 16
#: Host seconds in which an agent whose session broke is back, if it lives.
_REDIALS_S: Final = 30.0


@dataclass(slots=True, eq=False)
class Session:
    """An open session: words put into `outgoing` are sent in order; None ends it."""

    device: int
    name: str
    hello: Hello
    outgoing: asyncio.Queue[ControllerWord | Refusal | None] = field(default_factory=asyncio.Queue)
    said_goodbye: bool = False
    probes: ClockProbes | None = None
    trouble: Exception | None = None  # what it ended by
    peer_address: str = ""  # where its neighbours find it; empty: its peer port is closed
    reachable: asyncio.Event = field(default_factory=asyncio.Event)  # set as soon as the address is known

    def send(self, word: ControllerWord | Refusal) -> None:
        """Queue something for the agent."""
        self.outgoing.put_nowait(word)


#: A life of an agent: its boot, and when its process began.
Life = tuple[str, int]


@dataclass(slots=True)
class Lives:
    """The lives of one device's agents, as they said hello: how often each came back after a later one."""

    returns: dict[Life, int] = field(default_factory=dict)
    now: Life | None = None
    refused: dict[Life, str] = field(default_factory=dict)

    def lived_on(self, life: Life) -> Life | None:
        """`life` says hello; returns the one that took its place while it lived on.

        Once may be a hello that came late, from before a reboot; no life that is over comes back twice.
        """
        if life in self.refused:
            return None
        before, self.now = self.now, life
        if before in (None, life):
            self.returns.setdefault(life, 0)
            return None
        if life not in self.returns:
            self.returns[life] = 0
            for old in list(self.returns)[:-_LIVES_KEPT]:
                del self.returns[old]
            return None
        self.returns[life] += 1
        return before if self.returns[life] >= _RETURNS else None


class Sessions:
    """Open sessions by device index; `names` are the devices this run knows."""

    def __init__(self, names: Sequence[str], disputed: Callable[[str, str], None]) -> None:
        """`disputed` hears, by name, of a second machine that ends the session of the first in turns."""
        self._report_dispute = disputed
        self._lives: dict[int, Lives] = {}
        self._device_of = {name: index for index, name in enumerate(names)}
        self._open: dict[int, Session] = {}
        self._machines: dict[int, str] = {}
        self._left_at: dict[int, tuple[str, float]] = {}  # peer address, host seconds, of who is not here
        self._disputed: dict[int, str] = {}
        self._changed = asyncio.Condition()
        self._farewell: ControllerWord | None = None
        self._left: set[int] = set()
        self._lost: set[int] = set()  # their sessions ended without a goodbye: they may come back
        self.dark: set[int] = set()  # their boards have no power, as the run wants it

    def end_run(self, farewell: ControllerWord) -> None:
        """Tell every agent, late ones too; one that said goodbye after it is not let in again."""
        self._farewell = farewell
        for session in self.all():
            session.send(farewell)

    def refusal(self, identity: str, hello: Hello) -> Refusal | None:
        """Return why this hello is not accepted, or None. `identity` is the certificate's name."""
        if hello.protocol_version != PROTOCOL_VERSION:
            reason = (
                f"agent speaks protocol version {hello.protocol_version}, "
                f"this controller {PROTOCOL_VERSION}: install the same roambench on both"
            )
            return Refusal(reason, final=True)
        if hello.device != identity:
            reason = f"agent says it is {hello.device!r}, its certificate says {identity!r}"
            return Refusal(reason, final=True)
        device = self._device_of.get(identity)
        if device is None:
            return Refusal(f"device {identity!r} is not part of this run", final=True)
        if device in self._left:
            return Refusal("the run is over", final=False)
        machine = self._machines.get(device)
        if machine is not None and machine != hello.machine_id:
            # Two machines with one identity: neither can be trusted, so neither takes part.
            self._disputed[device] = (
                f"device {identity!r} dialled from machine {machine[:12]} and from "
                f"{hello.machine_id[:12]}: a cloned SD card? Give each board its own name"
            )
            if (old := self._open.get(device)) is not None:
                old.send(Refusal(self._disputed[device], final=True))
                old.outgoing.put_nowait(None)
        if device in self._disputed:
            return Refusal(self._disputed[device], final=True)
        return self._second_machine(device, hello)

    def _second_machine(self, device: int, hello: Hello) -> Refusal | None:
        """A byte-copied card has the first board's machine id. Both dial, and end each other's sessions: a
        life of an agent that comes back after a later one has not ended. The first goes on."""
        lives, life = self._lives.setdefault(device, Lives()), (hello.boot_id, hello.started_ns)
        other = lives.lived_on(life)
        if other is not None:
            reason = (
                f"device {hello.device!r} dials from two machines at once, which take turns: one booted as "
                f"{life[0][:8] or 'unknown'}, the other as {other[0][:8] or 'unknown'}, which is refused: a "
                "copied SD card? Give each board its own name"
            )
            lives.refused[other] = reason
            self._report_dispute(hello.device, reason)
            if (old := self._open.get(device)) is not None:
                old.send(Refusal(reason, final=True))
        if life in lives.refused:
            return Refusal(lives.refused[life], final=True)
        return None

    async def open(self, hello: Hello) -> Session:
        """Register the session of an accepted hello; the device's old one, if any, is ended."""
        device = self._device_of[hello.device]
        old = self._open.get(device)
        if old is not None:
            old.outgoing.put_nowait(None)
        session = Session(device, hello.device, hello)
        if hello.peer_address:
            self.peer_port_open(session, hello.peer_address)
        if self._farewell is not None:
            session.send(self._farewell)
        async with self._changed:
            self._open[device] = session
            self._lost.discard(device)
            self._machines[device] = hello.machine_id
            self._changed.notify_all()
        return session

    async def close(self, session: Session) -> None:
        """Forget a session, if it is still the device's own, and wake who waits."""
        async with self._changed:
            if self._open.get(session.device) is session:
                del self._open[session.device]
                if not session.said_goodbye:
                    self._lost.add(session.device)
                    self._left_at[session.device] = (session.peer_address, time.monotonic())
            if self._farewell is not None and session.said_goodbye:
                self._left.add(session.device)
            self._changed.notify_all()

    def taken(self, session: Session, by: str) -> None:
        """Another bench has the board: it is not let in again, and not waited for."""
        self._disputed[session.device] = f"bench {by} has taken this board"

    def shut_out(self, device: int) -> str:
        """Return why the device is not let in again, "" if it may be."""
        return self._disputed.get(device, "")

    def of(self, device: int) -> Session | None:
        """The open session of a device, if there is one."""
        return self._open.get(device)

    def all(self) -> list[Session]:
        """The open sessions by device number."""
        return [self._open[device] for device in sorted(self._open)]

    def peer_port_open(self, session: Session, address: str) -> None:
        """The device's neighbours find it at `address` from now on."""
        session.peer_address = address[:100]
        session.reachable.set()

    def peer_address(self, device: int) -> str:
        """Return where its neighbours find the device, or found it until its session broke a moment ago: its
        peer port is still there, if its agent is. Empty: nowhere."""
        if (session := self.of(device)) is not None:
            return session.peer_address
        address, at_s = self._left_at.get(device, ("", 0.0))
        return address if time.monotonic() - at_s < _REDIALS_S else ""

    def expected(self) -> list[str]:
        """Names of agents that are here, or were and did not say goodbye; not those refused for good."""
        some = (self._open.keys() | self._lost) - self._disputed.keys()
        return sorted(name for name, device in self._device_of.items() if device in some)

    async def wait_for_goodbyes(self) -> None:
        """Return as soon as no agent is expected any more."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._open and not self.expected())

    async def wait_for_count(self, count: int) -> None:
        """Return as soon as exactly `count` devices are connected."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self._open) == count)
