"""The stable names of the meters that hang on a host, and the agent's right to open them. Each is known by
its USB serial number, in any port and at any time; one that is no serial port by its model."""

from __future__ import annotations

from collections.abc import Iterator

from roambench.contract.errors import ConfigError
from roambench.meters.catalogue import METERS
from roambench.meters.driver import Driver
from roambench.provision import layout
from roambench.provision.bench import HWMON, METER_LINK, NEIGHBOUR_LINK, NO_METER, MeterEntry
from roambench.provision.facts import Facts
from roambench.provision.ssh.script import Script
from roambench.provision.step import HostStep, RemoteFile, Skip, differing
from roambench.provision.wanted import Wanted

#: ModemManager, which Raspberry Pi OS brings along, does not look for a modem there. Nothing here opens the
#: port: that may reset a Smart Power 2, which takes the board's power, and only the agent keeps a latch.
_RULE = '{match}, SYMLINK+="{link}", GROUP="dialout", MODE="0660"{more}\n'
_IS_NO_MODEM = ', ENV{ID_MM_PORT_IGNORE}="1"'
_USB_BUS = 'SUBSYSTEM=="usb"'
_USB = _USB_BUS + ', ENV{{DEVTYPE}}=="usb_device", ATTR{{idVendor}}=="{}", ATTR{{idProduct}}=="{}"'


def usb_devices(meter: MeterEntry) -> tuple[str, ...]:
    """VENDOR:PRODUCT of the devices that its driver opens as USB devices; none: it opens a serial port."""
    row = _row(meter)
    return row.usb if row is not None and not meter.emulated else ()


def _row(meter: MeterEntry) -> Driver | None:
    try:
        row = METERS.load(meter.driver)
    except ConfigError:  # the driver is not installed here
        return None
    return row if isinstance(row, Driver) else None


def _rules(meter: MeterEntry, link: str) -> str:
    """The udev rules of a meter, "" where nothing names its device."""
    link = link.removeprefix("/dev/")
    if devices := usb_devices(meter):
        matches = [_USB.format(*one.split(":")) for one in devices]
        return "".join(_RULE.format(match=match, link=link, more="") for match in matches)
    if meter.driver in (NO_METER, HWMON) or meter.emulated or not meter.serial:
        return ""
    match, row = f'SUBSYSTEM=="tty", ATTRS{{serial}}=="{meter.serial}"', _row(meter)
    if row is not None and row.usb_interface:
        match += f', ENV{{ID_USB_INTERFACE_NUM}}=="{row.usb_interface}"'
    return _RULE.format(match=match, link=link, more=_IS_NO_MODEM)


def meter(facts: Facts, wanted: Wanted) -> Iterator[HostStep | Skip]:
    """Steps that give the meters that hang on the host their stable names."""
    entry, neighbours = wanted.host.meter, wanted.bench.read_by(wanted.host)
    links = {METER_LINK: entry} if not entry.host else {}
    links |= {NEIGHBOUR_LINK.format(other.name): other.meter for other in neighbours}
    rules = "".join(_rules(one, link) for link, one in links.items())
    if not rules:
        why = "its meter is emulated" if entry.emulated else "the bench names no USB serial number for it"
        reader = f"the {entry.host}" if entry.is_read_here else entry.host
        why = f"{reader} reads its meter" if entry.host else why
        yield Skip("meter's name", "it has no meter" if entry.driver == NO_METER else why)
        return
    differ, reason = differing(facts, [RemoteFile(layout.UDEV_RULES, rules.encode())])
    if differ:
        yield HostStep(
            "meter's name",
            reason,
            Script(
                'udevadm control --reload && udevadm trigger --subsystem-match=tty "$@" --action=change && '
                "udevadm settle --timeout=10"
            ),
            ("--subsystem-match=usb",) if _USB_BUS in rules else (),
            files=differ,
            restarts=True,
        )
