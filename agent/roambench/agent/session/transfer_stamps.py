"""Stamps of the chunks of one transfer, and where it stalled."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from roambench.contract.device_time import DeviceClock
from roambench.contract.phases import MOST_STALLS, Moved

#: A transfer stalled where it lost so much time; less may be the machine's own lateness ...
LEAST_STALL_S: Final = 0.1
#: ... and this many times what a chunk usually takes: a paced or a slow link has long gaps all the time, and
#: a radio's rate may fall to a half.
LEAST_CHUNKS: Final = 2.0


class TransferStamps:
    """One reading of the clock per chunk. What comes of them is bounded: `Moved` has the longest stalls."""

    def __init__(self, clock: DeviceClock) -> None:
        self._clock = clock
        self._ns = array("q")

    def note(self) -> int:
        """The stamp of the first byte (the first call), or of the end of a chunk."""
        ns = self._clock.now_ns()
        self._ns.append(ns)
        return ns

    def moved(self, transferred_bytes: int) -> Moved:
        """Return what the record of the transfer says of `transferred_bytes`."""
        if not self._ns:
            return Moved(transferred_bytes)
        # Of this machine's time: where device time runs faster, its lateness is larger in it.
        least_ns = round(LEAST_STALL_S * 1e9 / self._clock.host_seconds(1.0))
        return Moved(transferred_bytes, self._ns[0], self._ns[-1], stalls_of(self._ns[1:], least_ns))


def stalls_of(ends_ns: Sequence[int], least_ns: int) -> tuple[tuple[int, int], ...]:
    """Begin and end of the longest stalls between chunks that ended at `ends_ns`, in order of time.

    A stall is the time that a transfer lost in a gap between chunks: what is left of the gap without the
    chunk's own time, and without what the next chunks made up by coming at once (buffers take and give
    several together, and who paces catches up). It lies in the middle, since it is unknown when the chunk
    moved. What came before the first chunk's end is none: a connection begins slowly.
    """
    gaps_ns = [later - earlier for earlier, later in pairwise(ends_ns)]
    usual_ns = _usual(gaps_ns)
    found = []
    for i, gap_ns in enumerate(gaps_ns):
        if gap_ns < least_ns:
            continue
        made_up_ns = spent_ns = 0
        for chunks, next_ns in enumerate(gaps_ns[i + 1 :], start=1):
            spent_ns += next_ns
            if 2 * spent_ns > chunks * usual_ns:
                break
            made_up_ns = chunks * usual_ns - spent_ns
        lost_ns = gap_ns - usual_ns - made_up_ns
        if lost_ns >= max(least_ns, LEAST_CHUNKS * usual_ns):
            begin_ns = ends_ns[i] + (gap_ns - lost_ns) // 2
            found.append((lost_ns, begin_ns, begin_ns + lost_ns))
    longest = sorted(found, reverse=True)[:MOST_STALLS]
    return tuple(sorted((begin_ns, end_ns) for _, begin_ns, end_ns in longest))


def _usual(gaps_ns: Sequence[int]) -> int:
    """The gap such that half of the time is in gaps no longer: chunks that a buffer took at once have no say,
    and a transfer that stalled for half of its time has no pace to tell it by."""
    left_ns = sum(gaps_ns) / 2
    for gap_ns in sorted(gaps_ns):
        left_ns -= gap_ns
        if left_ns <= 0:
            return gap_ns
    return 0
