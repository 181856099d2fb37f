"""The true power of one board: piecewise constant in device time, integrated analytically."""

from __future__ import annotations

from bisect import bisect_left, bisect_right


class PowerSignal:
    """P(t) in watts from `start_ns` on; the last value holds for ever.

    Changes may be reported late and out of order: each holds from its stamp to the next stamp that is known.
    """

    def __init__(self, start_ns: int, watts: float) -> None:
        self._ns = [start_ns]
        self._watts = [watts]

    @property
    def start_ns(self) -> int:
        """The time at which knowledge begins (moves forward with `prune`)."""
        return self._ns[0]

    @property
    def segments(self) -> list[tuple[int, float]]:
        """(start_ns, watts) of every piece, ascending."""
        return list(zip(self._ns, self._watts, strict=True))

    def segments_after(self, ns: int) -> list[tuple[int, float]]:
        """(start_ns, watts) of the pieces that begin after `ns`, ascending."""
        at = bisect_right(self._ns, ns)
        return list(zip(self._ns[at:], self._watts[at:], strict=True))

    def change(self, ns: int, watts: float) -> None:
        """From `ns` to the next known change the power is `watts`; of two for one stamp the later counts.

        A change before `start_ns` is too late to matter and is ignored.
        """
        if ns < self._ns[0]:
            return
        at = bisect_left(self._ns, ns)
        if at < len(self._ns) and self._ns[at] == ns:
            self._watts[at] = watts
        else:
            self._ns.insert(at, ns)
            self._watts.insert(at, watts)

    def watts_at(self, ns: int) -> float:
        """Watts at a device time."""
        return self._watts[self._piece(ns)]

    def energy_j(self, start_ns: int, end_ns: int) -> float:
        """The exact integral over [start_ns, end_ns); ValueError before `start_ns` or backwards."""
        if end_ns < start_ns:
            raise ValueError(f"interval ends at {end_ns}, before its start {start_ns}")
        at = self._piece(start_ns)
        watt_ns = 0.0
        begin = start_ns
        while begin < end_ns:
            end = min(end_ns, self._ns[at + 1]) if at + 1 < len(self._ns) else end_ns
            watt_ns += self._watts[at] * (end - begin)
            begin = end
            at += 1
        return watt_ns * 1e-9

    def mean_w(self, start_ns: int, end_ns: int) -> float:
        """Mean power over a window of positive length."""
        return self.energy_j(start_ns, end_ns) / ((end_ns - start_ns) * 1e-9)

    def steady_w(self, start_ns: int, end_ns: int) -> float | None:
        """The power over [start_ns, end_ns) if it does not change in between, else None."""
        at = self._piece(start_ns)
        if at + 1 < len(self._ns) and self._ns[at + 1] < end_ns:
            return None
        return self._watts[at]

    def cut(self, ns: int, watts: float) -> list[int]:
        """From `ns` on `watts` for ever: the stamps of the later changes that this undoes."""
        at = bisect_right(self._ns, ns)
        undone = self._ns[at:]
        del self._ns[at:]
        del self._watts[at:]
        self.change(ns, watts)
        return undone

    def prune(self, before_ns: int) -> None:
        """Forget pieces that ended before `before_ns` (the truth's file still has them)."""
        at = bisect_right(self._ns, before_ns) - 1
        if at > 0:
            del self._ns[:at]
            del self._watts[:at]

    def _piece(self, ns: int) -> int:
        at = bisect_right(self._ns, ns) - 1
        if at < 0:
            raise ValueError(f"power before {self._ns[0]} ns is not known (asked for {ns} ns)")
        return at
