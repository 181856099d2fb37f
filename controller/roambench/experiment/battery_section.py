"""The table `[battery]`: what devices run on."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from roambench.written.toml_file import Section


class BatterySection(Section):
    """Batteries of devices, drained by measured or modelled joules; without `capacity_wh` there are none
    (docs/batteries.md)."""

    capacity_wh: float = Field(0.0, ge=0.0, description="Watt hours of a full battery; 0: no batteries.")
    start: float = Field(1.0, gt=0.0, le=1.0, description="Charge at the first step, as a share.")
    start_spread: float = Field(
        0.0, ge=0.0, lt=1.0, description="Devices' `start` is within ± this share of it, and at most full."
    )
    cut_off: float = Field(
        0.05, ge=0.0, lt=1.0, description="Charge at or below which a device is off from the next step on."
    )
    back_at: float = Field(0.2, gt=0.0, le=1.0, description="Charge from which on it is back.")
    cut: Literal["power", "absent"] = Field(
        "power",
        description="Without charge the power of a board is cut, or its device is absent only (agents).",
    )
    charging: Literal["never", "at_access_point", "away", "hours", "always"] = Field(
        "never",
        description="When `charge_w` flows: where the trace has the device at an access point, or at none, "
        "between two hours of the trace's day, or always.",
    )
    charge_from_h: float = Field(
        22.0, ge=0.0, lt=24.0, description='Hour (UTC) from which on `charging = "hours"` charges.'
    )
    charge_until_h: float = Field(
        6.0, ge=0.0, le=24.0, description="Hour until which it does, perhaps of the next day."
    )
    charge_w: float = Field(0.0, ge=0.0, description="Watts into the battery while it is charged.")
