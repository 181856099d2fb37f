"""The kinds of switches, by name. Others than the meter are in `extras.power`."""

from __future__ import annotations

from typing import Final

from roambench.contract.table import Table
from roambench.provision.power.switch import SwitchRow

SWITCHES: Final[Table[SwitchRow]] = Table(
    what="switch",
    group="roambench.switches",
    own={"meter": "roambench.provision.power.meter:METER"},
    kind=SwitchRow,
)
