"""One radio for all transfers of an exchange: its pace, and how much of it is on the air at a moment."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from roambench.agent.board_load import BoardLoad
from roambench.contract.device_time import DeviceClock

#: A loop that wakes this much too late (host time) makes up for it; a link that stood still does not.
_CATCH_UP_S: Final = 0.1


class RadioPace:
    """Holds both directions to `mbit_s` of device time each, shared by however many transfers (0: free)."""

    def __init__(self, clock: DeviceClock, mbit_s: float) -> None:
        self.mbit_s = mbit_s
        self._clock = clock
        self.begin()

    def begin(self) -> None:
        """The air is free from now on."""
        self._sent_ns = self._received_ns = self._clock.now_ns()

    async def send(self, size_bytes: int) -> None:
        """Returns at the moment at which the last bit of a piece has left, after all pieces before it."""
        if self.mbit_s > 0:
            slack_ns = round(_CATCH_UP_S * self._clock.time_scale * 1e9)
            began_ns = max(self._sent_ns, self._clock.now_ns() - slack_ns)
            self._sent_ns = began_ns + self._air_ns(size_bytes)
            await self._clock.sleep_until_ns(self._sent_ns)

    async def receive(self, size_bytes: int) -> None:
        """Returns when a piece that has come can have come, beside all pieces before it.

        Nothing is read from the connection meanwhile, so that its sender waits, too.
        """
        if self.mbit_s > 0:
            self._received_ns = max(self._received_ns + self._air_ns(size_bytes), self._clock.now_ns())
            await self._clock.sleep_until_ns(self._received_ns)

    def _air_ns(self, size_bytes: int) -> int:
        return round(size_bytes * 8e3 / self.mbit_s)


class Traffic:
    """Follows an exchange over a link of `mbit_s` (0: native); `load` gets what is sent and what comes,
    Mbit/s, at every change (infinite: as fast as the port goes)."""

    def __init__(self, mbit_s: float, load: BoardLoad) -> None:
        self._limit_mbit_s = mbit_s or math.inf
        self._load = load
        self._sending_mbit_s = 0.0
        self._coming: list[float] = []

    def sending(self, on: bool) -> None:
        """All sends together go at the link's rate."""
        self._sending_mbit_s = self._limit_mbit_s if on else 0.0
        self._report()

    @contextmanager
    def receiving(self) -> Iterator[Receiving]:
        """A context around one receive."""
        receiving = Receiving(self)
        try:
            yield receiving
        finally:
            receiving.end()

    def change_coming(self, old_mbit_s: float | None, new_mbit_s: float | None) -> None:
        """Let one receive go from one pace to another (None: no bytes come)."""
        if old_mbit_s is not None:
            self._coming.remove(old_mbit_s)
        if new_mbit_s is not None:
            self._coming.append(new_mbit_s)
        self._report()

    def _report(self) -> None:
        self._load.exchange(self._sending_mbit_s, min(self._limit_mbit_s, sum(self._coming)))


class Receiving:
    """One receive of `traffic`; it has a pace as soon as its bytes come."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self._mbit_s: float | None = None

    def begin(self, mbit_s: float) -> None:
        """Take bytes at the sender's pace (0: native); again where another attempt begins."""
        self._set(mbit_s if 0.0 < mbit_s < math.inf else math.inf)

    def end(self) -> None:
        """Take no bytes any more."""
        if self._mbit_s is not None:
            self._set(None)

    def _set(self, mbit_s: float | None) -> None:
        old_mbit_s, self._mbit_s = self._mbit_s, mbit_s
        self._traffic.change_coming(old_mbit_s, mbit_s)
