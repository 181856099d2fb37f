"""The values that a firmware holds when it prints, and the layouts by which it spells that as a line."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

#: 12 V adapters are common; these boards were seen with 15.3 V. The converter loses a tenth and 0.6 W.
INPUT_V: Final = 15.3
INPUT_OHM: Final = 0.05
CONVERTER_SHARE: Final = 0.90
OWN_W: Final = 0.6


@dataclass(frozen=True)
class Printout:
    """The values that a firmware holds when it prints. `on`: the output is on.

    `watt_hours` is the meter's own counter after this tick, `watt_hours_before` before it; `meter_ms` its own
    clock, `shunt_v` the voltage at its shunt.
    """

    on: bool
    volts: float
    amps: float
    watts: float
    watt_hours: float = 0.0
    watt_hours_before: float = 0.0
    meter_ms: int = 0
    shunt_v: float = 0.0

    def __getitem__(self, name: str) -> object:
        """A value of this printout by the name that a layout has for it."""
        return getattr(self, name)

    @property
    def mv(self) -> int:
        """Millivolts, as the kernel has them."""
        return round(1e3 * self.volts)

    @property
    def ma(self) -> int:
        """Milliamperes, as the kernel has them."""
        return round(1e3 * self.amps)

    @property
    def uw(self) -> int:
        """Microwatts, as the kernel has them."""
        return round(1e6 * self.watts)

    @property
    def shunt_mv(self) -> int:
        """Millivolts at the shunt, as the kernel has them."""
        return round(1e3 * self.shunt_v)

    @property
    def current(self) -> str:
        """The current as ytrikoz prints it: milliamperes below half an ampere."""
        return f"{1e3 * self.amps:3.0f}mA" if self.amps < 0.5 else f"{self.amps:.2f}A"

    @cached_property
    def supply(self) -> str:
        """A Smart Power 3's first buffer: its clock and its input in mV, mA, mW."""
        input_w = OWN_W + self.watts / CONVERTER_SHARE
        input_a = input_w / INPUT_V
        input_v = INPUT_V - INPUT_OHM * input_a
        mv, ma, mw = int(1e3 * input_v), int(1e3 * input_a), int(1e3 * input_w)
        return f"{self.meter_ms:010d},{mv:05d},{ma:04d},{mw:05d},0,"

    @cached_property
    def board(self) -> str:
        """Its second buffer, channel 0: the board, in mV, mA, mW."""
        if not self.on:
            return "00000,0000,00000,0,00,"
        mv, ma, mw = round(1e3 * self.volts), round(1e3 * self.amps), round(1e3 * self.watts)
        return f"{mv:05d},{ma:04d},{mw:05d},1,00,"

    @property
    def other(self) -> str:
        """Its third buffer, channel 1: nothing."""
        return "00000,0000,00000,0,00"

    @property
    def sums(self) -> str:
        """The checksums of the three buffers."""
        return checksums(f"{self.supply}{self.board}{self.other},".encode(), cast=True)

    @property
    def sums_100(self) -> str:
        """The same, as firmwares up to 1.9 have them."""
        return checksums(f"{self.supply}{self.board}{self.other},".encode(), cast=False)


def checksums(data: bytes, *, cast: bool) -> str:
    """Two's complement of the sum, and the xor. Without the `cast` to a byte a sum of 0 prints as `100`."""
    complement = 256 - (sum(data) & 0xFF)
    if cast:
        complement &= 0xFF
    folded = int.from_bytes(data)
    for shift in range(9, 2, -1):  # halves of one long number onto each other: eight times as fast
        folded ^= folded >> 2**shift
    return f"{complement:02x},{folded & 0xFF:02x}"


@dataclass(frozen=True, slots=True)
class LineLayout:
    """The spelling of a firmware's printout on one transport: `text` is a format string of the printout's
    values.

    `while_off`: it prints while the output is off, too. `most_bytes`: what is longer is cut; 0: nothing is.
    """

    text: str
    while_off: bool = False
    most_bytes: int = 0

    def __call__(self, at: Printout) -> bytes | None:
        """The line's bytes; None prints nothing."""
        if not (at.on or self.while_off):
            return None
        line = self.text.format_map(at).encode()
        return line[: self.most_bytes] if self.most_bytes else line
