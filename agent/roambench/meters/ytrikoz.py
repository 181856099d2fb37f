"""Drivers of a Smart Power 2 with the ytrikoz firmware: serial text and telnet JSON, four lines a second."""

from __future__ import annotations

from typing import Final

from roambench.meters.driver import Driver, row_of
from roambench.meters.frames.ytrikoz import YtrikozJsonFrames, YtrikozTextFrames
from roambench.meters.ports import Port
from roambench.meters.sources.serial_port import SerialPort
from roambench.meters.sources.source import MeterSource
from roambench.meters.sources.tcp import TcpLine

TELNET_PORT: Final = 23


def _serial(port: Port) -> MeterSource:
    return SerialPort(port.address)


def _telnet(port: Port) -> MeterSource:
    return TcpLine(*port.host_port(TELNET_PORT))


YTRIKOZ: Final = Driver(
    name="smartpower2-ytrikoz",
    summary="Smart Power 2 with the ytrikoz firmware over USB serial, four lines a second",
    address="/dev/ttyUSB0",
    options=("wifi",),
    power="over its Wi-Fi only: wifi=HOST[:80]",
    traits=row_of("smartpower2-ytrikoz"),
    source=_serial,
    frames=lambda port: YtrikozTextFrames(),
    resets=True,
)

YTRIKOZ_TELNET: Final = Driver(
    name="smartpower2-ytrikoz-telnet",
    summary="Smart Power 2 with the ytrikoz firmware over telnet, four JSON lines a second",
    address="HOST[:23]",
    options=("wifi",),
    power="by the meter's WebSocket: port 80 of the same host, else wifi=HOST[:80]",
    traits=row_of("smartpower2-ytrikoz"),
    source=_telnet,
    frames=lambda port: YtrikozJsonFrames(),
    redials=True,
)
