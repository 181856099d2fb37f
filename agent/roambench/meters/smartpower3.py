"""Drivers of the ODROID Smart Power 3: USB serial, TCP (firmware 1.6) and UDP (from 1.7)."""

from __future__ import annotations

from typing import Final

from roambench.meters.driver import Driver
from roambench.meters.frames.parser import FrameParser
from roambench.meters.frames.smartpower3 import CHANNELS, Smartpower3Frames
from roambench.meters.ports import Port
from roambench.meters.sources.serial_port import BAUD, SerialPort
from roambench.meters.sources.source import MeterSource
from roambench.meters.sources.tcp import TcpLine
from roambench.meters.sources.udp import UdpListener
from roambench.meters.traits import smartpower3_row

UDP_PORT: Final = 6000
TCP_PORT: Final = 23
INTERVALS_MS: Final = ("5", "10", "50", "100", "500", "1000")
BAUDS: Final = ("9600", "19200", "38400", "57600", "115200", "230400", "460800", "500000", "576000", "921600")


def _serial(port: Port) -> MeterSource:
    return SerialPort(port.address, int(port.choice("baud", BAUDS, str(BAUD))))


def _tcp(port: Port) -> MeterSource:
    return TcpLine(*port.host_port(TCP_PORT))


def _udp(port: Port) -> MeterSource:
    return UdpListener(*port.host_port(UDP_PORT), sender=port.options.get("from"))


def _interval_s(port: Port) -> float:
    """The period as the meter's panel was set, when the port says so; else the meter's own clock will
    tell."""
    if "interval_ms" not in port.options:
        return 0.0
    return int(port.choice("interval_ms", INTERVALS_MS, "10")) / 1000


def _frames(port: Port, *, whole: bool = False) -> FrameParser:
    channel = port.choice("channel", CHANNELS, "0")
    interval_s = _interval_s(port)
    return (
        Smartpower3Frames(channel, interval_s, whole=whole)
        if interval_s
        else Smartpower3Frames(channel, whole=whole)
    )


def _row(port: Port, period_s: float) -> str:
    return smartpower3_row(period_s)


SMARTPOWER3: Final = Driver(
    name="smartpower3",
    summary="ODROID Smart Power 3 over its USB serial port, 1 to 200 lines a second (firmware 1.2 to 2.2)",
    address="/dev/ttyUSB0",
    options=("channel", "interval_ms", "baud"),
    power="",
    traits=_row,
    source=_serial,
    frames=_frames,
    period_s=_interval_s,
    resets=True,
)

SMARTPOWER3_UDP: Final = Driver(
    name="smartpower3-udp",
    summary="ODROID Smart Power 3 that sends UDP datagrams to this host (firmware 1.7 or later)",
    address="0.0.0.0[:6000]",
    options=("channel", "interval_ms", "from"),
    power="",
    traits=_row,
    source=_udp,
    frames=lambda port: _frames(port, whole=True),
    period_s=_interval_s,
)

SMARTPOWER3_TCP: Final = Driver(
    name="smartpower3-tcp",
    summary="ODROID Smart Power 3 over TCP, firmware 1.6 only; its lines have no checksums",
    address="HOST[:23]",
    options=("channel", "interval_ms"),
    power="",
    traits=_row,
    source=_tcp,
    frames=_frames,
    period_s=_interval_s,
    redials=True,
)
