"""The device-to-device part of an agent: its peer port, and the exchange of an iteration.

All sends and receives of an exchange run at the same time, each with a deadline, and sending never waits for
receiving: an exchange ends, also with neighbours that do nothing. Models are mixed in ascending order of
device, whenever they came; what does not fit in memory meanwhile lies on disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from roambench.agent.board_load import BoardLoad
from roambench.agent.peers.inbox import MEMORY_BYTES, Inbox, Receipt, mixed
from roambench.agent.peers.iteration import (
    NO_PHASES,
    ExchangePhases,
    Iteration,
    Neighbour,
    ask_on,
    receive,
    rest,
)
from roambench.agent.peers.link import PeerLink
from roambench.agent.peers.offers import HalfStep, Offer, Offers
from roambench.agent.peers.radio import RadioPace, Traffic
from roambench.agent.peers.server import PeerService, RefusalTaker, data_interface, peer_server
from roambench.contract.awake_timeout import AwakeTimeout
from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import LinkError
from roambench.contract.model_blob import decode, layout_of
from roambench.contract.orders import LeftOut, Vector
from roambench.identity.authority import Credential
from roambench.wire.server import LastingServer

_STOP_S: Final = 0.2
#: Host seconds after which a neighbour that has not come for our model, when we have all that we get, is
#: asked how it stands, and again. Its own half step is done then, or late: it has come by now, unless it
#: died, cannot reach us, or its word that it has all was lost.
GRACE_S: Final = 1.0
#: Why a neighbour has not got our model: it did not come for it.
_NOT_TAKEN: Final = "not taken in time"


@dataclass(frozen=True, slots=True)
class Mixed:
    """The end of an exchange: the mixed model, shape (parameters,), and who fell short, each ascending."""

    model: Vector
    layout: str
    left_out: tuple[LeftOut, ...]
    not_taken: tuple[LeftOut, ...]
    sent_bytes: int
    received_bytes: int
    duration_s: float  # device time until the last model was sent and received, without rests


@dataclass(slots=True)
class Peers:
    """`refusals` gets every pull that got no model; `memory_bytes` bounds the models that wait in memory to
    be mixed; `grace_s` is between two questions to neighbours that do not come for our model."""

    credential: Credential
    clock: DeviceClock
    folder: Path
    refusals: RefusalTaker
    keepalive: bool = True
    memory_bytes: int = MEMORY_BYTES
    grace_s: float = GRACE_S
    run_id: str = ""
    address: str = ""  # of the peer port, for neighbours; empty while it is closed
    decided: asyncio.Event = field(default_factory=asyncio.Event)  # a run's port is open, or will not be
    _offers: Offers = field(default_factory=Offers)
    _link: PeerLink | None = None
    _server: LastingServer | None = None
    _watch: asyncio.Task[None] | None = None

    async def open(self, run_id: str, data_address: str, revoked_serials: Collection[int] = ()) -> str:
        """Open the peer port on the interface that leads to `data_address`; returns its address.

        One that is open for this run stays as it is. Raises LinkError when there is none to be had.
        """
        if self._server is not None and run_id != self.run_id:
            await self.close()  # the next run may know other certificates
        self.run_id = run_id
        if self._server is None:
            service = PeerService(self._offers, self.refusals, frozenset(revoked_serials))
            server, address = peer_server(
                self.credential,
                service,
                data_interface(data_address),
                keepalive=self.keepalive,
                on_replaced=partial(self.refusals.take, "a neighbour"),
            )
            await server.start()
            self._watch = asyncio.create_task(server.watch(), name="peer port")
            self._server, self.address = server, address
            self._link = PeerLink(self.credential, keepalive=self.keepalive)
            self.decided.set()
        return self.address

    async def close(self) -> None:
        """Close the port and all channels; an exchange in progress is to be cancelled before."""
        server, link, watch = self._server, self._link, self._watch
        self._server, self._link, self._watch, self.address = None, None, None, ""
        self.decided.clear()
        self._offers = Offers()  # who goes on with a run does its steps again
        if watch is not None:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
        if link is not None:
            await link.close()
        if server is not None:
            await server.stop(_STOP_S)

    def announce(
        self,
        step: int,
        neighbours: Sequence[Neighbour],
        mbit_s: float,
        load: BoardLoad,
    ) -> Iteration:
        """Begin an iteration: from now on its neighbours may ask for the half-step model, and wait for it.

        Raises LinkError while the port is closed.
        """
        if self._link is None:
            raise LinkError("the peer port is closed: no exchange")
        traffic = Traffic(mbit_s, load)
        offer = Offer(
            self.run_id,
            step,
            [neighbour.name for neighbour in neighbours],
            RadioPace(self.clock, mbit_s),
            traffic,
        )
        self._offers.announce(offer)
        return Iteration(tuple(sorted(neighbours, key=lambda n: n.device)), offer, traffic)

    async def exchange(
        self,
        iteration: Iteration,
        half_step: HalfStep,
        device: int,
        own_weight: float,
        limit_s: float,
        phases: ExchangePhases = NO_PHASES,
    ) -> Mixed:
        """Give the half-step of `device` to the neighbours, take theirs, and mix.

        Who is not there after `limit_s` host seconds is left out. Raises ModelError when the half-step
        itself is no model.
        """
        offer, neighbours = iteration.offer, iteration.neighbours
        layout = layout_of(half_step.blob)
        own = decode(half_step.blob, layout=layout)
        started_ns = self.clock.now_ns()
        receipts = [Receipt(neighbour.device, neighbour.weight) for neighbour in neighbours]
        offer.pace.begin()
        offer.provide(half_step)
        try:
            rested_ns = await self._move(iteration, receipts, layout, limit_s, phases)
            duration_s = (self.clock.now_ns() - started_ns - rested_ns) * 1e-9
            offer.withhold("the exchange is over")
            if not self.keepalive and self._link is not None:
                await self._link.close()  # now: in a quiet run nothing may be sent when they have been idle
            model = await asyncio.to_thread(mixed, device, own, own_weight, receipts, layout)
        finally:
            offer.withhold("the exchange broke off")
            for receipt in receipts:
                if receipt.parcel is not None:
                    receipt.parcel.close()
        return Mixed(
            model,
            layout,
            tuple(LeftOut(r.device, r.reason, r.received_bytes) for r in receipts if r.reason),
            tuple(
                LeftOut(neighbour.device, _NOT_TAKEN, offer.sent_bytes[neighbour.name])
                for neighbour in neighbours
                if neighbour.name not in offer.served
            ),
            offer.sent_bytes.total(),
            sum(receipt.received_bytes for receipt in receipts),
            duration_s,
        )

    async def _move(
        self,
        iteration: Iteration,
        receipts: Sequence[Receipt],
        layout: str,
        limit_s: float,
        phases: ExchangePhases,
    ) -> int:
        """Returns when all models have come and gone that will: how long it rested, ns of device time."""
        link = self._link
        if link is None:
            raise LinkError("the peer port was closed: no exchange")
        await link.keep_only([(neighbour.name, neighbour.address) for neighbour in iteration.neighbours])
        inbox = Inbox(self.folder, self.memory_bytes)
        ends = asyncio.get_running_loop().time() + limit_s
        async with asyncio.TaskGroup() as pulls:
            for neighbour, receipt in zip(iteration.neighbours, receipts, strict=True):
                pulls.create_task(receive(link, iteration, neighbour, receipt, inbox, layout, limit_s))
        asking = [
            asyncio.create_task(ask_on(link, iteration.offer, neighbour, self.grace_s))
            for neighbour in iteration.neighbours
        ]
        rested_ns = 0
        try:
            async with AwakeTimeout(ends - asyncio.get_running_loop().time()):
                while not await iteration.offer.taken(self.grace_s):
                    rests_ns = self.clock.now_ns()
                    try:
                        await rest(iteration.offer, receipts, phases)
                    finally:
                        rested_ns += self.clock.now_ns() - rests_ns
        except TimeoutError:
            pass
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
        return rested_ns
