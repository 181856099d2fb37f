"""Meters that `roambench meter emulate` runs: what was asked for, as a spec, and serving it to the end."""

from __future__ import annotations

import asyncio
import json
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import typer

from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import ConfigError
from roambench.emulation import control
from roambench.emulation.drivers import driver_of, reader
from roambench.emulation.electric.power import IDLE, Activity
from roambench.emulation.fault_list import parse_faults
from roambench.emulation.profiles import FirmwareProfile, Transport, profile
from roambench.emulation.server import EmulatorServer
from roambench.emulation.spec import EmulatedDevice, EmulatorSpec, Fault
from roambench.emulation.truth import read_truth

SOCKET: Final = "emulator.sock"

#: A load's name -> (device seconds, activity), repeated.
LOADS: Final[dict[str, tuple[tuple[float, Activity], ...]]] = {
    "idle": ((3600.0, IDLE),),
    "train": ((3600.0, Activity(busy_cores=1.0)),),
    "cycle": (
        (10.0, IDLE),
        (5.0, Activity(busy_cores=0.3, rx_mbit_s=20.0)),
        (20.0, Activity(busy_cores=1.0)),
        (5.0, Activity(busy_cores=0.3, tx_mbit_s=20.0)),
    ),
}


@dataclass(frozen=True, slots=True)
class Wish:
    """The command line's wishes."""

    profile: str
    devices: int
    faults: str
    seed: int
    time_scale: float
    interval_ms: int | None
    udp_to: str
    autorun: bool
    boot: bool
    window_ms: float = 0.0
    held_ms: float = 0.0
    pace_ppm: float | None = None

    def spec(self, folder: Path, clock: DeviceClock) -> EmulatorSpec:
        """The emulator that does it, in `folder`; ConfigError lists everything that is wrong."""
        problems: list[str] = []
        faults: tuple[Fault, ...] = ()
        try:
            row = profile(self.profile)
            row.period(self.interval_ms)
        except ConfigError as error:
            problems += error.problems
        try:
            faults = parse_faults(self.faults, "--faults")
        except ConfigError as error:
            problems += error.problems
        if problems:
            raise ConfigError(problems)
        spec = EmulatorSpec(
            devices=tuple(self._device(row, folder, number, faults) for number in range(1, self.devices + 1)),
            socket_path=str(folder / SOCKET),
            truth_dir=str(folder),
            seed=self.seed,
            epoch_ns=clock.epoch_ns,
            time_scale=clock.time_scale,
            profile=row.name,
            boots=self.boot,
            interval_ms=self.interval_ms,
        )
        return EmulatorSpec.from_json(spec.to_json(), "meter emulate")

    def _device(
        self, row: FirmwareProfile, folder: Path, number: int, faults: tuple[Fault, ...]
    ) -> EmulatedDevice:
        """Every way that the firmware has; of several meters each sends its datagrams to the next port."""
        host, _, port = self.udp_to.rpartition(":")
        udp_to = f"{host}:{int(port) + number - 1}" if port.isdecimal() else self.udp_to
        name = f"meter-{number:02d}"
        return EmulatedDevice(
            name,
            link_path=str(folder / f"{name}.tty") if Transport.SERIAL in row.lines else "",
            telnet_port=0 if Transport.TELNET in row.lines else None,
            websocket_port=0 if Transport.WEBSOCKET in row.lines else None,
            udp_to=udp_to if Transport.UDP in row.lines else "",
            sysfs_dir=str(folder / name) if Transport.SYSFS in row.lines else "",
            autorun=self.autorun,
            faults=faults,
            ppm=self.pace_ppm,
            window_ms=self.window_ms,
            held_ms=self.held_ms,
        )


def run(wish: Wish, folder: Path, load: str, seconds: float | None, *, as_json: bool = False) -> None:
    """Emulate until Ctrl-C, or for so much device time; ConfigError lists everything wrong with the wish."""
    clock = DeviceClock(time.monotonic_ns(), wish.time_scale)
    asyncio.run(_serve(wish.spec(folder.resolve(), clock), clock, load, seconds, as_json))


