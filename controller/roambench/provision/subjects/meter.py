"""The meter's stable name: it is known by its USB serial number, in any port and at any time."""

from __future__ import annotations

from collections.abc import Iterator

from roambench.provision import layout
from roambench.provision.bench import HWMON, METER_LINK, NO_METER
from roambench.provision.facts import Facts
from roambench.provision.ssh.script import Script
from roambench.provision.step import HostStep, RemoteFile, Skip, differing
from roambench.provision.wanted import Wanted

#: ModemManager, which Raspberry Pi OS brings along, does not look for a modem there. Nothing here opens the
#: port: that may reset a Smart Power 2, which takes the board's power, and only the agent keeps a latch.
_RULE = (
    'SUBSYSTEM=="tty", ATTRS{{serial}}=="{serial}", SYMLINK+="{link}", GROUP="dialout", MODE="0660", '
    'ENV{{ID_MM_PORT_IGNORE}}="1"\n'
)


def meter(facts: Facts, wanted: Wanted) -> Iterator[HostStep | Skip]:
    """Steps that give the host's meter its stable name."""
    entry = wanted.host.meter
    if entry.driver in (NO_METER, HWMON) or entry.emulated or entry.host or not entry.serial:
        why = "its meter is emulated" if entry.emulated else "the bench names no USB serial number for it"
        why = f"the {entry.host} reads its meter" if entry.host else why
        yield Skip("meter's name", "it has no meter" if entry.driver == NO_METER else why)
        return
    rule = _RULE.format(serial=entry.serial, link=METER_LINK.removeprefix("/dev/"))
    differ, reason = differing(facts, [RemoteFile(layout.UDEV_RULES, rule.encode())])
    if differ:
        yield HostStep(
            "meter's name",
            reason,
            Script(
                "udevadm control --reload && udevadm trigger --subsystem-match=tty --action=change && "
                "udevadm settle --timeout=10"
            ),
            files=differ,
            restarts=True,
        )
