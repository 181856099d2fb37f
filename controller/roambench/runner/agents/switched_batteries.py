"""Boards on batteries: without charge their power is cut, and given again when they are charged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from roambench.contract.stillness import AwakeTime
from roambench.rounds.ports import Batteries
from roambench.rounds.records import BatteriesSeen, BoardSwitched
from roambench.runner.agents.agent_bench import AgentBench
from roambench.runner.stopping import to_its_end

_LOOK_S: Final = 0.05


@asynccontextmanager
async def switched(charge_of: Batteries, bench: AgentBench) -> AsyncIterator[Batteries]:
    """Batteries whose boards are really off. At the end all boards have their power again, and are ready
    where the body came to its end."""
    power = SwitchedBatteries(charge_of, bench)
    try:
        yield power
    except BaseException:
        await to_its_end(power.give_all, False)
        raise
    await power.give_all(True)


@dataclass
class SwitchedBatteries:
    """`rounds.ports.Batteries`; begins with all boards on."""

    charge_of: Batteries
    bench: AgentBench
    _off: frozenset[int] = field(default_factory=frozenset)

    async def seen(self, step: int, present: Collection[int]) -> BatteriesSeen:
        """The batteries at the beginning of a step; when it returns those without charge have no power, and
        those that are charged again are ready for orders."""
        found = await self.charge_of.seen(step, present)
        off = frozenset(found.off)
        await self._cut(step, off)
        await self._give(step, self._off - off, waits=True)
        self._off = off
        return found

    async def give_all(self, waits: bool) -> None:
        """Give all boards their power; `waits`: until they are ready."""
        off, self._off = self._off, frozenset()
        await self._give(self.bench.watch.step, off, waits=waits)

    async def _cut(self, step: int, off: frozenset[int]) -> None:
        bench, new = self.bench, sorted(off - self._off)
        if not new:
            return
        names = {device: bench.watch.folder.info.device_names[device] for device in new}
        bench.agents_fleet.sessions.dark.update(new)  # before: a session may end at once
        failed = await bench.power.switch(list(names.values()), on=False)
        now_ns = bench.clock.now_ns()
        has_power = {device for device in new if names[device] in failed}
        bench.agents_fleet.power_is_cut(bench.agents_fleet.sessions.dark - has_power)
        for device, name in names.items():
            if name in failed:
                bench.watch.folder.doubt(f"{name} was to be off, but has its power: {failed[name]}")
            else:
                bench.watch.ready.discard(name)
                bench.watch.folder.journal.append(BoardSwitched(step, device, False, now_ns))

    async def _give(self, step: int, devices: frozenset[int], *, waits: bool) -> None:
        bench = self.bench
        if not devices:
            return
        names = {device: bench.watch.folder.info.device_names[device] for device in sorted(devices)}
        now_ns = bench.clock.now_ns()
        bench.agents_fleet.power_is_cut(bench.agents_fleet.sessions.dark - devices)
        failed = await bench.power.switch(list(names.values()), on=True)
        for device, name in names.items():
            if name in failed:
                bench.watch.folder.doubt(f"{name} was to be on again, but has no power: {failed[name]}")
            else:
                bench.watch.folder.journal.append(BoardSwitched(step, device, True, now_ns))
        since, expected = AwakeTime(), set(names.values()) - failed.keys()
        while waits and not expected <= bench.watch.ready:
            if since.seconds() > bench.power.patience_s:
                break
            await asyncio.sleep(_LOOK_S)
