"""Uncertainty from a meter's gain and offset, and the correction of what is known of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.contract.errors import ConfigError
from roambench.energy.energy_value import Energy, UncertaintyPart
from roambench.meters.traits import TRAITS, MeterTraits


@dataclass(frozen=True, slots=True)
class MeterCalibration:
    """A meter reads `gain` * true + `offset_w`, known within `u_gain` (relative) and `u_offset_w` (k = 1).

    `reference` names what the meter was calibrated against and `u_reference` the relative uncertainty of
    that, inside `u_gain`: meters calibrated against one reference are wrong by it together.

    The default uncertainties are those of an uncalibrated Smart Power 2 at 5.1 V: 1.10 % for the gain and
    9.8 mW for the offset, together 1.21 % at 1.9 W and 1.12 % at 5.1 W.
    """

    gain: float = 1.0
    offset_w: float = 0.0
    u_gain: float = TRAITS.load("smartpower2").u_gain
    u_offset_w: float = TRAITS.load("smartpower2").u_offset_w
    u_reference: float = 0.0
    reference: str = ""

    def __post_init__(self) -> None:
        problems = [
            f"calibration: {name} is {value}, expected {expected}"
            for name, value, expected, good in (
                ("gain", self.gain, "a positive number", self.gain > 0.0 and math.isfinite(self.gain)),
                ("offset_w", self.offset_w, "a finite number", math.isfinite(self.offset_w)),
                ("u_gain", self.u_gain, "a number >= 0", 0.0 <= self.u_gain < math.inf),
                ("u_offset_w", self.u_offset_w, "a number >= 0", 0.0 <= self.u_offset_w < math.inf),
                (
                    "u_reference",
                    self.u_reference,
                    f"a number from 0 to u_gain ({self.u_gain})",
                    0.0 <= self.u_reference <= self.u_gain,
                ),
            )
            if not good
        ]
        if problems:
            raise ConfigError(problems)

    def correct(self, watts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The calibrated power of raw readings, same shape."""
        return (watts - self.offset_w) / self.gain


def uncalibrated(row: MeterTraits) -> MeterCalibration:
    """Calibration of a meter of which nothing is known but its type."""
    return MeterCalibration(row.gain, 0.0, row.u_gain, row.u_offset_w)


UNCALIBRATED_SP2: Final = uncalibrated(TRAITS.load("smartpower2"))
#: An ideal meter, for emulated devices whose gain is known to be 1.
EXACT: Final = MeterCalibration(u_gain=0.0, u_offset_w=0.0)


def with_meter(energy: Energy, calibration: MeterCalibration, meter: str = "", dark_s: float = 0.0) -> Energy:
    """The energy with its meter's gain and offset among its terms; `meter` names whose they are. In `dark_s`
    of the covered time nothing was read.

    u_E^2 = (g E)^2 + (u_offset T)^2 + edges + sampling. A gap adds nothing: its joules are not in `energy`,
    its seconds are in `energy.gap_s`.
    """
    u_own = math.sqrt(max(0.0, calibration.u_gain**2 - calibration.u_reference**2))
    return energy.with_terms(
        (UncertaintyPart.GAIN, meter, u_own * energy.joules),
        (UncertaintyPart.GAIN, f"reference {calibration.reference}", calibration.u_reference * energy.joules),
        (UncertaintyPart.OFFSET, meter, calibration.u_offset_w * (energy.covered_s - dark_s)),
    )
