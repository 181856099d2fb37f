"""The hosts of a bench: which plays which device, and what guards a run on them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

from rich.console import Console

from roambench.agent.orders.program_process import hidden_from_programs
from roambench.contract.counts import count
from roambench.contract.errors import ConfigError, RoambenchError, RunError
from roambench.contract.json_values import from_values, kept_in
from roambench.experiment.energy_section import CalibratedMeter
from roambench.experiment.sections import Experiment
from roambench.meters.traits import MeterTraits
from roambench.provision.bench import CONTROLLER_READER, NO_METER, Bench, Host, MeterEntry
from roambench.provision.inventory.load import load_bench
from roambench.provision.leases.holding import Expects, HeldLease, holding, nobody_knows
from roambench.provision.power.table import SWITCHES
from roambench.provision.wheels.program_kit import ProgramKit
from roambench.provision.wheels.user_packages import kept_packages
from roambench.runner.agents.agent_bench import AgentBench
from roambench.runner.agents.checkpoints import PUT_BACK, Checkpoints
from roambench.runner.bench_options import BenchOptions
from roambench.runner.benches.bench_fleet import bench_fleet
from roambench.runner.benches.bench_gate import claim_doubts, energy_doubts, passed_gate
from roambench.runner.foreign_code import needed_on_boards
from roambench.runner.influx_live import influx_settings, write_joules
from roambench.runner.places.place import dither_s_at
from roambench.runner.places.ready_agents import ready_agents
from roambench.runner.program_kits import kit_of
from roambench.runner.screen import say, warn
from roambench.runner.system_runs.decentralised import is_decentralised
from roambench.runner.system_runs.ready_fleet import ReadyFleet
from roambench.runner.system_runs.system_run import FleetNeeds, World
from roambench.runner.world import LearningTask
from roambench.runs.doubts import LEASE_LOST
from roambench.runs.fleet_kinds import FLEET_KINDS, FleetKind
from roambench.runs.folder import RunFolder
from roambench.runs.whole_file import write_whole
from roambench.spool.influx_settings import InfluxSettings

#: The run folder's own account of where it ran.
BENCH_FILE: Final = "bench.json"


@dataclass(frozen=True, slots=True)
class BenchPlace:
    """Device k of the experiment is played by `hosts[k]`.

    `experiment` has as many devices, and the hosts' calibrations. `missing` says which devices it has no host
    for, `fewer_by` which boards were left out that would have played one. `resumed`: the run folder that goes
    on here, whose boards are in it still. `lease`: while it is held. `kit`: the program that plays the run,
    as boards have to have it.
    """

    bench: Bench
    hosts: tuple[Host, ...]
    experiment: Experiment
    options: BenchOptions
    missing: str = ""
    resumed: str = ""
    doubts: tuple[str, ...] = ()
    fewer_by: tuple[str, ...] = ()
    lease: HeldLease | None = None
    kit: ProgramKit | None = None
    kind: ClassVar[FleetKind] = FLEET_KINDS["bench"]
    time_scale: ClassVar[float] = 1.0

    @classmethod
    def of(cls, experiment: Experiment, file: str, options: BenchOptions) -> BenchPlace:
        """The hosts of the bench in `file` that take part, with their calibrations. ConfigError for a
        wrong file."""
        bench = load_bench(Path(file))
        hosts, fitting, missing = taking_part(experiment, bench, options)
        whole, _, _ = taking_part(experiment, bench, replace(options, left_out=()))
        _with_readers(bench, hosts)
        if experiment.battery.capacity_wh:
            _with_batteries(bench, hosts, cuts=experiment.battery.cut == "power")
        fewer_by = options.left_out if len(hosts) < len(whole) else ()
        return cls(
            bench,
            hosts,
            calibrated(fitting, hosts),
            options,
            missing,
            fewer_by=fewer_by,
            kit=kit_of(experiment),
        )

    @classmethod
    def again(cls, experiment: Experiment, folder: RunFolder, options: BenchOptions) -> BenchPlace:
        """The same hosts, as the same devices. RunError where the bench's file no longer has them."""
        bench = load_bench(bench_file_of(folder.path))
        by_name = {host.name: host for host in bench.hosts}
        gone = [name for name in folder.info.device_names if name not in by_name]
        if gone:
            raise RunError(
                f"{folder.path}: cannot be resumed: {bench.file} has no {', '.join(gone)} any more"
            )
        hosts = tuple(by_name[name] for name in folder.info.device_names)
        if other := _with_other_meters(folder.path, hosts):
            raise RunError(
                f"{folder.path}: cannot be resumed: {bench.file} gives {', '.join(other)} another meter than "
                f"it had when the run began; {PUT_BACK}"
            )
        return cls(bench, hosts, experiment, options, resumed=folder.path.name)

    @property
    def without_meter(self) -> tuple[str, ...]:
        """Hosts whose description gives them no meter."""
        return tuple(host.name for host in self.hosts if host.meter.driver == NO_METER)

    @property
    def meters(self) -> Mapping[str, MeterTraits]:
        """Traits of the hosts' meters, as the bench describes them."""
        return {host.name: host.meter.traits for host in self.hosts if host.meter.driver != NO_METER}

    @property
    def meter_serials(self) -> Mapping[str, str]:
        """Serial numbers of the hosts' meters, as the bench describes them."""
        return {host.name: host.meter.known_serial for host in self.hosts}

    def names(self, devices: int) -> tuple[str, ...]:
        """Names of the first `devices` hosts by their slot in the inventory."""
        return tuple(host.name for host in self.hosts[:devices])

    def is_of(self, folder: RunFolder) -> bool:
        """Return whether the run was made on these hosts, in this order, of the same inventory file."""
        try:
            file = bench_file_of(folder.path)
        except RunError:  # of a version whose runs could not go on
            return False
        return folder.info.device_names == self.names(len(self.hosts)) and file == self.bench.file.resolve()

    @contextmanager
    def held(
        self, console: Console, *, baselines: bool = True, expects: Expects = nobody_knows
    ) -> Iterator[BenchPlace]:
        """Leased, and past its gate; where a run goes on nothing but whose the boards are is asked again,
        and nothing measured: they are in it still."""
        report = partial(say, console)
        purpose = f"resume {self.resumed}" if self.resumed else f"run {self.experiment.name}"
        if self.missing:
            taking = f"the busiest {len(self.hosts)} take part"
            warn(console, f"{self.missing}: {taking}")
        names = self.names(len(self.hosts))
        with holding(
            self.bench, purpose, report, self.options.wait_s, expects=expects, boards=names
        ) as lease:
            beside = tuple(f"on the same network worked, when it began: {line}" for line in lease.beside)
            for doubt in beside:
                warn(console, doubt)
            if self.resumed:
                doubts = tuple(claim_doubts(self.bench, self.hosts, console))
            else:
                doubts = self._gated(console, baselines=baselines)
            with hidden_from_programs(self.bench.secrets):
                yield replace(self, doubts=(*beside, *doubts), lease=lease)

    def _gated(self, console: Console, *, baselines: bool) -> tuple[str, ...]:
        options = self.options
        return (
            *([self.missing] if self.missing else []),
            *passed_gate(
                self.bench,
                self.hosts,
                preflight=options.preflight,
                unproven=options.unproven,
                console=console,
                needed=needed_on_boards(
                    self.experiment, {host.meter.driver for host in self.hosts if not host.meter.is_read_here}
                )
                if options.preflight
                else {},
                peers=is_decentralised(self.experiment),
                kit=self.kit,
            ),
            *energy_doubts(self.experiment.energy, self.hosts, console, baselines=baselines),
        )

    def note(self, path: Path) -> None:
        """Write `bench.json`: the inventory's path, every device's host and meter, the checks waived."""
        hosts = [
            {"device": index, **_host_values(host), "emulated_meter": host.meter.emulated}
            for index, host in enumerate(self.hosts)
        ]
        file = str(self.bench.file.resolve())
        influx = self.bench.influxdb
        values = {
            "bench": self.bench.name,
            "file": file,
            "hosts": hosts,
            "doubts": list(self.doubts),
            "influxdb": influx and {name: getattr(influx, name) for name in ("url", "bucket", "org", "api")},
            "program": self.kit and self.kit.as_json(),
            "packages": [package.pin for package in kept_packages(self.bench.state_dir)],
        }
        write_whole(path / BENCH_FILE, json.dumps(values, indent=2, ensure_ascii=False) + "\n")

    def agents(
        self,
        experiment: Experiment,
        learning_task: LearningTask,
        folder: RunFolder,
        console: Console,
        *,
        agent_cost: bool = False,
    ) -> AbstractAsyncContextManager[AgentBench]:
        """Real boards always draw what their agents compute."""
        return bench_fleet(experiment, learning_task, folder, self.bench, self.hosts, console)

    def ready_fleet(
        self,
        world: World,
        needs: FleetNeeds,
        folder: RunFolder,
        console: Console,
        checkpoints: Checkpoints | None,
    ) -> AbstractAsyncContextManager[ReadyFleet]:
        """The agents of the hosts that the run's devices need."""
        hosts = self.hosts[: len(world.learning_task.parts)]
        task = world.learning_task
        if self.kit is not None:
            where, python = self.kit.folder, self.kit.python
            there = tuple(replace(one, folder=where, python=python) for one in task.programs)
            task = replace(task, programs=there)
        agents = bench_fleet(
            world.experiment, task, folder, self.bench, hosts, console, checkpoints=checkpoints
        )
        return ready_agents(world, folder, agents, dither_s_at(self))

    def finished(self, folder: RunFolder, console: Console) -> None:
        """Write the joules of phases to the run's InfluxDB, if it has one; note a lease that was lost."""
        settings = influx_settings(self.experiment.influxdb) or self.bench.influxdb
        write_joules(folder, settings, self.bench.name, partial(warn, console))
        if self.lease is not None and not self.lease.still():
            folder.doubt(LEASE_LOST)


