"""Published figures of traces, to be printed beside ours: MOHAWK's own, and those of New York's check-ins."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from roambench.mobility.statistics import TraceStatistics


@dataclass(frozen=True, slots=True)
class PaperTarget:
    """One published figure and how to read ours off the statistics. `to` makes it a range."""

    label: str
    paper: float
    unit: str
    source: str
    ours: Callable[[TraceStatistics], float]
    to: float | None = None

    def deviation(self, found: TraceStatistics) -> float:
        """The distance of ours from the figure, relative to it and signed; 0 inside a range."""
        return self.off(self.ours(found))

    def off(self, ours: float) -> float:
        """The same of a value of ours, for example a mean over several traces."""
        bounds = (self.paper, self.paper if self.to is None else self.to)
        nearest = min(max(ours, bounds[0]), bounds[1])
        return (ours - nearest) / nearest


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


def _night(found: TraceStatistics) -> float:
    return sum(_hour(hour)(found) for hour in (3, 4, 5)) / 3


def _hour(hour: int) -> Callable[[TraceStatistics], float]:
    """NaN where it is not known which hour is which: UTC beside local hours would be wrong by half a day."""
    return lambda found: math.nan if found.utc_offset_h is None else found.hour_profile[hour]


_PRESENCE, _DEVICE, _APS, _DAY = "presence", "per device", "100 random APs", "mean day"

#: Foursquare's New York check-ins (TSMC2014) in 17.5 km around 40.7350 N, 73.9900 W, 744 hours from
#: 2012-04-17T00Z, none cut. Hours are local (UTC-4), outages included. Of figures that depend on the draw
#: of 100 APs the range over seeds 42, 182, 392. Aggregates only: the trace is not ours to hand on.
CHECKIN_TARGETS: Final = (
    PaperTarget("time steps", 744, "steps", _PRESENCE, lambda s: s.steps),
    PaperTarget("devices", 882, "", _PRESENCE, lambda s: s.devices),
    PaperTarget("devices present, mean", 24.3, "", _PRESENCE, lambda s: s.present.mean),
    PaperTarget("devices present, mean of non-empty", 30.3, "", _PRESENCE, lambda s: s.present_mean_nonempty),
    PaperTarget("most devices present at once", 80, "", _PRESENCE, lambda s: s.present.max),
    PaperTarget("empty steps", 149, "steps", _PRESENCE, lambda s: s.empty_steps),
    PaperTarget("hours per device, least", 1, "h", _DEVICE, lambda s: s.steps_per_device.min),
    PaperTarget("hours per device, q25", 7, "h", _DEVICE, lambda s: s.steps_per_device.p25),
    PaperTarget("hours per device, median", 16, "h", _DEVICE, lambda s: s.steps_per_device.median),
    PaperTarget("hours per device, q75", 28, "h", _DEVICE, lambda s: s.steps_per_device.p75),
    PaperTarget("hours per device, most", 155, "h", _DEVICE, lambda s: s.steps_per_device.max),
    PaperTarget("gap between appearances, median", 14, "h", _DEVICE, lambda s: s.gap_steps.median),
    PaperTarget("gap between appearances, mean", 28.5, "h", _DEVICE, lambda s: s.gap_steps.mean),
    PaperTarget("distance to nearest AP, median", 253, "m", _APS, lambda s: s.nearest_m.median, 303),
    PaperTarget("distance to nearest AP, p90", 1150, "m", _APS, lambda s: s.nearest_m.p90, 1280),
    PaperTarget("distance to nearest AP, most", 5800, "m", _APS, lambda s: s.nearest_m.max, 6800),
    PaperTarget("within 100 m of it", 11, "%", _APS, lambda s: 100 * s.share_on_wifi, 14),
    PaperTarget("occupied APs per non-empty step", 23, "", _APS, lambda s: s.occupied_aps.mean),
    PaperTarget("most occupied APs", 50, "", _APS, lambda s: s.occupied_aps.max, 57),
    PaperTarget("devices per occupied AP", 1.3, "", _APS, lambda s: s.devices_per_occupied_ap.mean),
    PaperTarget("busiest AP", 2.8, "%", _APS, lambda s: 100 * s.busiest_ap_share, 3.8),
    PaperTarget("another AP at next appearance", 69, "%", _APS, lambda s: 100 * s.ap_change_rate, 70),
    PaperTarget("aggregated per step, HierFAVG", 2.873, "", _DEVICE, lambda s: s.hierfavg.per_step),
    PaperTarget("aggregated per step, MOHAWK k2=2", 3.693, "", _DEVICE, lambda s: s.mohawk_k2_2.per_step),
    PaperTarget("aggregated per step, MOHAWK k2=5", 5.306, "", _DEVICE, lambda s: s.mohawk_k2_5.per_step),
    PaperTarget("aggregated per step, MOHAWK k2=10", 7.206, "", _DEVICE, lambda s: s.mohawk_k2_10.per_step),
    PaperTarget("present at 0 h", 13, "", _DAY, _hour(0)),
    PaperTarget("present at 3, 4, 5 h, mean", 4.1, "", _DAY, _night),
    PaperTarget("present at 6 h", 11.5, "", _DAY, _hour(6)),
    PaperTarget("present at 8 h", 41, "", _DAY, _hour(8)),
    PaperTarget("present at 9 h", 48, "", _DAY, _hour(9)),
    PaperTarget("present at 15 h", 27.5, "", _DAY, _hour(15)),
    PaperTarget("present at 18 h", 41.5, "", _DAY, _hour(18)),
    PaperTarget("present at 23 h", 17, "", _DAY, _hour(23)),
)
