"""The kernel's power sensor of a board: its chip made known to the kernel, its shunt and averaging set.

Raspberry Pi OS has no overlay for these chips (its `i2c-sensor` has the INA238 alone): the bus is switched on
in config.txt, and a udev rule writes the chip into the bus's `new_device` (the kernel's
Documentation/i2c/instantiating-devices.rst, method 4), whenever the bus appears.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from roambench.provision import layout
from roambench.provision.bench import HWMON, MeterEntry
from roambench.provision.chip_match import chip_match
from roambench.provision.facts import Facts
from roambench.provision.ssh.script import Script
from roambench.provision.step import HostStep, RemoteFile, Skip, differing
from roambench.provision.wanted import Wanted

#: [all]: the file may end in the filter of one model.
_LINES: Final = (layout.BOOT_MARK, "[all]", "dtparam=i2c_arm=on")
_ON: Final = re.compile(r"^dtparam=(?:.*,)?i2c(?:_arm|1)?(?:=on)?(?:,.*)?$", re.MULTILINE)
#: `dtparam` is Raspberry Pi OS's own; where it does not help, the next boot does.
_BUS_ON: Final = Script(f"""\
# describe a sensor in config.txt
set -e
{{ cat {layout.BOOT_CONFIG}; echo; printf '%s\\n' "$@"; }} >{layout.BOOT_CONFIG}.new
mv {layout.BOOT_CONFIG}.new {layout.BOOT_CONFIG}
dtparam i2c_arm=on 2>/dev/null || echo "the I2C bus is there from the next boot on"
""")
_APPLIED: Final = Script(
    "udevadm control --reload && udevadm trigger --action=add --subsystem-match=i2c "
    "--subsystem-match=hwmon && udevadm settle --timeout=10"
)


def rules(meter: MeterEntry) -> str:
    """The udev rules of the sensor, "" where nothing is to be set."""
    lines = []
    if meter.i2c:
        chip, _, place = meter.i2c.partition("@")
        bus, _, address = place.partition("-")
        lines.append(
            f'ACTION=="add", SUBSYSTEM=="i2c", KERNEL=="i2c-{bus}", '
            f'ATTR{{new_device}}="{chip} 0x{int(address, 16):02x}"'
        )
    values = [f'ATTR{{update_interval}}="{meter.update_ms}"'] if meter.update_ms else []
    if meter.shunt_uohm:
        three = "ina3221" in f"{meter.i2c} {meter.port}"
        names = [f"shunt{number}_resistor" for number in (1, 2, 3)] if three else ["shunt_resistor"]
        values += [f'ATTR{{{name}}}="{meter.shunt_uohm}"' for name in names]
    if values:
        lines.append(", ".join(['SUBSYSTEM=="hwmon"', chip_match(meter), *values]))
    return "".join(f"{line}\n" for line in lines)


def with_bus(config: str) -> str:
    """config.txt with the I2C bus switched on; as it is where it is on."""
    if _ON.search(config):
        return config
    return "\n".join([config.rstrip("\n"), "", *_LINES, ""])


def sensor(facts: Facts, wanted: Wanted) -> Iterator[HostStep | Skip]:
    """Steps that make the host's sensor known, and set it."""
    entry = wanted.host.meter
    text = rules(entry) if entry.driver == HWMON else ""
    if not text:
        if facts.files.get(layout.SENSOR_RULES) is not None:
            gone = Script(f"rm -f {layout.SENSOR_RULES} && udevadm control --reload")
            yield HostStep("sensor", f"{layout.SENSOR_RULES} is of no use any more", gone)
        return
    if facts.container:
        yield Skip("sensor", "a container has its machine's hardware, which is not ours")
        return
    if entry.i2c and facts.boot_config and with_bus(facts.boot_config) != facts.boot_config:
        missing = f"{layout.BOOT_CONFIG} lacks {_LINES[-1]}"
        yield HostStep("sensor's bus", missing, _BUS_ON, values=_LINES, restarts=True)
    differ, reason = differing(facts, [RemoteFile(layout.SENSOR_RULES, text.encode())])
    if differ:
        yield HostStep("sensor", reason, _APPLIED, files=differ, restarts=True)
