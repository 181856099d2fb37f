"""What a meter's gain and offset add to an energy's uncertainty, and how to correct what is known of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.contract.errors import ConfigError
from roambench.energy.energy_value import Energy

#: Smart Power 2, from the schematic and the INA231 datasheet (limits, taken whole as standard uncertainty:
#: a cautious reading, a rectangular distribution would give 1/sqrt(3) of it).
SP2_SHUNT: Final = 0.01  # R28, 15 mOhm, 1 %
SP2_CURRENT_GAIN: Final = 0.005
SP2_VOLTAGE_GAIN: Final = 0.005
SP2_BUS_OFFSET_V: Final = 0.030
SP2_SHUNT_OFFSET_A: Final = 50e-6 / 0.015  # 50 uV across the shunt: 3.3 mA
#: The firmware multiplies the power register by 3.81687 mW where the chip means 3.81463 mW.
SP2_WATT_REGISTER_GAIN: Final = 3.81687 / 3.81463


@dataclass(frozen=True, slots=True)
class MeterCalibration:
    """A meter reads `gain` * true + `offset_w`, known within `u_gain` (relative) and `u_offset_w` (k = 1).

    The default is an uncalibrated Smart Power 2 at 5.1 V: readings are taken as they are, 1.36 % for the gain
    and 17 mW for the offset, together 1.6 % at 1.9 W and 1.4 % at 5.1 W.
    """

    gain: float = 1.0
    offset_w: float = 0.0
    u_gain: float = math.sqrt(
        SP2_SHUNT**2 + SP2_CURRENT_GAIN**2 + SP2_VOLTAGE_GAIN**2 + (SP2_BUS_OFFSET_V / 5.1) ** 2
    )
    u_offset_w: float = 5.1 * SP2_SHUNT_OFFSET_A

    def __post_init__(self) -> None:
        problems = [
            f"calibration: {name} is {value}, expected {expected}"
            for name, value, expected, good in (
                ("gain", self.gain, "a positive number", self.gain > 0.0 and math.isfinite(self.gain)),
                ("offset_w", self.offset_w, "a finite number", math.isfinite(self.offset_w)),
                ("u_gain", self.u_gain, "a number >= 0", 0.0 <= self.u_gain < math.inf),
                ("u_offset_w", self.u_offset_w, "a number >= 0", 0.0 <= self.u_offset_w < math.inf),
            )
            if not good
        ]
        if problems:
            raise ConfigError(problems)

    def correct(self, watts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The calibrated power of raw readings, same shape."""
        return (watts - self.offset_w) / self.gain

    def relative_u(self, watts: float) -> float:
        """Relative standard uncertainty of a steady power."""
        return math.hypot(self.u_gain, self.u_offset_w / watts)


#: A meter about which nothing is known but its type.
UNCALIBRATED_SP2: Final = MeterCalibration()
#: An ideal meter, for emulated devices whose gain is known to be 1.
EXACT: Final = MeterCalibration(u_gain=0.0, u_offset_w=0.0)


@dataclass(frozen=True, slots=True)
class UncertaintyBudget:
    """Where an energy's uncertainty comes from: independent standard uncertainties in joules."""

    gain_j: float
    offset_j: float
    sampling_j: float

    @property
    def total_j(self) -> float:
        return math.hypot(self.gain_j, self.offset_j, self.sampling_j)

    @property
    def expanded_j(self) -> float:
        """k = 2: what a table prints after the plus-minus sign."""
        return 2.0 * self.total_j


def budget(energy: Energy, calibration: MeterCalibration) -> UncertaintyBudget:
    """u_E^2 = (g E)^2 + (u_offset T)^2 + u_sampling^2; `energy.u_joules` holds the sampling part alone.

    A gap adds nothing: its joules are not in `energy`, its seconds are in `energy.gap_s`.
    """
    return UncertaintyBudget(
        gain_j=abs(calibration.u_gain * energy.joules),
        offset_j=calibration.u_offset_w * energy.covered_s,
        sampling_j=energy.u_joules,
    )


def with_meter(energy: Energy, calibration: MeterCalibration) -> Energy:
    """The energy with its meter's gain and offset folded into `u_joules`."""
    return Energy(energy.joules, budget(energy, calibration).total_j, energy.covered_s, energy.gap_s)
