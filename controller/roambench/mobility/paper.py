"""MOHAWK's published trace figures, to be printed beside ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from roambench.mobility.statistics import TraceStatistics


@dataclass(frozen=True, slots=True)
class PaperTarget:
    """One figure of the paper and how to read ours off the statistics."""

    label: str
    paper: float
    unit: str
    source: str
    ours: Callable[[TraceStatistics], float]


#: Table 5 says neither over what its means and spreads run: read as mean and sd over (device, step) pairs.
PAPER_TARGETS: Final = (
    PaperTarget("time steps", 744, "steps", "§4.1", lambda s: s.steps),
    PaperTarget("devices", 1000, "", "§4.1", lambda s: s.devices),
    PaperTarget("access points", 100, "", "§4.1", lambda s: s.aps),
    PaperTarget("candidate places", 37_994, "", "§3.1", lambda s: s.places),
    PaperTarget("most devices present at once", 76, "", "§3.1, Fig. 3", lambda s: s.present.max),
    PaperTarget("models aggregated per step, HierFAVG", 15, "", "Table 5", lambda s: s.hierfavg.per_step),
    PaperTarget(
        "models aggregated per step, MOHAWK k2=2", 18, "", "Table 5", lambda s: s.mohawk_k2_2.per_step
    ),
    PaperTarget(
        "models aggregated per step, MOHAWK k2=5", 22, "", "Table 5", lambda s: s.mohawk_k2_5.per_step
    ),
    PaperTarget(
        "models aggregated per step, MOHAWK k2=10", 26, "", "Table 5", lambda s: s.mohawk_k2_10.per_step
    ),
    PaperTarget("distance to nearest AP, mean", 0.91, "km", "Table 5", lambda s: s.nearest_m.mean / 1e3),
    PaperTarget("distance to nearest AP, sd", 0.75, "km", "Table 5", lambda s: s.nearest_m.sd / 1e3),
    PaperTarget("distance to fixed AP, mean", 7.08, "km", "Table 5", lambda s: s.fixed_m.mean / 1e3),
    PaperTarget("distance to fixed AP, sd", 3.92, "km", "Table 5", lambda s: s.fixed_m.sd / 1e3),
    PaperTarget("distance to ring-walk AP, mean", 7.01, "km", "Table 5", lambda s: s.ring_walk_mean_m / 1e3),
    PaperTarget("distance to ring-walk AP, sd", 3.83, "km", "Table 5", lambda s: s.ring_walk_sd_m / 1e3),
)
