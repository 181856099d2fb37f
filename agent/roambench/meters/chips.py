"""Chips behind the kernel's power sensors: limits by their data sheets, and the traits that follow."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from roambench.meters.traits import UNCALIBRATED_RAIL, MeterTraits, rectangular

#: Output voltage for which an offset in amperes is one in watts.
_SUPPLY_V: Final = 5.1
#: The tolerance of a shunt, which no chip knows (assumed), and of solder and copper at its taps.
_SHUNT: Final = 0.01
_JOINTS_OHM: Final = 0.2e-3
#: What the kernel takes a shunt for where neither device tree nor a person says (`ina2xx.c`).
_DEFAULT_OHM: Final = 0.01


#: How much warmer than 25 degrees a chip beside a board may be, K (assumed).
_WARMER_K: Final = 35.0


@dataclass(frozen=True, slots=True)
class Chip:
    """A chip by its data sheet: limits of the relative error of the shunt's and of the bus's voltage, and its
    drift with temperature; limits of their offsets; the end of the shunt's range, its step, and one
    conversion of bus and shunt.

    A step of current is a step of the shunt's voltage, as the kernel's driver sets it, and one of power
    `power_factor` of these; 0: the driver gives no power. `averages` are the rounds of conversions that the
    driver sets (`ina2xx.c`) and `update_interval` changes.
    """

    gain_limit: float
    offset_v: float
    bus_offset_v: float
    range_v: float
    shunt_step_v: float
    conversion_s: float
    drift_per_k: float = 0.0
    power_factor: float = 0.0
    averages: int = 1

    @property
    def usual_update_s(self) -> float:
        """Seconds over which it averages unless `update_interval` is set."""
        return self.averages * self.conversion_s

    @property
    def u_gain(self) -> float:
        """Relative standard uncertainty of power: of shunt and bus alike, and of the bus's offset."""
        one = self.gain_limit + self.drift_per_k * _WARMER_K
        return rectangular(math.hypot(one, one, self.bus_offset_v / _SUPPLY_V))


#: Errors of the INA219 are over temperature (grade A), and hold those of its bus's offset.
_INA219: Final = Chip(0.01, 200e-6, 0.0, 0.32, 10e-6, 2 * 532e-6, power_factor=20)
_INA230: Final = Chip(0.005, 50e-6, 30e-3, 0.0819175, 2.5e-6, 2 * 1.1e-3, 50e-6, 25, 16)
#: Electrical characteristics of TI's data sheets: INA219 and INA220 SBOS448G and SBOS459D, INA226 SBOS547B,
#: INA230 SBOS601, INA231 SBOS644 (the bus's offset is the INA230's), INA3221 SBOS576A (a conversion of one of
#: its three channels).
CHIPS: Final = {
    "ina219": _INA219,
    "ina220": _INA219,
    "ina226": Chip(0.001, 10e-6, 7.5e-3, 0.0819175, 2.5e-6, 2 * 1.1e-3, 50e-6, 25, 16),
    "ina230": _INA230,
    "ina231": _INA230,
    "ina3221": Chip(0.0025, 80e-6, 16e-3, 0.1638, 40e-6, 2 * 1.1e-3, 50e-6),
}

#: Chips whose driver has no `update_interval`: they average nothing.
UNAVERAGED: Final = frozenset({"ina219", "ina220"})


def chip_traits(
    name: str, shunt_ohm: float, interval_s: float, update_s: float = 0.0, *, power: bool = True
) -> MeterTraits:
    """Traits of one line of the chip `name`, read each `interval_s`, with a new value each `update_s`.

    `update_s` 0: after each conversion; `shunt_ohm` 0: the kernel's default; `power`: its driver gives power.
    """
    chip = CHIPS.get(name)
    window_s = update_s or (chip.conversion_s if chip is not None else interval_s)
    period_s = max(interval_s, window_s)
    if chip is None:
        plain = UNCALIBRATED_RAIL
        gain, offset_w, step_w = plain.u_gain, plain.u_offset_w, plain.step_w
    else:
        ohm = shunt_ohm or _DEFAULT_OHM
        gain = math.hypot(chip.u_gain, rectangular(_SHUNT), rectangular(_JOINTS_OHM / ohm))
        offset_w = rectangular(_SUPPLY_V * chip.offset_v / ohm)
        step_a = chip.shunt_step_v / ohm
        # Without power the driver gives whole mA.
        step_w = chip.power_factor * step_a if chip.power_factor and power else _SUPPLY_V * max(1e-3, step_a)
    return MeterTraits("hwmon", period_s, window_s, window_s, gain, offset_w, step_w=step_w)


#: As usual breakouts and Jetsons have them, for plans: the meter that is read gives its own.
INA219: Final = chip_traits("ina219", 0.1, 0.1)
INA226: Final = chip_traits("ina226", 0.01, 0.1, 0.141)
INA3221: Final = chip_traits("ina3221", 0.01, 0.1, 0.007, power=False)
