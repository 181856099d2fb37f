"""The firmwares that can be emulated, as data: what each says on which transport, how often, how it boots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from roambench.contract.errors import ConfigError
from roambench.contract.table import Table
from roambench.emulation import lines
from roambench.emulation.lines import Printout

Line = Callable[[Printout], bytes | None]


class Transport(StrEnum):
    """How bytes leave a meter."""

    SERIAL = "serial"
    TELNET = "telnet"  # TCP, one client
    WEBSOCKET = "websocket"  # up to five clients; the only one that can switch the output
    UDP = "udp"  # datagrams to one address


class Sensor(StrEnum):
    """The measuring chip behind the firmware."""

    INA231 = "ina231"
    PAC1933 = "pac1933"


class WattHours(StrEnum):
    """Behaviour of the meter's own counter."""

    BROWSER = "browser"  # adds watts per tick as if a tick were a second, while a browser watches
    ELAPSED = "elapsed"  # watts times elapsed seconds
    NONE = "none"


@dataclass(frozen=True, slots=True)
class FirmwareProfile:
    """One firmware, as docs/emulator.md explains field by field. Times are seconds of device time.

    ConfigError, when it is made, for values that no firmware can have, all at once.
    """

    name: str
    product: str
    traits: str  # the row of `meters.traits` that describes its readings
    sensor: Sensor
    period_s: float  # between two lines
    lines: Mapping[Transport, Line]  # how it spells a reading, on every way that it talks
    boot: tuple[tuple[float, bytes], ...]  # (after a reset, what it prints on serial)
    output_s: float  # after a reset until the output is on, with autorun
    boot_s: float  # after a reset until the first line
    messages: tuple[bytes, ...]  # debug text between the lines on serial; (): it prints none
    version: str
    watt_hours: WattHours = WattHours.NONE
    rom: bool = True  # at boot it chatters at another baud rate first
    intervals_ms: tuple[int, ...] = ()  # what its menu offers; (): the period is fixed
    bauds: Mapping[int, int] = field(default_factory=dict)  # by interval; what is not here is 115200
    busy_s: float = 0.0  # how long a line keeps it busy besides the sending
    late_s: float = 0.0  # how long at most another task holds a line up
    late_share: float = 0.0  # of all lines
    drivers: Mapping[Transport, str] = field(default_factory=dict)  # who reads it; {}: by its traits

    def __post_init__(self) -> None:
        problems = [
            f"meter profile {self.name}: {name}: expected {expected}"
            for name, expected, holds in (
                ("period_s", "more than 0", self.period_s > 0.0),
                ("lines", "at least one transport", bool(self.lines)),
                ("output_s, boot_s", "0 or more", min(self.output_s, self.boot_s) >= 0.0),
                ("busy_s, late_s", "0 or more", min(self.busy_s, self.late_s) >= 0.0),
                ("late_share", "0 to 1", 0.0 <= self.late_share <= 1.0),
                ("messages", "a tuple of bytes, none of them empty", _texts(self.messages)),
                (
                    "boot",
                    "a tuple of (seconds after the reset, bytes), ascending",
                    _texts(tuple(text for _, text in self.boot))
                    and [at for at, _ in self.boot] == sorted(at for at, _ in self.boot),
                ),
                ("intervals_ms", "whole milliseconds above 0", all(ms > 0 for ms in self.intervals_ms)),
                ("drivers", "none but of its lines", self.drivers.keys() <= self.lines.keys()),
            )
            if not holds
        ]
        if problems:
            raise ConfigError(problems)

    @property
    def summary(self) -> str:
        """One line for people."""
        pace = f"one line every {self.period_s:g} s"
        if self.intervals_ms:
            pace = f"one line every {min(self.intervals_ms)} to {max(self.intervals_ms)} ms"
        return f"{self.product}, firmware {self.version}, over {', '.join(self.transports)}; {pace}"

    @property
    def transports(self) -> tuple[Transport, ...]:
        """The ways out of the meter that the firmware has."""
        return tuple(self.lines)

    def period(self, interval_ms: int | None) -> float:
        """Seconds between lines; ConfigError for an interval that the firmware does not offer."""
        if interval_ms is None:
            return self.period_s
        if interval_ms not in self.intervals_ms:
            offered = ", ".join(map(str, self.intervals_ms))
            expected = (
                f"expected one of {offered}" if offered else f"its period is fixed at {self.period_s:g} s"
            )
            raise ConfigError([f"meter profile {self.name}: interval {interval_ms} ms: {expected}"])
        return interval_ms * 1e-3

    def baud(self, interval_ms: int | None) -> int:
        """The slowest of the usual rates that carries the lines of this interval."""
        return self.bauds.get(interval_ms or 0, 115_200)


