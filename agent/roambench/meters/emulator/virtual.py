"""A meter in virtual time: a schedule of activities in, stamped bytes and the truth out; nobody sleeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from roambench.contract.errors import ConfigError
from roambench.contract.records import Reading
from roambench.meters.catalogue import METERS
from roambench.meters.driver import Driver
from roambench.meters.emulator.board import EmulatedBoard
from roambench.meters.emulator.electric.power import Activity, PiPower
from roambench.meters.emulator.electric.shapes import STEADY, PowerShape
from roambench.meters.emulator.electric.signal import PowerSignal
from roambench.meters.emulator.profiles import Transport, profile
from roambench.meters.emulator.spec import EmulatedDevice, EmulatorSpec, Fault, FaultKind
from roambench.meters.frames.parser import FrameParser
from roambench.meters.frames.smartpower2 import Smartpower2Frames
from roambench.meters.frames.smartpower2_websocket import Smartpower2WebsocketFrames
from roambench.meters.frames.smartpower3 import Smartpower3Frames
from roambench.meters.frames.ytrikoz import YtrikozJsonFrames, YtrikozTextFrames

#: (device time at which the last byte left, bytes)
Chunk = tuple[int, bytes]

_SERIAL, _TELNET, _WEBSOCKET, _UDP = Transport.SERIAL, Transport.TELNET, Transport.WEBSOCKET, Transport.UDP

#: (traits, transport) -> the parser of a meter that speaks once in so many seconds.
PARSERS: Final[dict[tuple[str, Transport], Callable[[float], FrameParser]]] = {
    **{
        (traits, transport): parser
        for traits in ("smartpower2", "smartpower2-100ms")
        for transport, parser in (
            (_SERIAL, Smartpower2Frames),
            (_TELNET, partial(Smartpower2Frames, zeros_mean_off=True)),
            (_WEBSOCKET, Smartpower2WebsocketFrames),
        )
    },
    ("smartpower2-ytrikoz", _SERIAL): YtrikozTextFrames,
    ("smartpower2-ytrikoz", _TELNET): YtrikozJsonFrames,
    ("smartpower3", _SERIAL): partial(Smartpower3Frames, "0"),
    ("smartpower3", _TELNET): partial(Smartpower3Frames, "0"),
    ("smartpower3", _UDP): partial(Smartpower3Frames, "0", whole=True),
}


@dataclass(frozen=True, slots=True)
class VirtualRun:
    """`chunks`: (received_ns, bytes), ascending; `truth`: the power that never passed through a sensor."""

    chunks: list[Chunk]
    truth: PowerSignal
    profile: str = "smartpower2-1.6"
    transport: Transport = Transport.SERIAL
    period_s: float = 1.0

    def frames(self) -> FrameParser:
        """A fresh parser of this meter's bytes, the one that its driver uses; ConfigError for a driver of
        another package that has none."""
        row = profile(self.profile)
        driver = row.drivers.get(self.transport)
        if driver is None:
            return PARSERS[row.traits, self.transport](self.period_s)
        own = METERS.load(driver)
        if not isinstance(own, Driver):
            raise ConfigError([f"meter {driver!r} parses no bytes: expected a Driver"])
        return own.frames(own.port("virtual"))

    def readings(self) -> list[Reading]:
        """The chunks through the real parser."""
        frames = self.frames()
        return [reading for ns, data in self.chunks for reading in frames.feed(data, ns)]


def emulate(
    schedule: Iterable[tuple[float, Activity]],
    duration_s: float,
    seed: int,
    *,
    device: int = 0,
    power: PiPower | None = None,
    shape: PowerShape = STEADY,
    gain: float = 1.0,
    offset_w: float = 0.0,
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
    row = _profile(profile)
    chosen = row.transports[0] if transport is None else transport
    own = tuple(faults)
    board_row = EmulatedDevice(
        f"board-{device}",
        gain=gain,
        offset_w=offset_w,
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
    return VirtualRun(chunks, board.signal, row.name, chosen, row.period(interval_ms))


_profile = profile
