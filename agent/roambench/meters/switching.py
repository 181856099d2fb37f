"""The protocol of a switch of a meter's output, and its report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

#: What both firmwares' settings pages offer; the hardware gives 4.08 to 5.25 V.
LEAST_V: Final = 4.0
MOST_V: Final = 5.3


@dataclass(frozen=True, slots=True)
class PowerState:
    """A switch's report of its output. `volts` is what a meter is set to, None when it does not report it;
    `detail` what a switch says besides, in one line."""

    on: bool
    volts: float | None = None
    detail: str = ""


class PowerSwitch(Protocol):
    """Every call connects, acts, asks the meter whether it did, and hangs up; MeterError when it did not."""

    async def on(self) -> None:
        """Give the board power."""
        ...

    async def off(self) -> None:
        """Cut the board's power: what runs on it is lost."""
        ...

    async def set_volts(self, volts: float) -> None:
        """ConfigError outside of LEAST_V to MOST_V."""
        ...

    async def state(self) -> PowerState:
        """Ask the meter how its output is set."""
        ...


@runtime_checkable
class HasAutorun(Protocol):
    """A switch whose meter also says, and can be set, whether its output comes back on after a reset."""

    async def autorun(self) -> bool:
        """Return whether the output comes back on after a reset."""
        ...

    async def set_autorun(self, on: bool) -> None:
        """Return whether the output shall come back on after a reset."""
        ...
