"""Clock offset of an agent by bursts of four-stamp exchanges over its session (as NTP does)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from roambench.contract.device_time import DeviceClock
from roambench.contract.session import ClockEcho, ClockProbe
from roambench.energy.clocks.clock_fit import MIN_PROBES, MOST_OFFSET_NS, ClockBurst, ClockExchange
from roambench.rounds.records import ClockOccasion, ClockProbed


class ClockProbes:
    """The exchanges of one session, one after the other: two at once would wait for each other."""

    def __init__(self, clock: DeviceClock, send: Callable[[ClockProbe], None], echo_s: float) -> None:
        """`echo_s`: host seconds the agent may take to echo one probe."""
        self._clock = clock
        self._send = send
        self._echo_s = echo_s
        self._number = 0
        self._sent_ns = 0
        self._echo: asyncio.Future[ClockExchange] | None = None
        self._turn = asyncio.Lock()
        self._closed = False

    async def burst(
        self, allowed: Callable[[], bool] = lambda: True, count: int = MIN_PROBES
    ) -> tuple[ClockExchange, ...] | None:
        """`count` exchanges, fewer if the agent falls silent; None once `allowed` says no or it is closed.

        `allowed` is asked before every probe: an order that comes in between ends the burst, so that at
        most one probe falls into the phase it begins.
        """
        found: list[ClockExchange] = []
        async with self._turn:
            for _ in range(count):
                if self._closed or not allowed():
                    return None
                exchange = await self._exchange()
                if exchange is None:
                    break
                found.append(exchange)
        return None if self._closed else tuple(found)

    def take(self, echo: ClockEcho) -> None:
        """Use an echo; one that is not awaited (late, repeated, made up) is ignored."""
        t3_ns = self._clock.now_ns()
        if echo.probe == self._number and self._echo is not None and not self._echo.done():
            t1_ns, t2_ns = echo.received_ns, echo.sent_ns
            self._echo.set_result(ClockExchange(self._sent_ns, t1_ns, t2_ns, t3_ns))

    def close(self) -> None:
        """End all waits for an echo: the session ended."""
        self._closed = True
        if self._echo is not None:
            self._echo.cancel()

    async def _exchange(self) -> ClockExchange | None:
        self._number += 1
        self._echo = asyncio.get_running_loop().create_future()
        self._sent_ns = self._clock.now_ns()
        self._send(ClockProbe(self._number))
        done, _ = await asyncio.wait({self._echo}, timeout=self._echo_s)
        echo, self._echo = self._echo, None
        return echo.result() if done and not echo.cancelled() else None


def clock_probed(
    probes: Sequence[ClockExchange], device: int, occasion: ClockOccasion, boot_id: str, clock: DeviceClock
) -> ClockProbed:
    """The journal's record of a burst; ValueError when none of its exchanges is possible.

    Everything is in device time, as the phases and readings are. On an emulated fleet that runs
    `time_scale` times faster than this machine, so a round trip of 1 ms here is 4 ms at a scale of 4; the
    record keeps the scale, so that a reader can say both.
    """
    if any(max(abs(p.t1_ns - p.t0_ns), abs(p.t2_ns - p.t3_ns)) > MOST_OFFSET_NS for p in probes):
        raise ValueError("an echo is more than ten years from this machine's clock")
    burst = ClockBurst.of(probes)
    possible = [probe for probe in probes if probe.round_trip_ns >= 0]
    best = min(possible, key=lambda probe: probe.round_trip_ns)
    return ClockProbed(
        step=-1,
        device=device,
        occasion=occasion,
        boot_id=boot_id,
        at_ns=burst.at_ns,
        offset_ns=burst.offset_ns,
        bound_ns=burst.bound_ns,
        probes=burst.probes,
        stamps_ns=(best.t0_ns, best.t1_ns, best.t2_ns, best.t3_ns),
        time_scale=clock.time_scale,
    )
