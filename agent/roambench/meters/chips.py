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


@dataclass(frozen=True, slots=True)
class Chip:
    """A chip by its data sheet: limits of the relative error (of current and voltage together) and of the
    offset at the shunt, the end of its shunt range, and one conversion of bus and shunt.

    A step of power is `power_factor` steps of current; a step of current is 1 V / (`shunt_steps` x shunt), as
    the kernel's driver sets it. Steps 0: the driver gives no power.
    """

    gain_limit: float
    offset_limit_v: float
    range_v: float
    conversion_s: float
    shunt_steps: float = 0.0
    power_factor: float = 0.0


_INA219: Final = Chip(math.hypot(0.01, 0.01), 200e-6, 0.32, 2 * 532e-6, 100_000, 20)
_INA230: Final = Chip(math.hypot(0.005, 0.005), 50e-6, 0.0819175, 2 * 1.1e-3, 400_000, 25)
_INA226: Final = Chip(math.hypot(0.001, 0.001), 10e-6, 0.0819175, 2 * 1.1e-3, 400_000, 25)
#: TI's data sheets: INA219 and INA220 SBOS448G and SBOS459F (grade A, over temperature), INA226 SBOS547A,
#: INA230 SBOS601, INA231 SBOS644C, INA3221 SBOS576B (a conversion of one of its three channels).
CHIPS: Final = {
    "ina219": _INA219,
    "ina220": _INA219,
    "ina226": _INA226,
    "ina230": _INA230,
    "ina231": _INA230,
    "ina3221": Chip(math.hypot(0.0025, 0.0025), 80e-6, 0.1638, 2 * 1.1e-3),
}


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
        gain = rectangular(math.hypot(chip.gain_limit, _SHUNT, _JOINTS_OHM / ohm))
        offset_w = rectangular(_SUPPLY_V * chip.offset_limit_v / ohm)
        known = chip.shunt_steps and power
        step_w = chip.power_factor / (chip.shunt_steps * ohm) if known else _SUPPLY_V * 1e-3  # whole mA
    return MeterTraits("hwmon", period_s, window_s, window_s, gain, offset_w, step_w=step_w)


#: As usual breakouts and Jetsons have them, for plans: the meter that is read gives its own.
INA219: Final = chip_traits("ina219", 0.1, 0.1)
INA226: Final = chip_traits("ina226", 0.01, 0.1, 0.141)
INA3221: Final = chip_traits("ina3221", 0.01, 0.1, 0.007, power=False)
