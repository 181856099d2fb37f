"""The agents of a bench while one run lasts: found, given their data, waited for, and let go at the end."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.table import Table

from roambench.contract.addresses import host_port
from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import FleetError, HostsFailed, RoambenchError
from roambench.contract.stillness import AwakeTime
from roambench.experiment.sections import Experiment
from roambench.fleet.grpc_fleet import FleetSettings, GrpcFleet
from roambench.fleet.shards import ShippedShard
from roambench.provision.bench import CONTROLLER_READER, Bench, Host
from roambench.provision.certificates import BenchAuthority
from roambench.provision.meters_here import METERS
from roambench.provision.power.power_command import PowerCommand
from roambench.provision.power.switching import switch_power
from roambench.rounds.records import ClockProbed
from roambench.runner.agents.agent_bench import AgentBench
from roambench.runner.agents.agent_checkpoints import (
    behind_boards_ns,
    clock_again,
    was_booted,
)
from roambench.runner.agents.checkpoints import Checkpoints
from roambench.runner.agents.clocks import FleetClocks
from roambench.runner.agents.host_meters import meters_read_here
from roambench.runner.agents.watch import Watch, observe, report
from roambench.runner.benches.void_proofs import void_proofs
from roambench.runner.influx_live import InfluxLive, influx_note, influx_settings
from roambench.runner.screen import say, warn
from roambench.runner.stopping import to_its_end
from roambench.runner.system_runs.decentralised import is_decentralised
from roambench.runner.world import LearningTask, learning_spec, save_shards
from roambench.runs.doubts import BY_THE_WALL_CLOCK
from roambench.runs.folder import RunFolder

#: Agents dial every 10 s; then each fetches its data and imports torch, half a minute on a Pi 3B+. This long
#: none may come, or come further, before it is an error: over a slow network they come one after the other.
HELLO_PATIENCE_S: Final = 120.0
READY_PATIENCE_S: Final = 600.0
#: More where the controller's machine was booted: boards that were, too, first wait 180 s for the time.
BOOT_PATIENCE_S: Final = 240.0
_DRAIN_PATIENCE_S: Final = 60.0
_LOOK_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Patience:
    """Host seconds in which one more host says hello, one more fetches its data or has its trainer ready; and
    for all to drain at the end."""

    hello_s: float = HELLO_PATIENCE_S
    ready_s: float = READY_PATIENCE_S
    drain_s: float = _DRAIN_PATIENCE_S


@dataclass(frozen=True, slots=True)
class HostPower:
    """`BoardPower` of a bench: each host's own switch (`fleet power`)."""

    hosts: tuple[Host, ...]
    patience_s: float = HELLO_PATIENCE_S + READY_PATIENCE_S

    async def switch(self, names: Sequence[str], *, on: bool) -> Mapping[str, str]:
        """Cut or give the power of these hosts; return what their switches said, of those that failed."""
        chosen = [host for host in self.hosts if host.name in names]
        done = await switch_power(chosen, PowerCommand.ON if on else PowerCommand.OFF)
        return {one.host.name: one.reason for one in done if not one.done}