def let_happen(folder: Path, faults: str, meter: str) -> None:
    """Faults for one meter of the emulator in `folder`, or for all of them."""
    path = folder / SOCKET
    parsed = parse_faults(faults)
    for name in [meter] if meter else list(control.addresses(path)):
        for one in parsed:
            control.inject(path, name, one)


async def _serve(
    spec: EmulatorSpec, clock: DeviceClock, load: str, seconds: float | None, as_json: bool
) -> None:
    server = EmulatorServer(spec)
    start_ns = 0
    chores: list[asyncio.Task[None]] = []

    def begin(addresses: dict[str, dict[str, str]]) -> None:
        for line in (_described if as_json else _instructions)(spec, addresses):
            typer.echo(line)
        nonlocal start_ns
        start_ns = clock.now_ns()
        chores.append(asyncio.create_task(_work(server, clock, start_ns, LOADS[load])))
        if seconds is not None:
            chores.append(asyncio.create_task(_stop_after(server, clock, seconds)))

    try:
        await server.run(announce=begin)
    finally:
        for chore in chores:
            chore.cancel()
        await asyncio.gather(*chores, return_exceptions=True)
    for device in spec.devices:
        true_j, lasted_s = _true_energy(Path(spec.truth_dir) / f"{device.name}.csv", start_ns)
        if as_json:
            typer.echo(json.dumps({"meter": device.name, "true_j": true_j, "lasted_s": lasted_s}))
        else:
            typer.echo(f"{device.name}: {true_j:.3f} J true in {lasted_s:.3f} s")


def _true_energy(path: Path, start_ns: int) -> tuple[float, float]:
    """Joules that the board has used from the start to the end of its truth, and how many seconds that is."""
    truth = read_truth(path)
    end_ns = truth.segments[-1][0]  # unknown from there on
    return truth.energy_j(start_ns, end_ns), (end_ns - start_ns) * 1e-9


async def _work(
    server: EmulatorServer, clock: DeviceClock, at_ns: int, plan: tuple[tuple[float, Activity], ...]
) -> None:
    while True:
        for device_s, activity in plan:
            server.work(activity, at_ns)
            at_ns += round(device_s * 1e9)
            await clock.sleep_until_ns(at_ns)


async def _stop_after(server: EmulatorServer, clock: DeviceClock, device_s: float) -> None:
    await clock.sleep(device_s)
    server.stop()


def _described(spec: EmulatorSpec, addresses: dict[str, dict[str, str]]) -> Iterator[str]:
    """Each meter for a program: where its truth is, and the driver and port of each way to it."""
    row = profile(spec.profile)
    for name, ways in addresses.items():
        ports = []
        for via, address in ways.items():
            known = driver_of(row, Transport(via)) is not None
            driver, port = (
                reader(row.name, Transport(via), address, spec.interval_ms) if known else (None, address)
            )
            ports.append({"via": via, "driver": driver, "port": port})
        yield json.dumps({"meter": name, "truth": f"{spec.truth_dir}/{name}.csv", "ports": ports})


def _instructions(spec: EmulatorSpec, addresses: dict[str, dict[str, str]]) -> Iterator[str]:
    """Lines to type in another terminal, one to read each meter."""
    row = profile(spec.profile)
    yield f"{row.summary}; {spec.truth_dir}"
    for name, ways in addresses.items():
        yield f"{name}: true power in {name}.csv"
        for via, address in ways.items():
            transport = Transport(via)
            if driver_of(row, transport) is None:
                yield f"  {via:<9}  {address}"
                continue
            driver, port = reader(row.name, transport, address, spec.interval_ms)
            yield f"  {via:<9}  roambench meter read --driver {driver} {shlex.quote(port)}"
    yield f"faults: roambench meter fault {shlex.quote(str(spec.truth_dir))} stall@0:5 · end: Ctrl-C"
