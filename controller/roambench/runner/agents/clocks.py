"""The times at which a fleet's clocks are probed during a run, and the check before its first measured
step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import FleetError
from roambench.contract.records import AgentEvent
from roambench.energy.clocks.clock_fit import REFUSE_BOUND_NS
from roambench.fleet.grpc_fleet import GrpcFleet
from roambench.rounds.records import ClockProbed
from roambench.runs.measured.clocks import CONTROLLER_HOST, described


class FleetClocks:
    """Bursts before, between the steps of, and after a run; never inside an order or an idle baseline."""

    def __init__(self, fleet: GrpcFleet, names: Sequence[str], clock: DeviceClock, period_s: float) -> None:
        """`period_s`: device time that passes between two bursts of a run at least."""
        self._fleet = fleet
        self._names = names
        self._clock = clock
        self._period_ns = round(period_s * 1e9)
        self._due_ns = 0

    async def before(self, events: Mapping[str, Sequence[AgentEvent]]) -> None:
        """The first burst; call it before the first idle baseline. FleetError as `check_clocks` says."""
        check_clocks(self._names, await self._fleet.probe_clocks("before"), events)
        self._due_ns = self._clock.now_ns() + self._period_ns

    async def between_steps(self) -> None:
        """A burst if one is due: every order of the step is answered, so no measured phase is running."""
        if self._clock.now_ns() >= self._due_ns:
            await self._fleet.probe_clocks("during")
            self._due_ns = self._clock.now_ns() + self._period_ns

    async def after(self) -> None:
        """The last burst; call it after the last idle baseline."""
        await self._fleet.probe_clocks("after")


def check_clocks(
    names: Sequence[str], bursts: Sequence[ClockProbed], events: Mapping[str, Sequence[AgentEvent]]
) -> None:
    """FleetError for a board whose meter another host reads, when their clocks are known worse than 400 ms.

    Not known at all counts as worse. The reader is another board of `names` (then both bounds add up) or the
    controller's own machine, "controller". A board that reads its own meter stamps phases and readings with
    one clock: it needs no offset and always passes. `events` hold the descriptions of the meters.
    """
    bounds_ns = {names[burst.device]: burst.bound_ns for burst in bursts} | {CONTROLLER_HOST: 0.0}
    problems = []
    for name in names:
        meter = described(events.get(name, ()))
        if meter is None or not meter.remote_reader:
            continue
        reader = meter.remote_reader
        if reader not in (*names, CONTROLLER_HOST):
            problems.append(
                f"{name}: {reader} reads its meter, but its clock is not probed "
                f"(expected a board of this run, or {CONTROLLER_HOST!r})"
            )
        elif name not in bounds_ns or reader not in bounds_ns:
            silent = name if name not in bounds_ns else reader
            problems.append(f"{silent}: its clock did not answer a single probe")
        elif (bound_ns := bounds_ns[name] + bounds_ns[reader]) > REFUSE_BOUND_NS:
            problems.append(f"{name}: its clock is known to {bound_ns * 1e-6:.0f} ms only")
    if problems:
        raise FleetError(
            f"{'; '.join(problems)}; the meter is read by another host, so its readings could be laid over "
            "the phases no better than that (limit 400 ms): repair the network, or let the board read it"
        )
