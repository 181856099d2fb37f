"""Settings of an emulator process: its meters, their faults, the clock, where socket and truth lie."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Final

from roambench.contract.errors import ConfigError
from roambench.contract.json_values import from_json, from_values
from roambench.emulation.electric.power import PiPower
from roambench.emulation.electric.shapes import STEADY, PowerShape
from roambench.emulation.profiles import Sensor, Transport, profile


class FaultKind(StrEnum):
    """A fault of a meter's line."""

    DROP = "drop"  # `count` lines are not sent
    TRUNCATE = "truncate"  # `count` lines lose their end, line break included
    GARBAGE = "garbage"  # `count` bursts of random bytes between the lines
    NOISE = "noise"  # `count` lines are broken in two by a debug message
    STALL = "stall"  # the firmware is busy for `duration_s`, then sends all missed lines at once
    SILENCE = "silence"  # nothing is sent for `duration_s`, and nothing of it later
    RESET = "reset"  # the meter boots: ROM chatter, 4 s of waiting, banner
    SKEW = "skew"  # its crystal is off by `ppm` from now on
    OFF = "off"  # its output is switched off for `duration_s`: the board is without power, serial is silent
    SECOND_CLIENT = "second_client"  # another client has the telnet port for `duration_s`; ours is refused
    UNPLUG = "unplug"  # the serial port vanishes, and comes back after `duration_s`


#: What happens to the way a meter is read, not to its firmware.
PORT_FAULTS: Final = frozenset({FaultKind.SECOND_CLIENT, FaultKind.UNPLUG})


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, `at_s` seconds of device time after the emulator's start."""

    kind: FaultKind
    at_s: float = 0.0
    duration_s: float = 0.0
    count: int = 1
    ppm: float = 0.0


@dataclass(frozen=True, slots=True)
class EmulatedDevice:
    """One meter and where it can be read; the profile says which of these it can have.

    `link_path` will be a symlink to its pseudo-terminal ("": no serial port); `telnet_port` and
    `websocket_port` are ports on 127.0.0.1 (0: any free one, None: not served); `udp_to` is the "host:port"
    that gets its datagrams; `sysfs_dir` stands for /sys/class/hwmon. `profile` is its firmware ("": the
    spec's), `site` what it is said to see ("": the whole board).
    `gain` and `offset_w` are what this meter reads wrong on top of its drawn tolerance; `ppm` is its
    crystal's error (None: drawn within +-20), `uptime_s` how long it has been running (None: drawn).
    `autorun` False leaves the output off after a reset. When the output comes back, the board boots for
    `board_boot_s` with one busy core before it does again what its agent tells.
    Of an INA231: `window_ms` is what a value is the mean of (0: 263.8 ms), and `held_ms` how much older than
    on other meters it is.
    """

    name: str
    link_path: str = ""
    gain: float = 1.0
    offset_w: float = 0.0
    ppm: float | None = None
    power: PiPower = field(default_factory=PiPower)
    shape: PowerShape = STEADY
    faults: tuple[Fault, ...] = ()
    telnet_port: int | None = None
    websocket_port: int | None = None
    udp_to: str = ""
    sysfs_dir: str = ""
    site: str = ""
    profile: str = ""
    uptime_s: float | None = None
    autorun: bool = True
    board_boot_s: float = 0.0
    window_ms: float = 0.0
    held_ms: float = 0.0

    @property
    def transports(self) -> tuple[Transport, ...]:
        """The ways out of the meter that were asked for."""
        asked = (
            (Transport.SERIAL, self.link_path != ""),
            (Transport.TELNET, self.telnet_port is not None),
            (Transport.WEBSOCKET, self.websocket_port is not None),
            (Transport.UDP, self.udp_to != ""),
            (Transport.SYSFS, self.sysfs_dir != ""),
        )
        return tuple(transport for transport, wanted in asked if wanted)


