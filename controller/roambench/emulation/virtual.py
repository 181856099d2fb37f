"""A meter in virtual time: a schedule of activities in, stamped bytes and the truth out; without sleeping."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from roambench.contract.errors import ConfigError
from roambench.contract.records import Reading
from roambench.emulation import profiles
from roambench.emulation.board import EmulatedBoard
from roambench.emulation.drivers import reader
from roambench.emulation.electric.power import Activity, PiPower
from roambench.emulation.electric.shapes import STEADY, PowerShape
from roambench.emulation.electric.signal import PowerSignal
from roambench.emulation.profiles import Transport
from roambench.emulation.spec import EmulatedDevice, EmulatorSpec, Fault, FaultKind
from roambench.meters.catalogue import METERS
from roambench.meters.driver import Driver
from roambench.meters.frames.parser import FrameParser
from roambench.meters.sources.hwmon import Look, line_of

#: (device time at which the last byte left, bytes)
Chunk = tuple[int, bytes]


@dataclass(frozen=True, slots=True)
class VirtualRun:
    """`chunks`: (received_ns, bytes), ascending; `truth`: the power that never passed through a sensor."""

    chunks: list[Chunk]
    truth: PowerSignal
    profile: str = "smartpower2-1.6"
    transport: Transport = Transport.SERIAL
    interval_ms: int | None = None

    @property
    def period_s(self) -> float:
        """Seconds of device time between two lines."""
        return profiles.profile(self.profile).period(self.interval_ms)

    def frames(self) -> FrameParser:
        """A fresh parser of this meter's bytes, the one that its driver uses; ConfigError where no driver
        reads it that way, or one of another package parses no bytes."""
        name, port = reader(self.profile, self.transport, "virtual", self.interval_ms)
        driver = METERS.load(name)
        if not isinstance(driver, Driver):
            raise ConfigError([f"meter {name!r} parses no bytes: expected a Driver"])
        return driver.frames(driver.port(port))

    def readings(self) -> list[Reading]:
        """The chunks through the real parser."""
        frames = self.frames()
        look = _looked if self.transport is Transport.SYSFS else bytes
        return [reading for ns, data in self.chunks for reading in frames.feed(look(data), ns)]


def _looked(data: bytes) -> bytes:
    """The line that a reader of a kernel's sensor makes of its attributes."""
    said = dict(line.split(" ", 1) for line in data.decode().splitlines())
    names = ("in1_input", "curr1_input", "power1_input")
    return line_of([Look(*(int(said[name]) if name in said else None for name in names))])


def emulate(
    schedule: Iterable[tuple[float, Activity]],
    duration_s: float,
    seed: int,
    *,
    device: int = 0,
    power: PiPower | None = None,
    shape: PowerShape = STEADY,
    gain: float = 1.0,
    ppm: float | None = None,
    tolerance: float = 1.0,
    noise_per_line: float = 0.0,
    boots: bool = False,
    faults: Iterable[Fault] = (),
    profile: str = "smartpower2-1.6",
    start_ns: int = 0,
    interval_ms: int | None = None,
    transport: Transport | None = None,
    uptime_s: float | None = None,
    autorun: bool = True,
    board_boot_s: float = 0.0,
) -> VirtualRun:
    """Emulate one board from `start_ns` for `duration_s`.

    `schedule` holds (seconds after the start, activity from then on); before its first entry the board is
    idle. `device` keys the draws (window phase, tolerances, crystal), with `seed`. `tolerance` 0 makes a
    meter of perfect parts; it still has steps, windows and the firmware's 0.059 %. `transport` None is the
    profile's first (serial where it has one). While the port is unplugged what was said is lost.
    """
    row = profiles.profile(profile)
    chosen = row.transports[0] if transport is None else transport
    own = tuple(faults)
    board_row = EmulatedDevice(
        f"board-{device}",
        gain=gain,
        ppm=ppm,
        power=power or PiPower(),
        shape=shape,
        faults=own,
        uptime_s=uptime_s,
        autorun=autorun,
        board_boot_s=board_boot_s,
    )
    spec = EmulatorSpec(
        devices=(board_row,) * (device + 1),
        socket_path="",
        truth_dir="",
        seed=seed,
        profile=row.name,
        tolerance=tolerance,
        noise_per_line=noise_per_line,
        boots=boots,
        interval_ms=interval_ms,
    )
    board = EmulatedBoard(spec, device, start_ns, (chosen,))
    for at_s, activity in schedule:
        board.work(activity, start_ns + round(at_s * 1e9))
    end_ns = start_ns + round(duration_s * 1e9)
    away = [
        (start_ns + round(fault.at_s * 1e9), start_ns + round((fault.at_s + fault.duration_s) * 1e9))
        for fault in own
        if fault.kind is FaultKind.UNPLUG
    ]
    chunks = [
        (ns, data)
        for ns, _, data in board.advance(end_ns)
        if ns <= end_ns and not any(begin <= ns < end for begin, end in away)
    ]
    return VirtualRun(chunks, board.signal, row.name, chosen, interval_ms)
