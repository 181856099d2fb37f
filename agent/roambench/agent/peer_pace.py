"""One radio for all transfers of an exchange: what a device sends together, and what it gets together."""

from __future__ import annotations

from typing import Final

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