@asynccontextmanager
async def bench_fleet(
    experiment: Experiment,
    learning_task: LearningTask,
    folder: RunFolder,
    bench: Bench,
    hosts: tuple[Host, ...],
    console: Console,
    patience: Patience = Patience(),
    checkpoints: Checkpoints | None = None,
) -> AsyncIterator[AgentBench]:
    """Serve the bench's ports to the agents of `hosts` (device k is the k-th), then stop and drain them.
    Those of a run that goes on by `checkpoints` go back to what they held before its first step.

    Raises FleetError naming the hosts that did not come, and what to do.
    """
    names = folder.info.device_names
    found = checkpoints.found if checkpoints is not None else None
    clock = DeviceClock() if found is None else clock_again(found.fleet, 1.0, folder.path)
    settled = found is None or not was_booted(found.fleet)
    shards = _shards(learning_task, folder.path / "shards", names)
    watch = Watch(folder)
    tell = partial(warn, console)
    if note := influx_note(experiment.influxdb):
        tell(note)
    live = InfluxLive(
        folder,
        influx_settings(experiment.influxdb) or bench.influxdb,
        bench.name,
        clock,
        partial(report, watch, tell),
        forwards=experiment.influxdb.via == "controller" and bool(experiment.influxdb.url),
    )

    def clock_probed(record: ClockProbed) -> None:
        if settled:
            watch.clock_probed(record)
            live.clock_probed(record)

    fleet = GrpcFleet(
        FleetSettings(
            run_id=folder.info.run_id,
            names=names,
            learning=tuple(
                learning_spec(experiment, learning_task, shards[device].reference if shards else "", device)
                for device in range(len(names))
            ),
            layout=learning_task.layout.fingerprint,
            shapes=learning_task.layout.shapes,
            deadline_s=experiment.fleet.deadline_s,
            listen_host=bench.controller.listen_host,
            control_port=bench.controller.control_port,
            data_port=bench.controller.data_port,
            data_host=bench.controller.address,
            rest_s=folder.info.rest_s,
            quiet=experiment.energy.quiet,
            host=experiment.host.settings(),
            shards=shards,
            exchanges=is_decentralised(experiment),
            reads_for={host.name: [other.name for other in bench.read_by(host)] for host in hosts},
            addresses=tuple(host.address for host in hosts),
            part=checkpoints.part if checkpoints is not None else 0,
            resumes_at=found.next_step if found is not None else 0,
            bench=bench.name,
            system=folder.info.system,
        ),
        BenchAuthority(bench.state_dir).fleet_identity(),
        clock,
        watch.store,
        partial(observe, watch, tell),
        clock_observer=clock_probed,
        together=watch.together,
    )
    await fleet.start()
    live.start()
    try:
        watch.started_s = time.monotonic()
        if not settled:  # the boards may have lost their power with this machine
            patience = replace(patience, hello_s=patience.hello_s + BOOT_PATIENCE_S)
        read_here = {host.name: host.meter.settings for host in hosts if host.reader == CONTROLLER_READER}
        latches = bench.state_dir / METERS
        async with meters_read_here(read_here, folder, clock, fleet, tell, latches):
            await _all_ready(watch, bench, hosts, console, patience)
            if not settled:
                await _settle(clock, fleet, folder)
                settled = True
            clocks = FleetClocks(fleet, names, clock, experiment.clock.period_s)
            yield AgentBench(fleet, clock, watch, clocks, fleet, HostPower(hosts))
    finally:
        try:
            bench_and_run = shlex.join([str(bench.file), str(folder.path)])
            await to_its_end(drain, fleet, patience.drain_s, bench_and_run, tell)
        finally:
            await to_its_end(_forward, live, tell)
            try:
                void_proofs(bench, hosts, folder, clock)
            except RoambenchError as error:
                tell(f"whether each meter is still its board's own is not noted: {error}")


async def _settle(clock: DeviceClock, fleet: GrpcFleet, folder: RunFolder) -> None:
    """This machine was booted: its clock goes on where those of boards that lived on say that it would be."""
    behind_ns = behind_boards_ns(folder.read_log().only(ClockProbed), await fleet.probe_clocks("hello"))
    if behind_ns is None:
        folder.doubt(BY_THE_WALL_CLOCK)
    else:
        clock.put_forward(behind_ns)


async def drain(fleet: GrpcFleet, drain_s: float, bench_and_run: str, say: Callable[[str], None]) -> None:
    """End the fleet's run; whose records stay behind is said, with how to get them."""
    late = await fleet.stop("the run is over", drain_s)
    if late:
        say(
            f"not drained in time: {', '.join(late)} (their records stay on the hosts: roambench fleet fetch "
            f"{bench_and_run}, which ends a run there that is still to be resumed)"
        )


async def _forward(live: InfluxLive, say: Callable[[str], None]) -> None:
    left = await live.aclose()
    if left:
        say(f"{left} records were not forwarded to InfluxDB in time; the run folder has them")


def _shards(learning_task: LearningTask, folder: Path, names: tuple[str, ...]) -> tuple[ShippedShard, ...]:
    """Every device's part of the training set as a file of the run's, for the agents to fetch; none
    where programs bring their data."""
    if learning_task.programs:
        return ()
    files = save_shards(learning_task, {index: folder / name for index, name in enumerate(names)})
    return tuple(ShippedShard.of(files[index]) for index in range(len(names)))


