"""What each meter firmware says on its serial port, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from roambench.contract.errors import ConfigError


@dataclass(frozen=True, slots=True)
class FirmwareProfile:
    """One firmware's serial behaviour.

    `boot` holds (seconds after reset, bytes); readings begin `boot_s` after reset. `line` is a %-format of
    volts, amperes, watts, watt-hours. `messages` are the debug lines that come between.
    """

    name: str
    period_s: float
    line: str
    boot: tuple[tuple[float, bytes], ...]
    boot_s: float
    messages: tuple[bytes, ...]


_RULE: Final = b"#" * 30

SMARTPOWER2_1_6: Final = FirmwareProfile(
    name="smartpower2-1.6",
    period_s=1.0,
    line="%.3f,%.3f,%.3f,%.3f\r\n",
    boot=(
        (0.5, b"[SETUP] BOOT WAIT 4...\n\r"),
        (1.5, b"[SETUP] BOOT WAIT 3...\n\r"),
        (2.5, b"[SETUP] BOOT WAIT 2...\n\r"),
        (3.5, b"[SETUP] BOOT WAIT 1...\n\r"),
        (
            4.5,
            b"\r\n" + _RULE + b"\r\nSmartPower2 v1.60 (Serial Interface)\r\n" + _RULE + b"\r\n\r\n"
            b"FS File: /index.html, size: 14.20KB\n\r\n\r"
            b"\r\nConnected! IP address: 192.168.4.1\r\nHTTP server started\r\n",
        ),
    ),
    boot_s=5.2,
    messages=(
        b"handleFileRead: /\r\n",
        b"handleFileRead: /js/settings.js\r\n",
        b"[0] Connected from 192.168.4.2 url: /\n\r",
        b"[0] Disconnected!\n\r",
        b"A connection attempt is being made.\n",
        b"This is the first client to connect.\n",
        b"A previous client has disconnected.\n",
        b"A client connection is already in use.\n",
    ),
)

PROFILES: Final = {profile.name: profile for profile in (SMARTPOWER2_1_6,)}


def profile(name: str) -> FirmwareProfile:
    """The profile called `name`; ConfigError lists those there are."""
    if name not in PROFILES:
        raise ConfigError([f"unknown meter profile {name!r}: expected one of {', '.join(sorted(PROFILES))}"])
    return PROFILES[name]
