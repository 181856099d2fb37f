"""Data-transfer power of a radio, P = alpha * throughput + beta (Huang et al., MobiSys 2012)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LinkPower:
    """Power in mW at throughput t in Mbit/s: alpha_* in mW per Mbit/s, beta in mW."""

    name: str
    alpha_up_mw_per_mbit_s: float
    alpha_down_mw_per_mbit_s: float
    beta_mw: float


LTE = LinkPower("lte", 438.39, 51.97, 1288.04)
WIFI = LinkPower("wifi", 283.17, 137.01, 132.86)
