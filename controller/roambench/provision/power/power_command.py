"""Commands for the boards' power; the command line knows them without loading a switch."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

#: The time off before on again: capacitors, and a card that still writes.
OFF_S: Final = 5.0


class PowerCommand(StrEnum):
    """A command for the boards' power. `STATE` only asks the switches."""

    ON = "on"
    OFF = "off"
    CYCLE = "cycle"
    STATE = "state"
