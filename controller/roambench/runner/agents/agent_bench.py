"""A fleet of real agents while a run lasts, wherever they live: what a run does with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from roambench.contract.device_time import DeviceClock
from roambench.contract.orders import IdleOrder, order_id
from roambench.fleet.grpc_fleet import GrpcFleet
from roambench.rounds.ports import Fleet
from roambench.runner.agents.clocks import FleetClocks
from roambench.runner.agents.watch import Watch


class BoardPower(Protocol):
    """The power of a fleet's boards."""

    @property
    def patience_s(self) -> float:
        """Host seconds in which a board that gets its power is ready again, if it ever is."""
        ...

    async def switch(self, names: Sequence[str], *, on: bool) -> Mapping[str, str]:
        """Cut or give the power of these boards; return why not, by name, of those where it failed."""
        ...


@dataclass(frozen=True, slots=True)
class AgentBench:
    """A fleet that is ready: every agent said hello and has a warm trainer."""

    fleet: Fleet
    clock: DeviceClock
    watch: Watch
    clocks: FleetClocks
    agents_fleet: GrpcFleet  # `fleet` without its link rates
    power: BoardPower

    async def idle(self, device_s: float) -> None:
        """Let everybody idle for a baseline; a quiet fleet says nothing meanwhile."""
        self.agents_fleet.hush(True)
        try:
            await self.clock.sleep(device_s)
        finally:
            self.agents_fleet.hush(False)

    async def rest(self, run_id: str, step: int) -> None:
        """All agents idle, after any last order: the baseline of a board that waits for more
        orders, or looks for a network, is another one's."""
        devices = range(len(self.watch.folder.info.device_names))
        await self.fleet.perform(
            [IdleOrder(order_id(run_id, step, i, "idle"), i, step, True) for i in devices]
        )
