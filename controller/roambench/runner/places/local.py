"""Agents of this machine, on emulated boards with emulated meters."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import ClassVar

from rich.console import Console

from roambench.contract.counts import count
from roambench.emulation.profiles import profile
from roambench.experiment.sections import Experiment
from roambench.meters.catalogue import traits_at
from roambench.meters.ports import option_in
from roambench.meters.traits import MeterTraits
from roambench.runner.agents.checkpoints import Checkpoints
from roambench.runner.benches.local_bench import LocalBench, local_bench
from roambench.runner.influx_live import influx_settings, write_joules
from roambench.runner.places.place import ThisMachine, dither_s_at
from roambench.runner.places.ready_agents import ready_agents
from roambench.runner.screen import say, warn
from roambench.runner.system_runs.ready_fleet import ReadyFleet
from roambench.runner.system_runs.system_run import FleetNeeds, World
from roambench.runner.world import LearningTask
from roambench.runs.fleet_kinds import FLEET_KINDS, FleetKind
from roambench.runs.folder import RunFolder


class LocalPlace(ThisMachine):
    """Device k is an agent process of this machine."""

    kind: ClassVar[FleetKind] = FLEET_KINDS["local"]

    @property
    def time_scale(self) -> float:
        """Device seconds per second of this machine: `local.time_scale`."""
        return self.experiment.local.time_scale

    @property
    def meters(self) -> Mapping[str, MeterTraits]:
        """Traits of the emulated meters and of real ones."""
        local = self.experiment.local
        usual = profile(local.meter_profile).traits_at(local.meter_interval_ms or None)
        return {
            **dict.fromkeys(self.names(self.experiment.fleet.agents), usual),
            **{device: profile(name).traits_at() for device, name in local.meter_profiles.items()},
            **{device: traits_at(meter.driver, meter.port) for device, meter in local.meters.items()},
        }

    @property
    def meter_serials(self) -> Mapping[str, str]:
        """Serial numbers in the ports of real meters."""
        return {
            device: serial
            for device, meter in self.experiment.local.meters.items()
            if (serial := option_in(meter.port, "serial"))
        }

    def agents(
        self,
        experiment: Experiment,
        learning_task: LearningTask,
        folder: RunFolder,
        console: Console,
        *,
        agent_cost: bool = False,
    ) -> AbstractAsyncContextManager[LocalBench]:
        """Start one agent process and one emulated meter per device; they end with the context."""
        return local_bench(experiment, learning_task, folder, partial(warn, console), agent_cost=agent_cost)

    def finished(self, folder: RunFolder, console: Console) -> None:
        """Write the joules of phases to the run's InfluxDB, if it has one."""
        settings = influx_settings(self.experiment.influxdb)
        write_joules(folder, settings, folder.info.fleet, partial(warn, console))

    def ready_fleet(
        self,
        world: World,
        needs: FleetNeeds,
        folder: RunFolder,
        console: Console,
        checkpoints: Checkpoints | None,
    ) -> AbstractAsyncContextManager[ReadyFleet]:
        """The agents, ready for orders; prints their start-up time and memory."""
        agents = _introduced(world, folder, console, checkpoints)
        return ready_agents(world, folder, agents, dither_s_at(self))


@asynccontextmanager
async def _introduced(
    world: World, folder: RunFolder, console: Console, checkpoints: Checkpoints | None
) -> AsyncIterator[LocalBench]:
    """The agents, with start-up figures on the console: users size their laptops by them."""
    async with local_bench(
        world.experiment, world.learning_task, folder, partial(warn, console), checkpoints=checkpoints
    ) as bench:
        hello_s = bench.watch.hello_s
        memory = bench.agents.memory()
        mib = 2**20
        say(
            console,
            f"{count(len(hello_s), 'agent')} connected within {max(hello_s.values()):.1f} s; "
            f"memory: largest process "
            f"{max(max(m.reader_rss_bytes, m.trainer_rss_bytes) for m in memory) / mib:.0f} MiB resident, "
            f"all agents together {sum(m.pss_bytes for m in memory) / mib:.0f} MiB (PSS)",
        )
        yield bench
