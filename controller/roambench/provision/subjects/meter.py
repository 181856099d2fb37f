"""The stable names of the meters that hang on a host: each is known by its USB serial number, in any port and
at any time."""

from __future__ import annotations

from collections.abc import Iterator

from roambench.provision import layout
from roambench.provision.bench import HWMON, METER_LINK, NEIGHBOUR_LINK, NO_METER
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
    """Steps that give the meters that hang on the host their stable names."""
    entry, neighbours = wanted.host.meter, wanted.bench.read_by(wanted.host)
    links = {METER_LINK: entry} if not entry.host else {}
    links |= {NEIGHBOUR_LINK.format(other.name): other.meter for other in neighbours}
    rules = "".join(
        _RULE.format(serial=one.serial, link=link.removeprefix("/dev/"))
        for link, one in links.items()
        if one.driver not in (NO_METER, HWMON) and not one.emulated and one.serial
    )
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
                "udevadm control --reload && udevadm trigger --subsystem-match=tty --action=change && "
                "udevadm settle --timeout=10"
            ),
            files=differ,
            restarts=True,
        )
