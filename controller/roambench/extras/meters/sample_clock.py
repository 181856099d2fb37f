"""Lost samples that no counter shows: the count of samples falls behind the time in which they were taken."""

from __future__ import annotations

import math
from typing import Final

#: Device time over which the least delay of all arrivals is looked for.
_BLOCK_NS: Final = 500_000_000
#: A delay that stays longer than this, over two blocks, is a loss and no wait for this process.
_STAYS_NS: Final = 4e6
#: A crystal is no worse than this.
_WORST_DRIFT: Final = 500e-6


class SampleClock:
    """Compares samples counted with time passed; `step` is how many samples the counter takes to wrap."""

    def __init__(self, rate_hz: int, step: int) -> None:
        self._sample_ns = 1e9 / rate_hz
        self._step = step
        self._floor_ns = math.inf  # the least delay that there was, drift allowed for
        self._block_ns = -1
        self._least_ns = [math.inf, math.inf]  # of the block before and of this one

    def missed(self, count: int, now_ns: int) -> int:
        """Samples that were lost unseen before `now_ns`, of `count` so far: a multiple of the step, negative
        where an earlier answer was too many."""
        delay_ns = now_ns - count * self._sample_ns
        if self._block_ns < 0:
            self._block_ns = now_ns
        self._least_ns[1] = min(self._least_ns[1], delay_ns)
        if now_ns - self._block_ns < _BLOCK_NS:
            return 0
        passed_ns, self._block_ns = now_ns - self._block_ns, now_ns
        least_ns, self._least_ns = min(self._least_ns), [self._least_ns[1], math.inf]
        behind_ns = least_ns - self._floor_ns
        if math.isinf(self._floor_ns) or abs(behind_ns) < _STAYS_NS:
            self._floor_ns = min(self._floor_ns + _WORST_DRIFT * passed_ns, least_ns)
            return 0
        steps = round(behind_ns / self._sample_ns / self._step) * self._step
        self._least_ns = [math.inf, math.inf]
        return steps