def _with_other_meters(path: Path, hosts: Sequence[Host]) -> list[str]:
    """Hosts whose meter has another driver, port or serial number than the run in the folder noted."""
    noted = (kept_in(dict[str, Any], path / BENCH_FILE) or {}).get("hosts")
    before = {row.get("host"): row.get("meter") for row in noted if isinstance(row, dict)} if noted else {}
    return [
        host.name
        for host in hosts
        if isinstance(meter := before.get(host.name), dict)
        and any(
            meter.get(key, "") != getattr(host.meter, key) for key in ("driver", "port", "serial", "host")
        )
    ]


def bench_file_of(path: Path) -> Path:
    """Return which file describes the bench that the run in the folder is made on; RunError where it is
    unknown."""
    file = (kept_in(dict[str, object], path / BENCH_FILE) or {}).get("file")
    if not isinstance(file, str):
        raise RunError(f"{path / BENCH_FILE}: does not tell which file describes the bench")
    return Path(file)


def influxdb_of(path: Path) -> InfluxSettings | None:
    """The InfluxDB that the boards of the run in the folder wrote to by their bench; None without one."""
    noted = kept_in(dict[str, Any], path / BENCH_FILE)
    if noted is None:
        return None
    if "influxdb" not in noted:  # a run of an earlier version
        return load_bench(bench_file_of(path)).influxdb
    values = noted["influxdb"]
    return from_values(InfluxSettings, values, f"{path / BENCH_FILE}: influxdb") if values else None


