"""A bench on this machine: real agents on emulated boards with emulated meters, started and stopped."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

from roambench.agent.settings import MeterSettings
from roambench.contract.device_time import DeviceClock
from roambench.contract.draws import generator
from roambench.contract.errors import FleetError
from roambench.contract.stillness import AwakeTime
from roambench.emulation.electric.power import PiPower
from roambench.emulation.electric.shapes import SHAPES
from roambench.emulation.profiles import Transport, profile
from roambench.emulation.spec import EmulatedDevice, EmulatorSpec, Fault, FaultKind
from roambench.experiment.sections import Experiment
from roambench.fleet.grpc_fleet import FleetSettings, GrpcFleet
from roambench.fleet.link_rates import LinkRates, RatedFleet
from roambench.fleet.local_agents import LocalAgents, LocalSettings
from roambench.identity.authority import CONTROLLER_NAME, Authority
from roambench.rounds.records import ClockProbed
from roambench.runner.agents.agent_bench import AgentBench
from roambench.runner.agents.agent_checkpoints import clock_again, was_booted
from roambench.runner.agents.checkpoints import Checkpoints
from roambench.runner.agents.clocks import FleetClocks
from roambench.runner.agents.host_meters import here, is_read_here, meters_read_here
from roambench.runner.agents.watch import Watch, observe, report
from roambench.runner.influx_live import InfluxLive, influx_note, influx_settings
from roambench.runner.stopping import to_its_end
from roambench.runner.system_runs.decentralised import is_decentralised
from roambench.runner.world import LearningTask, learning_spec, save_shards
from roambench.runs.doubts import BY_THE_WALL_CLOCK
from roambench.runs.folder import RunFolder

#: 36 agents were all there within 20 s on two cores. For this long no agent may come, or become
#: ready, before it is an error: on a busy machine they come one after the other.
_HELLO_PATIENCE_S = 90.0
_DRAIN_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class LocalBench(AgentBench):
    """The processes of this machine besides."""

    agents: LocalAgents


@dataclass(frozen=True, slots=True)
class LocalPower:
    """`BoardPower` of emulated boards."""

    agents: LocalAgents
    patience_s: float = _HELLO_PATIENCE_S

    async def switch(self, names: Sequence[str], *, on: bool) -> Mapping[str, str]:
        """Kill or start their agents; it never fails."""
        await asyncio.gather(*(self.agents.switch(name, on=on) for name in names))
        return {}


@asynccontextmanager
async def local_bench(
    experiment: Experiment,
    learning_task: LearningTask,
    folder: RunFolder,
    say: Callable[[str], None],
    *,
    agent_cost: bool = False,
    checkpoints: Checkpoints | None = None,
) -> AsyncIterator[LocalBench]:
    """Start the processes of `folder`'s devices; stop and drain them at the end, also on Ctrl-C.

    `say` gets what an operator should see at once. `agent_cost`: the emulated boards draw what their agents
    compute, too. `checkpoints`: those of its run,
    which may have found one to go on from; agents then find in their folders what they left there.
    """
    names = folder.info.device_names
    found = checkpoints.found if checkpoints is not None else None
    clock = DeviceClock(time.monotonic_ns(), experiment.local.time_scale)
    if found is not None:
        clock = clock_again(found.fleet, experiment.local.time_scale, folder.path)
        if was_booted(found.fleet):
            folder.doubt(BY_THE_WALL_CLOCK)
    authority = Authority.create()
    shards = save_shards(
        learning_task, {index: folder.path / "agents" / name for index, name in enumerate(names)}
    )
    watch = Watch(folder)
    if note := influx_note(experiment.influxdb):
        say(note)
    live = InfluxLive(
        folder,
        influx_settings(experiment.influxdb),
        folder.info.fleet,
        clock,
        partial(report, watch, say),
        forwards=experiment.influxdb.via == "controller",
    )

    def clock_probed(record: ClockProbed) -> None:
        watch.clock_probed(record)
        live.clock_probed(record)

    fleet = GrpcFleet(
        FleetSettings(
            run_id=folder.info.run_id,
            names=names,
            learning=tuple(
                learning_spec(experiment, learning_task, shards[index], index) for index in range(len(names))
            ),
            layout=learning_task.layout.fingerprint,
            shapes=learning_task.layout.shapes,
            deadline_s=experiment.fleet.deadline_s,
            rest_s=folder.info.rest_s,
            quiet=experiment.energy.quiet,
            host=experiment.host.settings(),
            exchanges=is_decentralised(experiment),
            part=checkpoints.part if checkpoints is not None else 0,
            resumes_at=found.next_step if found is not None else 0,
            bench=folder.info.fleet,
            system=folder.info.system,
        ),
        authority.issue(CONTROLLER_NAME),
        clock,
        watch.store,
        partial(observe, watch, say),
        clock_observer=clock_probed,
        together=watch.together,
    )
    # Unix socket paths end at 108 bytes; a run folder may lie deep.
    sockets = Path(tempfile.mkdtemp(prefix="roambench-"))
    agents = LocalAgents(
        folder.path.resolve(),
        names,
        f"127.0.0.1:{fleet.control_port}",
        authority,
        clock,
        replace(
            _local_settings(experiment),
            agent_cost=agent_cost,
            run_id=folder.info.run_id,
            bench=folder.info.fleet,
            system=folder.info.system,
        ),
        _emulator(experiment, folder.path.resolve(), names, clock, sockets),
        say,
    )
    await fleet.start()
    live.start()
    async with AsyncExitStack() as ending:  # from the last to the first, each also where another one fails
        ending.callback(shutil.rmtree, folder.path / "identity", ignore_errors=True)
        ending.callback(shutil.rmtree, sockets, ignore_errors=True)
        ending.push_async_callback(to_its_end, _forward, live, say)
        ending.push_async_callback(to_its_end, agents.stop)
        ending.push_async_callback(to_its_end, _drain, fleet, agents, folder, say)
        watch.started_s = time.monotonic()
        await agents.start()
        read_here = {
            name: MeterSettings(meter.driver, meter.port)
            for name, meter in experiment.local.meters.items()
            if is_read_here(meter.port)
        } | {name: here(agents.emulated_meter(name)) for name in experiment.local.meter_readers}
        async with agents.watched(), meters_read_here(read_here, folder, clock, fleet, say):
            await _all_ready(watch, names, agents.hopeless)
            rates = LinkRates(experiment.local.download_mbit_s, experiment.local.upload_mbit_s)
            clocks = FleetClocks(fleet, names, clock, experiment.clock.period_s)
            power = LocalPower(agents)
            yield LocalBench(RatedFleet(fleet, rates), clock, watch, clocks, fleet, power, agents)


async def _drain(
    fleet: GrpcFleet, agents: LocalAgents, folder: RunFolder, say: Callable[[str], None]
) -> None:
    late = await fleet.stop("the run is over", _DRAIN_PATIENCE_S, may_return=agents.may_come_back)
    if late:
        say(f"not drained in time: {', '.join(late)} (their spools stay in {folder.path}/agents)")


async def _forward(live: InfluxLive, say: Callable[[str], None]) -> None:
    left = await live.aclose()
    if left:
        say(f"{left} records were not forwarded to InfluxDB in time; the run folder has them")


async def _all_ready(
    watch: Watch, names: tuple[str, ...], hopeless: Mapping[str, str] = MappingProxyType({})
) -> None:
    there, since = (0, 0), AwakeTime()
    while len(watch.ready) < len(names):
        if watch.not_ready:
            name, reason = next(iter(sorted(watch.not_ready.items())))
            raise FleetError(f"{name}: its trainer cannot start: {reason}")
        if hopeless:
            name, reason = next(iter(sorted(hopeless.items())))
            raise FleetError(f"{name}: its agent cannot start: {reason}")
        now = (len(watch.hello_s), len(watch.ready))
        if now != there:
            there = now
            since.restart()
        if since.seconds() > _HELLO_PATIENCE_S:
            missing = ", ".join(sorted(set(names) - watch.ready)[:8])
            raise FleetError(
                f"{len(names) - len(watch.ready)} of {len(names)} agents are not ready, and for "
                f"{_HELLO_PATIENCE_S:.0f} s none more became so: {missing}; see agents/<name>/agent.log in "
                "the run folder"
            )
        await asyncio.sleep(0.05)


def _local_settings(experiment: Experiment) -> LocalSettings:
    local, influxdb = experiment.local, experiment.influxdb
    influx = influx_settings(influxdb)
    if influx is not None:
        influx.token()  # a file that cannot be read is an error before anything starts
    return LocalSettings(
        quiet=experiment.energy.quiet,
        influxdb=influx if influxdb.via == "agents" else None,
        store_at_controller=influx is None or influxdb.store == "both",
        cpu_slowdown=local.cpu_slowdown,
        sgd_step_s=local.sgd_step_s,
        host=experiment.host.settings(),
        witness=local.notes,
        unread=frozenset(local.meter_readers),
        meters={
            name: MeterSettings()
            if is_read_here(meter.port)
            else MeterSettings(meter.driver, meter.port, witness=local.notes)
            for name, meter in local.meters.items()
        },
    )


def _emulator(
    experiment: Experiment, folder: Path, names: tuple[str, ...], clock: DeviceClock, sockets: Path
) -> EmulatorSpec:
    truth = folder / "truth"
    truth.mkdir(exist_ok=True)
    return EmulatorSpec(
        devices=tuple(
            _emulated(experiment, folder, index, name)
            for index, name in enumerate(names)
            if name not in experiment.local.meters
        ),
        tolerance=0.0,
        seed=experiment.seed,
        epoch_ns=clock.epoch_ns,
        time_scale=clock.time_scale,
        ahead_ns=clock.ahead_ns,
        profile=experiment.local.meter_profile,
        interval_ms=experiment.local.meter_interval_ms or None,
        socket_path=str(sockets / "work.sock"),
        truth_dir=str(truth),
        notes=experiment.local.notes,
    )


def _emulated(experiment: Experiment, folder: Path, index: int, name: str) -> EmulatedDevice:
    local = experiment.local
    meters = folder / "meters"
    meters.mkdir(exist_ok=True)
    drawn = generator(experiment.seed, "meter gain", index).standard_normal()
    power = PiPower()
    if local.radio_spread > 0:
        power = power.with_drawn_radio(experiment.seed, index, local.radio_spread)
    stall = Fault(FaultKind.SILENCE, at_s=local.meter_stall_at_s, duration_s=local.meter_stall_s)
    row = profile(local.meter_profiles.get(name, local.meter_profile))
    kernel = Transport.SYSFS in row.lines
    return EmulatedDevice(
        name=name,
        link_path="" if kernel else str(meters / f"{name}.tty"),
        sysfs_dir=str(meters / name) if kernel else "",
        profile=local.meter_profiles.get(name, ""),
        site=local.meter_sites.get(name, ""),
        power=power,
        shape=SHAPES[local.power_shape],
        gain=local.meter_gain * (1.0 + local.meter_gain_sd * float(drawn)),
        faults=(stall,) if local.meter_stall_s > 0 else (),
    )