async def _all_ready(
    watch: Watch, bench: Bench, hosts: tuple[Host, ...], console: Console, patience: Patience
) -> None:
    """Return as soon as every host is ready; a table follows who is where."""
    with arrivals(console, watch, hosts) as show:
        await _wait(
            lambda: len(watch.hello_s) >= len(hosts),
            lambda: len(watch.hello_s),
            patience.hello_s,
            show,
            lambda: _absent(bench, hosts, watch, patience.hello_s),
        )
        await _wait(
            lambda: bool(watch.not_ready or watch.not_resuming) or len(watch.ready) >= len(hosts),
            lambda: len(watch.fetching) + len(watch.ready),
            patience.ready_s,
            show,
            lambda: _unready(bench, hosts, watch, patience.ready_s),
        )
    if watch.not_resuming:
        raise HostsFailed(
            sorted(watch.not_resuming),
            f"{', '.join(sorted(watch.not_resuming))}: nothing of the run is left there to go on from "
            "(another run was there since, it was ended by hand, or the card is another): start a new run "
            "(--fresh)",
        )
    if watch.not_ready:
        named = "; ".join(f"{name}: {reason}" for name, reason in sorted(watch.not_ready.items()))
        raise HostsFailed(
            sorted(watch.not_ready),
            f"trainers that cannot start: {named}; "
            f"try roambench fleet preflight {shlex.quote(str(bench.file))}",
        )


async def _wait(
    done: Callable[[], bool],
    came: Callable[[], int],
    patience_s: float,
    show: Callable[[], None],
    error: Callable[[], FleetError],
) -> None:
    """Return as soon as it is `done`; raise the error where `came` has not grown for `patience_s`."""
    before, since = came(), AwakeTime()
    while not done():
        if came() != before:
            before = came()
            since.restart()
        if since.seconds() > patience_s:
            raise error()
        show()
        await asyncio.sleep(_LOOK_S)
    show()


def _absent(bench: Bench, hosts: tuple[Host, ...], watch: Watch, patience_s: float) -> FleetError:
    missing = [host for host in hosts if host.name not in watch.hello_s]
    where = host_port(bench.controller.address, bench.controller.control_port)
    reasons = "".join(
        f"; {name}: {reason}" for name, reason in sorted(watch.refused.items()) if name not in watch.hello_s
    )
    return HostsFailed(
        [host.name for host in missing],
        f"{len(missing)} of {len(hosts)} hosts did not dial {where}, and for {patience_s:.0f} s none more "
        f"did: {', '.join(host.name for host in missing)}{reasons}; next: roambench fleet status "
        f"{shlex.quote(str(bench.file))} (is the agent up?), roambench fleet logs, and that a firewall lets "
        "the hosts reach this address",
    )


def _unready(bench: Bench, hosts: tuple[Host, ...], watch: Watch, patience_s: float) -> FleetError:
    missing = [host.name for host in hosts if host.name not in watch.ready]
    return HostsFailed(
        missing,
        f"{len(missing)} of {len(hosts)} hosts have no trainer ready, and for {patience_s:.0f} s none more "
        f"became so: {', '.join(missing)}; next: roambench fleet logs {shlex.quote(str(bench.file))} "
        f"--only {missing[0]}",
    )


@contextmanager
def arrivals(console: Console, watch: Watch, hosts: tuple[Host, ...]) -> Iterator[Callable[[], None]]:
    """Progress while a run waits for all hosts: yields what draws the present state; without a terminal a
    line tells when a host comes."""
    if console.is_terminal:
        with Live(console=console, refresh_per_second=4, transient=True) as live:
            yield lambda: live.update(_table(watch, hosts))
        return
    named: set[str] = set()

    def show() -> None:
        for host in hosts:
            if host.name in watch.ready and host.name not in named:
                named.add(host.name)
                waited_s = time.monotonic() - watch.started_s
                say(console, f"{host.name} is ready after {waited_s:.1f} s")

    yield show


def _table(watch: Watch, hosts: tuple[Host, ...]) -> Table:
    table = Table("slot", "host", "address", "state", "connected after")
    for host in hosts:
        hello_s = watch.hello_s.get(host.name)
        came = "" if hello_s is None else f"{hello_s:.1f} s"
        table.add_row(str(host.slot), host.name, host.address, state_of(watch, host.name), came)
    return table


def state_of(watch: Watch, name: str) -> str:
    """In a word or two, for the table."""
    if name in watch.ready:
        return "ready"
    if name in watch.not_ready:
        return f"cannot train: {watch.not_ready[name]}"
    if name in watch.fetching:
        return "fetching its data"
    if name in watch.hello_s:
        return "warming up"
    return watch.refused.get(name, "not here yet")