def _texts(values: object) -> bool:
    return isinstance(values, tuple) and all(isinstance(text, bytes) and text for text in values)


_RULE: Final = b"#" * 30


def _smartpower2_boot(version: bytes) -> tuple[tuple[float, bytes], ...]:
    return (
        (0.5, b"[SETUP] BOOT WAIT 4...\n\r"),
        (1.5, b"[SETUP] BOOT WAIT 3...\n\r"),
        (2.5, b"[SETUP] BOOT WAIT 2...\n\r"),
        (3.5, b"[SETUP] BOOT WAIT 1...\n\r"),
        (
            4.5,
            b"\r\n"
            + _RULE
            + b"\r\nSmartPower2 v"
            + version
            + b" (Serial Interface)\r\n"
            + _RULE
            + b"\r\n\r\n"
            b"FS File: /index.html, size: 14.20KB\n\r\n\r"
            b"\r\nConnected! IP address: 192.168.4.1\r\nHTTP server started\r\n",
        ),
    )


_SMARTPOWER2_MESSAGES: Final = (
    b"handleFileRead: /\r\n",
    b"handleFileRead: /js/settings.js\r\n",
    b"[0] Connected from 192.168.4.2 url: /\n\r",
    b"[0] Disconnected!\n\r",
    b"A connection attempt is being made.\n",
    b"This is the first client to connect.\n",
    b"A previous client has disconnected.\n",
    b"A client connection is already in use.\n",
)


def _smartpower2(version: str, *, serial: bool = True, web: Line = lines.smartpower2_web) -> FirmwareProfile:
    """Arduino prints 1.6 as 1.60. Serial readings came with firmware 1.4."""
    network: dict[Transport, Line] = {
        Transport.TELNET: lines.smartpower2_telnet,
        Transport.WEBSOCKET: web,
    }
    return FirmwareProfile(
        name=f"smartpower2-{version}",
        product="ODROID Smart Power 2",
        traits="smartpower2",
        sensor=Sensor.INA231,
        period_s=1.0,
        lines={Transport.SERIAL: lines.smartpower2_serial, **network} if serial else network,
        boot=_smartpower2_boot(f"{version}0".encode()),
        output_s=4.5,
        boot_s=5.2,
        messages=_SMARTPOWER2_MESSAGES,
        version=f"{version}0",
        watt_hours=WattHours.BROWSER,
    )


SMARTPOWER2_1_6: Final = _smartpower2("1.6")

#: Firmware 1.5 with the timer at 100 ms; the chip still renews its values every 264 ms only.
SMARTPOWER2_100MS: Final = replace(
    _smartpower2("1.5"),
    name="smartpower2-100ms",
    product="ODROID Smart Power 2, Dres0109 fork",
    traits="smartpower2-100ms",
    period_s=0.1,
)

SMARTPOWER2_YTRIKOZ: Final = FirmwareProfile(
    name="smartpower2-ytrikoz",
    product="ODROID Smart Power 2, ytrikoz",
    traits="smartpower2-ytrikoz",
    sensor=Sensor.INA231,
    period_s=0.25,
    lines={
        Transport.SERIAL: lines.ytrikoz_serial,
        Transport.TELNET: lines.ytrikoz_telnet,
        Transport.WEBSOCKET: lines.ytrikoz_web,
    },
    boot=((1.0, b"\r\n\r\nSmartPower2 0.6.9\r\n"), (3.0, b"<wlan> mode STA\r\n<telnet> 23\r\n")),
    output_s=3.0,
    boot_s=4.0,
    messages=(b"<ntp> 0.pool.ntp.org\r\n", b"<psu> voltage low\r\n"),
    version="0.6.9",
    watt_hours=WattHours.ELAPSED,
)