@dataclass(frozen=True, slots=True)
class EmulatorSpec:
    """A whole emulator process. Paths are strings; their folders must exist.

    `tolerance` scales the drawn gain and offset of every meter (1: datasheet limits, 0: perfect parts).
    `noise_per_line` is the chance that a debug line comes between two readings.
    `boots`: the meters are plugged in at the start and print their boot text before the first reading.
    `interval_ms`: the log interval of a firmware that lets one choose (None: the profile's own).
    `notes`: what every meter says on its serial port is noted beside its truth (`emulation.truth.PrintLog`).
    """

    devices: tuple[EmulatedDevice, ...]
    socket_path: str
    truth_dir: str
    seed: int = 0
    epoch_ns: int = 0
    time_scale: float = 1.0
    ahead_ns: int = 0
    profile: str = "smartpower2-1.6"
    tolerance: float = 1.0
    noise_per_line: float = 0.002
    boots: bool = False
    interval_ms: int | None = None
    notes: bool = False

    def to_json(self) -> str:
        """Its fields as JSON text; `from_json` is the inverse."""
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str | bytes, source: str = "emulator spec") -> EmulatorSpec:
        """Inverse of `to_json`; ConfigError lists everything that is wrong, with its key."""
        spec = from_json(cls, text, source)
        problems = _doubts(spec, source)
        if problems:
            raise ConfigError(problems)
        return spec


def fault_from_values(values: dict[str, object]) -> Fault:
    """A fault from an untrusted JSON object; ConfigError (a ValueError) lists what is wrong."""
    return from_values(Fault, values, "fault")


def _doubts(spec: EmulatorSpec, source: str) -> list[str]:
    problems = []
    if not spec.devices:
        problems.append(f"{source}: devices: expected at least one")
    if spec.time_scale <= 0:
        problems.append(f"{source}: time_scale: expected a number > 0, got {spec.time_scale}")
    for what, values in (
        ("name", [device.name for device in spec.devices]),
        ("link_path", [device.link_path for device in spec.devices if device.link_path]),
        ("telnet_port", [str(device.telnet_port) for device in spec.devices if device.telnet_port]),
        ("websocket_port", [str(device.websocket_port) for device in spec.devices if device.websocket_port]),
    ):
        twice = sorted({value for value in values if values.count(value) > 1})
        problems += [f"{source}: devices: {what} {value!r} is used twice" for value in twice]
    names = [device.name for device in spec.devices]
    problems += [
        f"{source}: devices: name {name!r} cannot name a file"
        for name in names
        if name in ("", ".", "..") or "/" in name or "\0" in name
    ]
    return problems + _transport_doubts(spec, source)


def _transport_doubts(spec: EmulatorSpec, source: str) -> list[str]:
    problems = []
    for device in spec.devices:
        where = f"{source}: devices: {device.name!r}"
        try:
            row = profile(device.profile or spec.profile)
            row.period(spec.interval_ms if row.intervals_ms or not device.profile else None)
        except ConfigError as error:
            problems += [f"{source}: {problem}" for problem in error.problems]
            if not device.profile:
                return problems
            continue
        problems += [
            f"{where}: {row.name} has no {transport} readings"
            for transport in device.transports
            if transport not in row.lines
        ]
        kinds = {fault.kind for fault in device.faults}
        if FaultKind.UNPLUG in kinds and not (device.link_path or device.sysfs_dir):
            problems.append(f"{where}: faults: unplug needs a serial port or a folder")
        if FaultKind.SECOND_CLIENT in kinds and device.telnet_port is None:
            problems.append(f"{where}: faults: second_client needs a telnet port")
        for key, value, low, high in (
            ("window_ms", device.window_ms, 10.0, 5000.0),
            ("held_ms", device.held_ms, 0.0, 5000.0),
        ):
            if value and not (low <= value <= high and row.sensor is Sensor.INA231):
                problems.append(
                    f"{where}: {key}: expected 0, or {low:g} to {high:g} of an INA231, got {value:g}"
                )
        if not device.transports:
            problems.append(
                f"{where}: nothing to read it by: expected a link_path, a port, udp_to or sysfs_dir"
            )
        if device.udp_to and udp_address(device.udp_to) is None:
            problems.append(f"{where}: udp_to: expected host:port, got {device.udp_to!r}")
    return problems


def udp_address(text: str) -> tuple[str, int] | None:
    """(host, port) of "host:port", None if it is none. An IPv6 address stands in brackets."""
    host, colon, port = text.rpartition(":")
    host = host[1:-1] if host[:1] + host[-1:] == "[]" else "" if ":" in host else host
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        return None
    return host, int(port)
