"""A fleet of real agents while a run lasts: clocks, idle baselines, the pace of its steps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Final

from roambench.experiment.sections import Experiment
from roambench.rounds.ports import Batteries, Fleet
from roambench.rounds.records import RunResumed
from roambench.rounds.run import Pace
from roambench.runner.agents.agent_bench import AgentBench
from roambench.runner.agents.agent_checkpoints import AgentCheckpoints
from roambench.runner.agents.checkpoints import Checkpoints
from roambench.runner.agents.switched_batteries import switched
from roambench.runner.agents.watch import Watch
from roambench.runner.pacing import ClockPace, PauseGate, SpreadStarts, step_length_s
from roambench.runner.system_runs.system_run import World
from roambench.runs.folder import RunFolder

#: Host seconds for a request for silence to leave, before a slow disk holds this process up.
_TO_LEAVE_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class ReadyAgents:
    """`ReadyFleet` of real agents. `fleet` are the agents as the round loop sees them, `trace_step_s` device
    seconds that a step of the trace stands for."""

    bench: AgentBench
    fleet: Fleet
    experiment: Experiment
    trace_step_s: float
    folder: RunFolder
    keeper: AgentCheckpoints
    orders_to_absent: bool = True

    @property
    def watch(self) -> Watch:
        """Follows the agents: their events, and the step that they are in."""
        return self.bench.watch

    @property
    def now_ns(self) -> Callable[[], int]:
        """The run's clock."""
        return self.bench.clock.now_ns

    async def begin(self, checkpoints: Checkpoints | None, outage_s: float) -> None:
        """Probe the clocks and measure idle power; where a run goes on, journal for how long it stood
        still."""
        folder, bench = self.folder, self.bench
        await bench.clocks.before({name: folder.records.events(name) for name in folder.info.device_names})
        found = checkpoints.found if checkpoints is not None else None
        if found is None:
            start_ns = bench.clock.now_ns()
            bench.watch.joules.begin()
            baseline = asyncio.create_task(bench.idle(self.experiment.energy.idle_baseline_s))
            try:
                await asyncio.sleep(_TO_LEAVE_S)
                folder.update(start_device_ns=start_ns)
                await baseline
            finally:
                baseline.cancel()
        else:
            bench.watch.step = found.next_step
            await bench.rest(folder.info.name_in_orders, found.next_step)
            now_ns, since_ns = bench.clock.now_ns(), found.fleet["at_ns"]
            folder.journal.append(RunResumed(found.next_step, now_ns, outage_s, since_ns))

    def batteries(self, charge_of: Batteries) -> AbstractAsyncContextManager[Batteries]:
        """The batteries, with the boards switched as `battery.cut` wants it."""
        battery = self.experiment.battery
        if not battery.capacity_wh or battery.cut == "absent":
            return nullcontext(charge_of)
        return switched(charge_of, self.bench)

    def pace(self, say: Callable[[str], None], first_step: int) -> Pace:
        """The clock's if there is one, clock probes when they are due, and pauses."""
        bench = self.bench
        gate = PauseGate(self.folder.path, self.folder.journal, bench.clock, say)
        step_s = step_length_s(self.experiment.rounds.step_close, self.trace_step_s)
        pace = None if step_s is None else ClockPace(step_s, bench.clock, first_step)

        async def end(step: int) -> None:
            if pace is not None:
                await pace(step)
            await bench.clocks.between_steps()
            paused_ns = await gate(step)
            if pace is not None:
                pace.shift(paused_ns)

        return end

    async def end(self, run_id: str, steps: int) -> None:
        """Let the agents rest after the last step and measure idle power once more."""
        self.bench.watch.step = steps
        await self.bench.rest(run_id, steps)
        await self.bench.idle(self.experiment.energy.idle_baseline_s)


@asynccontextmanager
async def ready_agents(
    world: World, folder: RunFolder, agents: AbstractAsyncContextManager[AgentBench], dither_s: float
) -> AsyncIterator[ReadyAgents]:
    """The agents, ready for orders. The end in device time is noted, and the clocks are probed."""
    async with agents as bench:
        kept = AgentCheckpoints(folder.path, bench.agents_fleet, bench.clock)
        try:
            experiment = world.experiment
            fleet = SpreadStarts(bench.fleet, bench.clock, experiment.seed, dither_s)
            yield ReadyAgents(bench, fleet, experiment, world.movement.trace.step_s, folder, kept)
        finally:
            folder.update(end_device_ns=bench.clock.now_ns())
        await bench.clocks.after()
