"""What can switch a board, by name. Other packages add rows by the entry-point group `roambench.switches`."""

from __future__ import annotations

from typing import Final

from roambench.contract.table import Table
from roambench.provision.power.switch import SwitchRow

SWITCHES: Final[Table[SwitchRow]] = Table(
    what="switch",
    group="roambench.switches",
    own={
        "command": "roambench.provision.power.command:COMMAND",
        "meter": "roambench.provision.power.meter:METER",
        "poe": "roambench.provision.power.poe:POE",
        "shelly": "roambench.provision.power.shelly:SHELLY",
        "tasmota": "roambench.provision.power.tasmota:TASMOTA",
        "uhubctl": "roambench.provision.power.uhubctl:UHUBCTL",
    },
    kind=SwitchRow,
)
