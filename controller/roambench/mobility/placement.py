"""A placement: which access point each present device talks to at one step."""

from __future__ import annotations

from dataclasses import dataclass

from roambench.mobility.trace import FloatColumn, IntColumn


@dataclass(frozen=True)
class Placement:
    """Parallel columns over the devices present at `step`, ascending by device: shape (present,)."""

    step: int
    devices: IntColumn
    aps: IntColumn
    distances_m: FloatColumn