def taking_part(
    experiment: Experiment, bench: Bench, options: BenchOptions
) -> tuple[tuple[Host, ...], Experiment, str]:
    """The hosts that play the experiment's devices, by slot, the experiment with as many devices, and what to
    say where the bench has fewer than it asks for. ConfigError where no host takes part."""
    hosts = tuple(
        host
        for host in sorted(bench.only(options.only), key=lambda host: host.slot)
        if host.name not in options.left_out and not options.waits(host)
    )
    missing = ""
    wanted = experiment.fleet.agents
    if wanted > len(hosts) or not wanted:
        asked = count(wanted, "device") if wanted else "all devices of the trace"
        has = f"bench {bench.name} has {count(len(hosts), 'host')} for it"
        missing = f"the experiment asks for {asked}; {has}"
        fleet = experiment.fleet.model_copy(update={"agents": len(hosts)})
        experiment = experiment.model_copy(update={"fleet": fleet})
    hosts = hosts[: experiment.fleet.agents]
    if not hosts:
        raise ConfigError([f"{bench.file.name}: no host takes part"])
    return hosts, experiment, missing


def calibrated(experiment: Experiment, hosts: tuple[Host, ...]) -> Experiment:
    """The experiment with the bench's gains and offsets, for meters without their own table."""
    known = experiment.energy.meters
    found = {
        serial or host.name: entry
        for host in hosts
        for serial in [host.meter.known_serial]
        if host.name not in known and serial not in known
        if (entry := calibration_of(host.meter)) is not None
    }
    if not found:
        return experiment
    energy = experiment.energy.model_copy(update={"meters": {**known, **found}})
    return experiment.model_copy(update={"energy": energy})


