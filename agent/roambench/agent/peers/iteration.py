"""One iteration's exchange with its neighbours: their models pulled, ours asked after, waiting meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from roambench.agent.peers.inbox import Inbox, Receipt
from roambench.agent.peers.link import PeerLink, PullFailed, UnansweredCalls
from roambench.agent.peers.offers import Offer, OfferState, WantedHalfStep
from roambench.agent.peers.radio import Traffic
from roambench.contract.errors import ModelError


class ExchangePhases(Protocol):
    """Port to the phases of a device that exchanges models."""

    async def pause(self, moved_bytes: int) -> None:
        """Wait for neighbours, with nothing on the air, after `moved_bytes` of the exchange in all."""
        ...

    async def go_on(self) -> None:
        """Make ready for the air again."""
        ...


class _NoPhases:
    """An exchange whose device has no phases."""

    async def pause(self, moved_bytes: int) -> None:
        """Stamp nothing."""

    async def go_on(self) -> None:
        """Stamp nothing."""


NO_PHASES: Final[ExchangePhases] = _NoPhases()


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A device that takes our half-step model in an iteration, and whose model we take. `weight` is W_ij of
    theirs."""

    device: int
    name: str
    address: str  # host:port of its peer port; empty: not known
    weight: float


@dataclass(frozen=True, slots=True)
class Iteration:
    """An exchange that was announced: who takes part, at what pace, and what is given away."""

    neighbours: tuple[Neighbour, ...]  # ascending
    offer: Offer
    traffic: Traffic


async def receive(
    link: PeerLink,
    iteration: Iteration,
    neighbour: Neighbour,
    receipt: Receipt,
    inbox: Inbox,
    layout: str,
    limit_s: float,
) -> None:
    """Pull and check a neighbour's model: it is in `receipt` then, or the reason why it is left out."""
    offer = iteration.offer
    try:
        if not neighbour.address:
            raise PullFailed("lost", "it has no peer port")
        with iteration.traffic.receiving() as coming:
            receipt.parcel, digest = await link.pull(
                neighbour.name,
                neighbour.address,
                WantedHalfStep(offer.run_id, offer.step),
                limit_s,
                inbox,
                offer.pace,
                coming,
                receipt,
            )
        await asyncio.to_thread(receipt.parcel.check, digest, layout)
        offer.here.add(neighbour.name)
    except PullFailed as error:
        receipt.reason = f"{error.kind}: {error}"[:300]
        if error.kind != "late":  # it is gone, or has nothing to do with us: it takes nothing, either
            offer.give_up(neighbour.name)
    except (ModelError, OSError) as error:
        receipt.reason = f"garbage: {error}"[:300]


async def ask_on(link: PeerLink, offer: Offer, neighbour: Neighbour, grace_s: float) -> None:
    """For ever: ask a neighbour that is still to take our model how it stands with that."""
    silence = UnansweredCalls()
    while True:
        await asyncio.sleep(grace_s)
        if offer.awaits(neighbour.name):
            wanted = WantedHalfStep(offer.run_id, offer.step)
            stands = await link.ask(neighbour.name, neighbour.address, wanted, silence)
            if stands == OfferState.HERE:
                offer.served.add(neighbour.name)
            if stands in (OfferState.HERE, OfferState.NEVER):
                offer.give_up(neighbour.name)


async def rest(offer: Offer, receipts: Sequence[Receipt], phases: ExchangePhases) -> None:
    """Wait for a neighbour to come after all, or until none will, with nothing on the air."""
    moved_bytes = offer.sent_bytes.total() + sum(receipt.received_bytes for receipt in receipts)
    await phases.pause(moved_bytes)
    await offer.rest()
    if not offer.settled:
        await phases.go_on()
        offer.go_on()
