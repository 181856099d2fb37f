"""The table `[battery]`: what virtual devices run on."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from roambench.written.toml_file import Section


class BatterySection(Section):
    """Batteries of virtual devices (`--fleet simulated`); without `capacity_wh` there are none
    (docs/simulating.md)."""

    capacity_wh: float = Field(0.0, ge=0.0, description="Watt hours of a full battery; 0: no batteries.")
    start: float = Field(1.0, gt=0.0, le=1.0, description="Charge at the first step, as a share.")
    start_spread: float = Field(
        0.0, ge=0.0, lt=1.0, description="Devices' `start` is within ± this share of it, and at most full."
    )
    cut_off: float = Field(
        0.05, ge=0.0, lt=1.0, description="Charge at or below which a device is off from the next step on."
    )
    back_at: float = Field(0.2, gt=0.0, le=1.0, description="Charge from which on it is back.")
    charging: Literal["never", "at_access_point", "always"] = Field(
        "never",
        description="When `charge_w` flows: where the trace has the device at an access point, or always.",
    )
    charge_w: float = Field(0.0, ge=0.0, description="Watts into the battery while it is charged.")
