"""The same experiment on the hosts of a bench: which host plays which device, and what guards the run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from roambench.contract.errors import ConfigError, RunError
from roambench.controller.agents_run import run_on_agents
from roambench.controller.bench_fleet import bench_fleet
from roambench.controller.bench_gate import energy_doubts, passed_gate
from roambench.controller.bench_options import BenchOptions
from roambench.controller.config.energy_section import CalibratedMeter
from roambench.controller.config.sections import Experiment
from roambench.controller.peer_agents_run import run_peers_on_agents
from roambench.controller.peer_run import PeerWorld
from roambench.controller.world import Movement
from roambench.energy.uncertainty import UNCALIBRATED_SP2
from roambench.provision.bench import Bench, Host, MeterEntry
from roambench.provision.holding import Held, holding
from roambench.provision.inventory import load_bench
from roambench.runs.folder import RunFolder
from roambench.runs.whole_file import write_whole

#: The run folder's own account of where it ran.
BENCH_FILE: Final = "bench.json"


@dataclass(frozen=True, slots=True)
class BenchPlace:
    """A bench that is ours for these runs: device k of the experiment is played by `hosts[k]`."""

    bench: Bench
    hosts: tuple[Host, ...]
    experiment: Experiment  # with the hosts' calibrations
    doubts: tuple[str, ...]  # what the report must say first
    held: Held

    @property
    def names(self) -> list[str]:
        return [host.name for host in self.hosts]

    def to_json(self) -> str:
        hosts = [
            {"device": index, **_host_values(host), "emulated_meter": host.meter.emulated}
            for index, host in enumerate(self.hosts)
        ]
        file = str(self.bench.file.resolve())
        values = {"bench": self.bench.name, "file": file, "hosts": hosts, "doubts": list(self.doubts)}
        return json.dumps(values, indent=2, ensure_ascii=False) + "\n"


@contextmanager
def bench_place(
    experiment: Experiment, file: str, options: BenchOptions, console: Console, *, baselines: bool = True
) -> Iterator[BenchPlace]:
    """Hold the bench of `file` for the body: leased, and past its gate. `baselines`: idling is measured
    before and after.

    ConfigError lists what is wrong with the file or does not fit; FleetError says who holds the bench, or
    which host fails the preflight.
    """
    bench = load_bench(Path(file))
    hosts, experiment, missing = taking_part(experiment, bench, options.only)
    doubts = [missing] if missing else []
    if missing:
        console.print(f"[yellow]{missing}: the busiest {len(hosts)} take part[/]", highlight=False)
    tell = partial(console.print, markup=False, highlight=False, soft_wrap=True)
    with holding(bench, f"run {experiment.name}", options.wait_s, tell) as held:
        doubts += passed_gate(
            bench, hosts, preflight=options.preflight, unproven=options.unproven, console=console
        )
        doubts += energy_doubts(experiment.energy, hosts, console, baselines=baselines)
        yield BenchPlace(bench, hosts, calibrated(experiment, hosts), tuple(doubts), held)


@contextmanager
def bench_again(
    experiment: Experiment, folder: RunFolder, wait_s: float, console: Console
) -> Iterator[BenchPlace]:
    """Hold the bench of a run that goes on, for the body: the same hosts, as the same devices.

    RunError where its file no longer has them; FleetError says who holds the bench. Nothing that the run
    passed or measured before its first step is done again: its boards are in it still.
    """
    bench = load_bench(bench_file_of(folder.path))
    by_name = {host.name: host for host in bench.hosts}
    gone = [name for name in folder.info.device_names if name not in by_name]
    if gone:
        raise RunError(f"{folder.path}: cannot be resumed: {bench.file} has no {', '.join(gone)} any more")
    hosts = tuple(by_name[name] for name in folder.info.device_names)
    tell = partial(console.print, markup=False, highlight=False, soft_wrap=True)
    with holding(bench, f"resume {folder.path.name}", wait_s, tell) as held:
        yield BenchPlace(bench, hosts, experiment, (), held)


def bench_file_of(path: Path) -> Path:
    """Which file describes the bench that the run in the folder is made on; RunError where nobody knows."""
    try:
        file = Path(json.loads((path / BENCH_FILE).read_text())["file"])
    except (OSError, ValueError, KeyError, TypeError):
        raise RunError(f"{path / BENCH_FILE}: does not tell which file describes the bench") from None
    return file


def taking_part(
    experiment: Experiment, bench: Bench, only: Sequence[str]
) -> tuple[tuple[Host, ...], Experiment, str]:
    """The hosts that play the experiment's devices, by slot, the experiment with as many devices, and what to
    say where the bench has fewer than it asks for. ConfigError where nobody takes part."""
    hosts = tuple(sorted(bench.only(only), key=lambda host: host.slot))
    missing = ""
    wanted = experiment.fleet.agents
    if wanted > len(hosts) or not wanted:
        asked = f"{wanted} devices" if wanted else "all devices of the trace"
        missing = f"the experiment asks for {asked}; bench {bench.name} has {len(hosts)} hosts for it"
        fleet = experiment.fleet.model_copy(update={"agents": len(hosts)})
        experiment = experiment.model_copy(update={"fleet": fleet})
    hosts = hosts[: experiment.fleet.agents]
    if not hosts:
        raise ConfigError([f"{bench.file.name}: no host takes part"])
    return hosts, experiment, missing


async def run_bench(
    place: BenchPlace,
    system: str,
    movement: Movement,
    folder: RunFolder,
    console: Console,
    outage_s: float = 0.0,
) -> None:
    """Run `system` on the bench's agents into `folder`, to the exported ledger; or go on with it, `outage_s`
    after its controller died."""
    experiment = place.experiment
    _note(place, folder)
    await run_on_agents(
        experiment,
        system,
        movement,
        folder,
        console,
        lambda lesson, found: bench_fleet(
            experiment,
            lesson,
            folder,
            place.bench,
            place.hosts[: len(lesson.parts)],
            console,
            checkpoints=found,
        ),
        outage_s=outage_s,
    )
    tell_lost_lease(place, folder)


async def run_peers_bench(
    place: BenchPlace,
    world: PeerWorld,
    system: str,
    folder: RunFolder,
    console: Console,
    outage_s: float = 0.0,
) -> None:
    """The same for a system without a server: the agents exchange their models with each other."""
    _note(place, folder)
    hosts = place.hosts[: len(world.lesson.parts)]
    await run_peers_on_agents(
        world,
        system,
        folder,
        console,
        lambda found: bench_fleet(
            world.experiment, world.lesson, folder, place.bench, hosts, console, checkpoints=found
        ),
        outage_s=outage_s,
    )
    tell_lost_lease(place, folder)


def _note(place: BenchPlace, folder: RunFolder) -> None:
    """Where it runs; in a run that goes on it is noted already."""
    if not (folder.path / BENCH_FILE).exists():
        write_whole(folder.path / BENCH_FILE, place.to_json())


def tell_lost_lease(place: BenchPlace, folder: RunFolder) -> None:
    """Whoever reads the run later has to know, too."""
    if not place.held.still():
        lost = "the bench's lease was lost while it ran: another user may have run on the same boards"
        folder.update(doubts=(*folder.info.doubts, lost))


def calibrated(experiment: Experiment, hosts: tuple[Host, ...]) -> Experiment:
    """The experiment with the bench's gains and offsets, for meters that it has no table of its own for."""
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
    return CalibratedMeter(
        gain=1.0 / meter.gain,
        offset_w=-meter.offset_watts / meter.gain,
        u_gain=UNCALIBRATED_SP2.u_gain,
        u_offset_w=UNCALIBRATED_SP2.u_offset_w,
        date="",
        reference="",
        u_reference=0.0,
    )


def _host_values(host: Host) -> dict[str, Any]:
    meter = asdict(host.meter)
    return {"host": host.name, "address": host.address, "slot": host.slot, "meter": meter}
