"""What tells the unit at the other end of a meter's line from all others."""

from __future__ import annotations

import asyncio
import os
import tty
from pathlib import Path
from typing import cast

import pytest

from roambench.contract.device_time import DeviceClock
from roambench.contract.events import EventKind
from roambench.contract.records import AgentEvent
from roambench.meters.catalogue import open_meter
from roambench.meters.protocol import Meter
from roambench.meters.sources.unit import unit_of_device, unit_of_peer
from roambench.meters.stream_meter import StreamMeter
from roambench.meters.traits import MeterDescription

LINE = b"5.161,0.662,3.416,0.000\r\n"


class Usb:
    """A USB serial device as the kernel shows it below /sys."""

    def __init__(self, folder: Path) -> None:
        self.ttys, self.boot, self.port = folder / "tty", folder / "boot_id", folder / "ttyUSB0"
        self._usb = folder / "devices" / "1-1.2"
        (self._usb / "1-1.2:1.0" / "ttyUSB0").mkdir(parents=True)
        (self.ttys / "ttyUSB0").mkdir(parents=True)
        (self.ttys / "ttyUSB0" / "device").symlink_to(self._usb / "1-1.2:1.0" / "ttyUSB0")
        self.port.touch()
        self.boot.write_text("b007\n")
        self.plug("0001", 7)

    def plug(self, serial: str, number: int) -> None:
        values = {
            "idVendor": "10c4",
            "idProduct": "ea60",
            "busnum": "1",
            "devnum": str(number),
            "serial": serial,
        }
        for name, value in values.items():
            (self._usb / name).write_text(f"{value}\n")

    @property
    def unit(self) -> str:
        return unit_of_device(str(self.port), self.ttys, self.boot)


def test_a_usb_meter_is_known_by_its_serial_number_whenever_it_is_plugged_in(tmp_path: Path) -> None:
    usb = Usb(tmp_path)
    usb.plug("A50285BI", 7)
    first = usb.unit
    assert first == "usb 10c4:ea60 serial A50285BI"
    usb.plug("A50285BI", 8)
    usb.boot.write_text("b008\n")
    assert usb.unit == first
    usb.plug("A50285BJ", 8)
    assert usb.unit != first


def test_one_with_everybodys_serial_number_is_known_until_it_is_unplugged_or_the_board_is_booted(
    tmp_path: Path,
) -> None:
    usb = Usb(tmp_path)
    first = usb.unit
    assert first == "usb 10c4:ea60 plugged in as 1-7 since boot b007"
    assert usb.unit == first
    usb.plug("0001", 8)
    assert usb.unit not in ("", first)
    usb.plug("0001", 7)
    usb.boot.write_text("b008\n")
    assert usb.unit not in ("", first)


def test_nothing_is_known_of_a_port_that_is_no_usb_devices(tmp_path: Path) -> None:
    usb = Usb(tmp_path)
    (tmp_path / "ttyS0").touch()
    assert unit_of_device(str(tmp_path / "ttyS0"), usb.ttys, usb.boot) == ""


def test_a_meter_on_the_network_is_known_by_its_hardware_address_not_by_its_number(tmp_path: Path) -> None:
    arp = tmp_path / "arp"
    head = "IP address       HW type     Flags       HW address            Mask     Device\n"
    there = "10.0.0.7  0x1  0x2  5c:cf:7f:01:02:03  *  wlan0\n"
    silent = "10.0.0.8  0x1  0x0  00:00:00:00:00:00  *  wlan0\n"
    arp.write_text(head + there + silent)
    assert unit_of_peer("10.0.0.7", arp) == "mac 5c:cf:7f:01:02:03"
    assert unit_of_peer("10.0.0.8", arp) == ""  # it did not answer
    assert unit_of_peer("10.0.0.9", arp) == ""
    assert unit_of_peer("meter.local", arp) == ""


async def described(meter: Meter) -> str:
    """The unit of the next description."""
    async with asyncio.timeout(20):
        while True:
            item = await anext(meter)
            if isinstance(item, AgentEvent) and item.kind == EventKind.METER_DESCRIBED:
                return MeterDescription.from_event(item).unit


@pytest.mark.asyncio
async def test_every_opening_of_a_port_tells_its_unit_and_another_pseudo_terminal_is_another(
    tmp_path: Path,
) -> None:
    units, link = [], tmp_path / "meter"
    for openings in (2, 1):
        ours, theirs = os.openpty()
        tty.setraw(theirs)
        link.unlink(missing_ok=True)
        link.symlink_to(os.ttyname(theirs))
        for _ in range(openings):
            meter = open_meter("smartpower2", str(link), DeviceClock(), reopen_allowed=True)
            os.write(ours, LINE)
            units.append(await described(meter))
            await cast(StreamMeter, meter).aclose()
        os.close(ours)
        os.close(theirs)
        await asyncio.sleep(0.05)  # the kernel's stamps of files are some milliseconds coarse
    assert units[0].startswith("/dev/pts/")
    assert units[0] == units[1]
    assert units[2] not in ("", units[0])
