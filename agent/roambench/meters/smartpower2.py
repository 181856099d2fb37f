"""Drivers of the ODROID Smart Power 2: USB serial, telnet and WebSocket, and of its 100 ms fork."""

from __future__ import annotations

from typing import Final

from roambench.contract.addresses import host_port
from roambench.meters.driver import Driver, option_period_s, row_of
from roambench.meters.frames.parser import FrameParser
from roambench.meters.frames.smartpower2 import Smartpower2Frames
from roambench.meters.frames.smartpower2_websocket import Smartpower2WebsocketFrames
from roambench.meters.ports import Port
from roambench.meters.sources.serial_port import SerialPort
from roambench.meters.sources.source import MeterSource
from roambench.meters.sources.tcp import TcpLine
from roambench.meters.traits import TRAITS

TELNET_PORT: Final = 23
WEBSOCKET_PORT: Final = 81
_FORK_S: Final = TRAITS.load("smartpower2-100ms").nominal_s


#: The vendor's commit 429051d of 2018-05-28, first in firmware 1.4, made it print readings on serial.
_SILENCE: Final = (
    "is its output on, is its cable in, is its firmware 1.4 or newer? An older one prints nothing on serial; "
    "http://192.168.4.1 over the meter's own Wi-Fi shows the version"
)


def _serial(port: Port) -> MeterSource:
    return SerialPort(port.address)


def _telnet(port: Port) -> MeterSource:
    return TcpLine(*port.host_port(TELNET_PORT))


def _websocket(port: Port) -> MeterSource:
    from roambench.meters.sources.websocket import WebsocketLine  # 6 MB that a serial reader does not need

    host, number = port.host_port(WEBSOCKET_PORT)
    return WebsocketLine(websocket_uri(host, number), greeting="p0")


def websocket_uri(host: str, port: int) -> str:
    """The ws:// address of a host; IPv6 addresses are put in brackets."""
    return f"ws://{host_port(host, port)}/"


def _period_s(port: Port) -> float:
    return option_period_s(port) or TRAITS.load("smartpower2").nominal_s


def _lines(port: Port) -> FrameParser:
    return Smartpower2Frames(_period_s(port))


def _telnet_lines(port: Port) -> FrameParser:
    return Smartpower2Frames(_period_s(port), zeros_mean_off=True)


def _messages(port: Port) -> FrameParser:
    return Smartpower2WebsocketFrames(_period_s(port))


SMARTPOWER2: Final = Driver(
    name="smartpower2",
    summary="ODROID Smart Power 2 over its USB serial port, one line a second (firmware 1.4 or later)",
    address="/dev/ttyUSB0",
    options=("period_s", "wifi"),
    power="over its Wi-Fi only: wifi=HOST[:81] of a gateway",
    traits=row_of("smartpower2"),
    source=_serial,
    frames=_lines,
    period_s=option_period_s,
    resets=True,
    silence=_SILENCE,
)

SMARTPOWER2_100MS: Final = Driver(
    name="smartpower2-100ms",
    summary="ODROID Smart Power 2 with the Dres0109 firmware: the same line every 100 ms",
    address="/dev/ttyUSB0",
    options=("wifi",),
    power="over its Wi-Fi only: wifi=HOST[:81] of a gateway",
    traits=row_of("smartpower2-100ms"),
    source=_serial,
    frames=lambda port: Smartpower2Frames(_FORK_S),
    resets=True,
)

SMARTPOWER2_TELNET: Final = Driver(
    name="smartpower2-telnet",
    summary="ODROID Smart Power 2 over telnet, one client at a time (firmware 1.1 or later)",
    address="192.168.4.1[:23]",
    options=("period_s", "wifi"),
    power="by the meter's WebSocket: port 81 of the same host, else wifi=HOST[:81]",
    traits=row_of("smartpower2"),
    source=_telnet,
    frames=_telnet_lines,
    period_s=option_period_s,
    redials=True,
)

SMARTPOWER2_WEBSOCKET: Final = Driver(
    name="smartpower2-websocket",
    summary="ODROID Smart Power 2 over the WebSocket of its web page, which also switches its output",
    address="192.168.4.1[:81]",
    options=("period_s",),
    power="on, off, volts",
    traits=row_of("smartpower2"),
    source=_websocket,
    frames=_messages,
    period_s=option_period_s,
    redials=True,
)
