"""Device time: one monotonic clock per device, faster than the host's when a Pi is emulated.

On a board `time_scale` is 1 and device time is CLOCK_MONOTONIC. On a laptop the emulated Pis, their meters
and the controller of a local fleet share one epoch and one scale, so that a second of device time lasts
1/time_scale seconds of the host; every stamp, phase and reading is in device time.

Where the machine is booted in mid-run its CLOCK_MONOTONIC begins at zero; device time goes on.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass


@dataclass(slots=True)
class DeviceClock:
    """At `epoch_ns` of the host's CLOCK_MONOTONIC device time is `ahead_ns` more than that."""

    epoch_ns: int = 0
    time_scale: float = 1.0
    ahead_ns: int = 0

    def now_ns(self) -> int:
        """The present device time."""
        return self.from_host_ns(time.monotonic_ns())

    def from_host_ns(self, host_ns: int) -> int:
        """The device time at a time of the host's monotonic clock."""
        if self.time_scale == 1.0:
            return host_ns + self.ahead_ns
        return self.epoch_ns + self.ahead_ns + round((host_ns - self.epoch_ns) * self.time_scale)

    def to_host_ns(self, device_ns: int) -> int:
        """The time of the host's monotonic clock at a device time."""
        if self.time_scale == 1.0:
            return device_ns - self.ahead_ns
        return self.epoch_ns + round((device_ns - self.ahead_ns - self.epoch_ns) / self.time_scale)

    def put_forward(self, ns: int) -> None:
        """Let `ns` of device time pass at once; only while nothing is stamped by this clock."""
        self.ahead_ns += ns

    def host_seconds(self, device_s: float) -> float:
        """Return how long `device_s` of device time last on the host."""
        return device_s / self.time_scale

    async def sleep(self, device_s: float) -> None:
        """Wait for `device_s` device seconds."""
        await asyncio.sleep(max(0.0, self.host_seconds(device_s)))

    async def sleep_until_ns(self, device_ns: int) -> None:
        """Sleep until device time reaches `device_ns`; returns at once when it has passed."""
        left_s = (self.to_host_ns(device_ns) - time.monotonic_ns()) * 1e-9
        await asyncio.sleep(max(0.0, left_s))
