"""Holds a network interface to a rate with the kernel's own shaper: the one thing here that needs root.

Pacing by the sender (the default) needs no rights and shapes the data plane alone. This shapes everything
that passes an interface, for benches that want the kernel to do it, or want other traffic slowed as well:

    sudo roambench-agent shape wlan0 --up-mbit-s 7 --down-mbit-s 12
    sudo roambench-agent shape wlan0 --off

Sending is held by a token bucket (tbf) on the interface. Receiving is redirected to an ifb device with a
second token bucket: bytes wait there instead of being dropped. Nothing but numbers and the name of an
interface that exists reaches the commands, and no shell sees them, so that a sudo rule for it is safe.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from roambench.contract.errors import ConfigError, LinkError

Command = tuple[str, ...]

_INTERFACE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,14}")
_SLOWEST_MBIT_S: Final = 0.01
_FASTEST_MBIT_S: Final = 10_000.0
#: Root looks nowhere else for its tools, not on the caller's PATH.
_PATH: Final = "/usr/sbin:/sbin:/usr/bin:/bin"
#: The bucket holds this much time of the rate, and at least a few packets.
_BURST_S: Final = 0.005
_LEAST_BURST_BYTES: Final = 16_384
_QUEUE_MS: Final = 100
#: Host seconds for one command: on a slow board the first loads kernel modules from the SD card.
_COMMAND_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class ShapedRates:
    """The rates that an interface is held to, in Mbit/s (10^6 bit); None: that direction is left alone."""

    interface: str
    up_mbit_s: float | None = None
    down_mbit_s: float | None = None

    def __post_init__(self) -> None:
        problems = []
        if not _INTERFACE.fullmatch(self.interface) or self.interface == "lo":
            problems.append(f"interface: expected a network interface, not lo, got {self.interface!r}")
        problems += [
            f"{name}: expected {_SLOWEST_MBIT_S:g} to {_FASTEST_MBIT_S:g} Mbit/s, got {rate!r}"
            for name, rate in (("--up-mbit-s", self.up_mbit_s), ("--down-mbit-s", self.down_mbit_s))
            if rate is not None and not (math.isfinite(rate) and _SLOWEST_MBIT_S <= rate <= _FASTEST_MBIT_S)
        ]
        if problems:
            raise ConfigError([f"shape: {problem}" for problem in problems])


def clearing(interface: str) -> list[Command]:
    """Commands that remove every shape of `interface`; each may fail because there was none."""
    return [
        ("tc", "qdisc", "del", "dev", interface, "root"),
        ("tc", "qdisc", "del", "dev", interface, "ingress"),
        ("ip", "link", "del", _mirror(interface)),
    ]


def shaping(shape: ShapedRates) -> list[Command]:
    """Commands that hold a cleared interface to `shape`, in order."""
    commands: list[Command] = []
    if shape.up_mbit_s is not None:
        commands.append(_bucket(shape.interface, shape.up_mbit_s))
    if shape.down_mbit_s is not None:
        mirror = _mirror(shape.interface)
        commands += [
            ("ip", "link", "add", mirror, "type", "ifb"),
            ("ip", "link", "set", mirror, "up"),
            _bucket(mirror, shape.down_mbit_s),
            ("tc", "qdisc", "add", "dev", shape.interface, "handle", "ffff:", "ingress"),
            (
                *("tc", "filter", "add", "dev", shape.interface, "parent", "ffff:", "protocol", "all"),
                *("u32", "match", "u32", "0", "0"),
                *("action", "mirred", "egress", "redirect", "dev", mirror),
            ),
        ]
    return commands


def apply(shape: ShapedRates) -> None:
    """Replace the shape of the interface; with neither rate it is set free.

    Raises ConfigError for an interface that is not there, LinkError without root, without tc, or when the
    kernel refuses; then the interface is left without a shape.
    """
    if not (Path("/sys/class/net") / shape.interface).exists():
        known = ", ".join(sorted(path.name for path in Path("/sys/class/net").iterdir() if path.name != "lo"))
        raise ConfigError([f"shape: no interface {shape.interface!r} here, there are: {known or 'none'}"])
    if os.geteuid() != 0:
        raise LinkError(f"shape {shape.interface}: needs root (sudo roambench-agent shape ...)")
    for command in clearing(shape.interface):
        _run(command)
    for command in shaping(shape):
        refusal = _run(command)
        if refusal:
            for undo in clearing(shape.interface):
                _run(undo)
            raise LinkError(f"shape {shape.interface}: {' '.join(command)}: {refusal}")


def _run(command: Sequence[str]) -> str:
    """Return why the command failed, empty when it did not; LinkError when there is no such tool."""
    tool = shutil.which(command[0], path=_PATH)
    if tool is None:
        raise LinkError(f"shape: {command[0]} is not installed (apt-get install iproute2)")
    try:
        done = subprocess.run(
            [tool, *command[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_COMMAND_S,
        )
    except subprocess.TimeoutExpired:
        return f"did not end within {_COMMAND_S:g} s, see dmesg"
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["failed"])[0][:200]


def _bucket(device: str, mbit_s: float) -> Command:
    burst = max(_LEAST_BURST_BYTES, round(mbit_s * 125_000 * _BURST_S))
    return (
        *("tc", "qdisc", "add", "dev", device, "root", "tbf"),
        *("rate", f"{round(mbit_s * 1e6)}bit", "burst", str(burst), "latency", f"{_QUEUE_MS}ms"),
    )


def _mirror(interface: str) -> str:
    """The ifb device that stands for what `interface` receives (names end at 15 characters)."""
    return f"rb-{interface}"[:15]
