"""The half-step model that a device gives its neighbours in an iteration, once it is there."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from roambench.agent.peers.radio import RadioPace, Traffic

#: A neighbour whose connection broke may ask again, but not make a device send for ever.
MOST_PULLS: Final = 10
#: Requests of one neighbour that wait for the iteration to come (its present one, and one that broke off).
MOST_WAITING: Final = 2


class OfferState(IntEnum):
    """The state of a neighbour's half step at the device that was to take it."""

    COMING = 0  # it still wants it
    HERE = 1  # it has all of it
    NEVER = 2  # it will not take it: it has given it up, or its exchange is over


@dataclass(frozen=True, slots=True)
class WantedHalfStep:
    """The half step that a neighbour asks for, or about."""

    run_id: str
    step: int


class Withheld(Exception):
    """The caller does not get this model, and why."""


@dataclass(frozen=True, slots=True)
class HalfStep:
    """A half-step model as bytes, and its digest."""

    blob: bytes
    digest: str


class Offer:
    """One iteration's model for its `takers`, by name; no other device gets it.

    The model comes with `provide` or never (`withhold`). What was sent is counted by taker, whole or not.
    """

    def __init__(
        self,
        run_id: str,
        step: int,
        takers: Collection[str],
        pace: RadioPace,
        traffic: Traffic,
    ) -> None:
        """`traffic` follows when sending begins and ends."""
        self.run_id = run_id
        self.step = step
        self.takers = frozenset(takers)
        self.pace = pace
        self.sent_bytes: Counter[str] = Counter()
        self.served: set[str] = set()  # who says that it got all of it
        self.here: set[str] = set()  # whose own model of this iteration has come
        self._model: asyncio.Future[HalfStep] = asyncio.get_running_loop().create_future()
        self._model.add_done_callback(_retrieved)
        self._pulls: Counter[str] = Counter()
        self._sending: Counter[str] = Counter()
        self._given_up: set[str] = set()
        self._moved = asyncio.Event()
        self._goes_on = asyncio.Event()
        self._goes_on.set()
        self._traffic = traffic
        self._over = ""

    @property
    def sending(self) -> bool:
        """Return whether any transfer is going on, or wants to."""
        return self._sending.total() > 0

    @property
    def settled(self) -> bool:
        """Return whether every taker has the model, or will not take it."""
        return self.takers <= self.served | self._given_up

    @property
    def share_mbit_s(self) -> float:
        """Rate for each taker while all of them take, Mbit/s; 0: the link's native speed."""
        return self.pace.mbit_s / max(1, len(self.takers))

    def provide(self, half_step: HalfStep) -> None:
        """Set the half step that neighbours pull; only the first one counts."""
        if not self._model.done():
            self._model.set_result(half_step)

    def withhold(self, reason: str) -> None:
        """There is no model, or none any more: transfers that go on break off at their next piece."""
        self._over = self._over or reason
        self.go_on()
        if not self._model.done():
            self._model.set_exception(Withheld(reason))

    async def model(self) -> HalfStep:
        """The half-step, as soon as it is there; Withheld if it never will be."""
        half_step = await asyncio.shield(self._model)
        self.check()
        return half_step

    def check(self) -> None:
        """Raises Withheld when the exchange is over."""
        if self._over:
            raise Withheld(self._over)

    @asynccontextmanager
    async def sending_to(self, name: str) -> AsyncIterator[None]:
        """Around a transfer, which waits while the exchange rests; Withheld for a taker that had its share of
        attempts."""
        self._pulls[name] += 1
        if self._pulls[name] > MOST_PULLS:
            raise Withheld(f"{name} took this model {MOST_PULLS} times already")
        self._sending[name] += 1
        self._moved.set()
        try:
            await self._goes_on.wait()
            self.check()
            self._traffic.sending(True)
            yield
        finally:
            self._sending[name] -= 1
            self._traffic.sending(self.sending)
            self._moved.set()

    def give_up(self, name: str) -> None:
        """This taker will not come and take, or need not: nothing came from it, or it says so."""
        self._given_up.add(name)
        self._moved.set()

    def awaits(self, name: str) -> bool:
        """Return whether this taker has not begun to take the model and still is to."""
        return not self._sending[name] and name not in self.served | self._given_up

    def standing(self, name: str) -> OfferState:
        """Return how it stands here with the model of `name`."""
        if name in self.here:
            return OfferState.HERE
        over = self._over or name in self._given_up or name not in self.takers
        return OfferState.NEVER if over else OfferState.COMING

    async def taken(self, grace_s: float) -> bool:
        """True when nothing is being sent and it is settled; False when nothing was sent for `grace_s` host
        seconds, and a taker is still to come."""
        while self.sending or not self.settled:
            self._moved.clear()
            try:
                async with asyncio.timeout(None if self.sending else grace_s):
                    await self._moved.wait()
            except TimeoutError:
                return False
        return True

    async def rest(self) -> None:
        """Returns when it is settled, or a taker comes after all, whose transfer then waits for `go_on`."""
        self._goes_on.clear()
        while not (self.sending or self.settled):
            self._moved.clear()
            await self._moved.wait()

    def go_on(self) -> None:
        """Let transfers begin again."""
        self._goes_on.set()


class Offers:
    """The offer of the present iteration, and who waits for the next."""

    def __init__(self) -> None:
        self._present: Offer | None = None
        self._changed = asyncio.Event()
        self._waiting: Counter[str] = Counter()

    def announce(self, offer: Offer) -> None:
        """From now on this is the present iteration; transfers of the one before may end."""
        if self._present is not None:
            self._present.withhold("this iteration is over")
        self._present = offer
        self._changed.set()
        self._changed = asyncio.Event()

    async def wanted(self, run_id: str, step: int, name: str) -> Offer:
        """The offer of that iteration, waited for; Withheld unless `name` is one of its takers.

        One that is over, or passed over, is withheld at once. The caller bounds the wait for a later one.
        """
        if self._waiting[name] >= MOST_WAITING:
            raise Withheld(f"{name} waits already")
        self._waiting[name] += 1
        try:
            while (offer := self._present) is None or (offer.run_id, offer.step) != (run_id, step):
                if offer is not None and offer.run_id == run_id and offer.step > step:
                    raise Withheld(f"step {step} is over")  # it never comes: no waiting for it
                await self._changed.wait()
        finally:
            self._waiting[name] -= 1
            self._waiting += Counter()  # forgets who waits no more
        if name not in offer.takers:
            raise Withheld(f"{name} is no neighbour in step {step}")
        return offer

    def standing(self, run_id: str, step: int, name: str) -> OfferState:
        """Return how it stands here with the model of `name` of that iteration."""
        offer = self._present
        if offer is None or offer.run_id != run_id or offer.step < step:
            return OfferState.COMING  # this device is not there yet
        return offer.standing(name) if offer.step == step else OfferState.NEVER


def _retrieved(model: asyncio.Future[HalfStep]) -> None:
    """Retrieve the error of a model that is withheld and that no taker asks for: asyncio would complain."""
    if not model.cancelled():
        model.exception()
