"""Clock offset of an agent by repeated four-stamp exchanges over its session (as NTP does)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from roambench.contract.device_time import DeviceClock
from roambench.wire.v1 import control_pb2 as wire

_PROBES = 8


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """Agent clock minus controller clock, and the bound of its error (half of the round trip)."""

    offset_ns: int
    bound_ns: int


class ClockProbes:
    """Sends probes one after the other; the exchange with the shortest round trip gives the offset."""

    def __init__(self, clock: DeviceClock, send: Callable[[wire.ControllerFrame], None]) -> None:
        self._clock = clock
        self._send = send
        self._sent_ns = 0
        self._probe = 0
        self._best: ClockOffset | None = None

    def begin(self) -> None:
        self._next()

    def take(self, echo: wire.ClockEcho) -> ClockOffset | None:
        """Use an echo; returns the offset after the last probe, None before."""
        t3 = self._clock.now_ns()
        if echo.probe != self._probe:
            return None
        t0, t1, t2 = self._sent_ns, echo.received_monotonic_ns, echo.sent_monotonic_ns
        offset = ClockOffset(((t1 - t0) + (t2 - t3)) // 2, max(0, (t3 - t0) - (t2 - t1)) // 2)
        if self._best is None or offset.bound_ns < self._best.bound_ns:
            self._best = offset
        if self._probe < _PROBES:
            self._next()
            return None
        return self._best

    def _next(self) -> None:
        self._probe += 1
        self._sent_ns = self._clock.now_ns()
        self._send(wire.ControllerFrame(clock_probe=wire.ClockProbe(probe=self._probe)))