def _smartpower3(version: str, line: Line, network: dict[Transport, Line]) -> FirmwareProfile:
    """An ESP32: its ROM talks at 115200 baud, and the millisecond column begins at 0 again.

    81 bytes at 115200 baud and the formatting take 9 ms, and drawing the screen keeps the log waiting for up
    to 36 ms now and then: at an interval of 10 ms the stamps are 9 to 45 ms apart, as owners report.
    """
    return FirmwareProfile(
        name=f"smartpower3-{version}",
        product="ODROID Smart Power 3",
        traits="smartpower3",
        sensor=Sensor.PAC1933,
        period_s=0.1,
        lines={Transport.SERIAL: line, **network},
        boot=(
            (0.04, b"ets Jun  8 2016 00:22:57\r\n\r\n"),
            (0.05, b"rst:0x1 (POWERON_RESET),boot:0x13 (SPI_FAST_FLASH_BOOT)\r\n"),
            (0.10, b"configsip: 0, SPIWP:0xee\r\nmode:DIO, clock div:1\r\nentry 0x400806b8\r\n"),
        ),
        output_s=3.0,
        boot_s=4.0,
        messages=(b">>> Unknown command <<<\n\r",),
        version=version,
        rom=False,
        intervals_ms=(5, 10, 50, 100, 500, 1000),
        bauds={5: 921_600},
        busy_s=0.0021,
        late_s=0.036,
        late_share=0.01,
    )


_SMARTPOWER3: Final = (
    _smartpower3("1.6", lines.smartpower3_1_6, {Transport.TELNET: lines.smartpower3_1_6_tcp}),
    _smartpower3("1.7", lines.smartpower3_1_7, {Transport.UDP: lines.smartpower3_1_7_udp}),
    _smartpower3("1.8", lines.smartpower3_1_8, {Transport.UDP: lines.smartpower3_1_8_udp}),
    _smartpower3("1.9", lines.smartpower3_1_8, {Transport.UDP: lines.smartpower3_1_9_udp}),
    _smartpower3("2.2", lines.smartpower3_2_2, {Transport.UDP: lines.smartpower3_2_2}),
)


def _mistakes(name: str, row: FirmwareProfile) -> Iterator[str]:
    if row.name != name:  # an emulator's process looks it up by the name that it has
        yield f"expected the name of its entry, got {row.name!r}"


PROFILES: Final = Table(
    what="meter profile",
    group="roambench.meter_profiles",
    kind=FirmwareProfile,
    mistakes=_mistakes,
    own={
        row.name: row
        for row in (
            _smartpower2("1.1", serial=False, web=lines.smartpower2_web_old),
            _smartpower2("1.3", serial=False),
            _smartpower2("1.4"),
            SMARTPOWER2_1_6,
            SMARTPOWER2_100MS,
            SMARTPOWER2_YTRIKOZ,
            *_SMARTPOWER3,
        )
    },
)

_SHORT: Final = {"ytrikoz": "smartpower2-ytrikoz", "dres100": "smartpower2-100ms"}


def full_name(name: str) -> str:
    """`sp2-1.6`, `sp3-2.2`, `ytrikoz` and `dres100` are short for the names in PROFILES."""
    name = _SHORT.get(name, name)
    for short, full in (("sp2-", "smartpower2-"), ("sp3-", "smartpower3-")):
        if name.startswith(short):
            return full + name.removeprefix(short)
    return name


def profile(name: str) -> FirmwareProfile:
    """The profile called `name`, short spellings included; ConfigError lists those there are, or says why
    another package's cannot be used."""
    full = full_name(name)
    return PROFILES.load(full if full in PROFILES.own else name)