def calibration_of(meter: MeterEntry) -> CalibratedMeter | None:
    """The bench file's `true = gain x reading + offset` as the ledger has it: reading = gain x true + offset.

    None where the file says nothing (gain 1, offset 0). How uncertain they are the file does not say: they
    keep the type's uncertainty.
    """
    if (meter.gain, meter.offset_watts) == (1.0, 0.0):
        return None
    row = meter.traits
    return CalibratedMeter(
        gain=1.0 / meter.gain,
        offset_w=-meter.offset_watts / meter.gain,
        u_gain=row.u_gain,
        u_offset_w=row.u_offset_w,
        date="",
        reference="",
        u_reference=0.0,
    )


def _host_values(host: Host) -> dict[str, Any]:
    meter = asdict(host.meter)
    return {"host": host.name, "address": host.address, "slot": host.slot, "meter": meter}


def _with_batteries(bench: Bench, hosts: tuple[Host, ...], *, cuts: bool) -> None:
    """ConfigError for boards that cannot be on batteries: nothing measures them, or nothing can cut their
    power, or other boards' joules would be lost with it."""
    mistakes = []
    for host in hosts:
        where = f"{bench.file.name}: {host.name}: [battery]"
        if host.meter.driver == NO_METER:
            mistakes.append(f"{where}: no meter says what leaves its battery: leave {host.name} out")
        if not cuts:
            continue
        others = ", ".join(other.name for other in bench.read_by(host) if other in hosts)
        if others:
            mistakes.append(
                f'{where}: it reads the meter of {others}, so its power must stay: cut = "absent"'
            )
        try:
            SWITCHES.load(host.power.switch).switch(host.power.keys, host)
        except RoambenchError as error:
            mistakes.append(f'{where}: its power cannot be cut ({error}), else expected cut = "absent"')
    if mistakes:
        raise ConfigError(mistakes)


def _with_readers(bench: Bench, hosts: Sequence[Host]) -> None:
    """ConfigError for boards whose meters hang on hosts that take no part: their joules would be lost."""
    names = {host.name for host in hosts}
    lost = [
        f"{bench.file.name}: {host.name}: its meter hangs on {host.reader}, which takes no part in the "
        f"run: add it, or leave {host.name} out"
        for host in hosts
        if host.reader not in (*names, CONTROLLER_READER)
    ]
    if lost:
        raise ConfigError(lost)
