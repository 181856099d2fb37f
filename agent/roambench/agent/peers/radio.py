"""One radio for all transfers of an exchange: its pace, and how much of it is on the air at a moment."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from roambench.contract.device_time import DeviceClock

#: A loop that wakes this much too late (host time) makes up for it; a link that stood still does not.
_CATCH_UP_S: Final = 0.1

#: (what is sent, what comes) in Mbit/s from now on; infinite: as fast as the port goes.
RadioLoad = Callable[[float, float], None]


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
    """Follows an exchange over a link of `mbit_s` (0: native) and tells `radio` at every change."""

    def __init__(self, mbit_s: float, radio: RadioLoad) -> None:
        self._limit_mbit_s = mbit_s or math.inf
        self._radio = radio
        self._sending_mbit_s = 0.0
        self._coming: list[float] = []

    def sending(self, on: bool) -> None:
        """All sends together go at the link's rate."""
        self._sending_mbit_s = self._limit_mbit_s if on else 0.0
        self._report()

    @contextmanager
    def receiving(self) -> Iterator[Callable[[float], None]]:
        """Around one receive; to be called with its sender's pace (0: native) whenever its bytes begin."""
        paces: list[float] = []  # of this receive: none before its bytes begin, then one

        def now(*pace: float) -> None:
            for old in paces:
                self._coming.remove(old)
            paces[:] = pace
            self._coming.extend(pace)
            self._report()

        try:
            yield lambda mbit_s: now(mbit_s if 0.0 < mbit_s < math.inf else math.inf)
        finally:
            if paces:
                now()

    def _report(self) -> None:
        self._radio(self._sending_mbit_s, min(self._limit_mbit_s, sum(self._coming)))
