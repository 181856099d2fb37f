"""Samples of a fast meter become readings: the mean of each whole window, so that joules are conserved."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.meters.ports import Port

Samples = npt.NDArray[np.float64]

#: Readings a second that the option `hz` offers: their periods are whole milliseconds.
RATES_HZ: Final = ("1", "2", "5", "10", "20", "50", "100", "200", "500", "1000")
_USUAL_HZ: Final = "100"
_WRAP_MS: Final = 2**32


def period_s(port: Port) -> float:
    """Seconds between two readings: the option `hz` of a port."""
    return 1.0 / int(port.choice("hz", RATES_HZ, _USUAL_HZ))


class Means:
    """Means of whole windows of samples that come at an even rate.

    Windows lie on the count of samples, those included that were lost: a window that misses one has no mean.
    """

    def __init__(self, rate_hz: int, period_s: float) -> None:
        self._rate_hz = rate_hz
        self._length = round(rate_hz * period_s)
        self._rest = np.empty(0)
        self._unwanted = 0  # samples up to the next window's begin
        self.count = 0

    def feed(self, samples: Samples) -> list[tuple[int, float]]:
        """Take samples; returns (the meter's milliseconds at its end, mean) of each window that ends here."""
        dropped = min(self._unwanted, len(samples))
        self._unwanted -= dropped
        self.count += len(samples)
        held = np.concatenate((self._rest, samples[dropped:]))
        windows = len(held) // self._length
        self._rest = held[windows * self._length :]
        means = held[: windows * self._length].reshape(windows, self._length).mean(axis=1).tolist()
        last = self.count - len(self._rest)
        return [
            (self.milliseconds(last - (windows - 1 - k) * self._length), mean) for k, mean in enumerate(means)
        ]

    def skip(self, lost: int) -> None:
        """Count `lost` samples that are missing here; a negative number takes back an earlier one."""
        self.count += lost
        self._rest = np.empty(0)
        self._unwanted = -self.count % self._length

    def milliseconds(self, count: int) -> int:
        """The meter's clock, which has 32 bits, when it had taken `count` samples."""
        return count * 1000 // self._rate_hz % _WRAP_MS
