"""Power over time of every board, thinned for a page: each bin keeps its lowest and its highest reading."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from roambench.contract.phases import Phase
from roambench.report.summaries.evidence import RunEvidence
from roambench.runs.measured.accounts import DeviceEnergy, RunEnergy

MOST_POINTS: Final = 5000
#: All boards of all runs together: about 4 bytes of page each.
_PAGE_POINTS: Final = 200_000
#: The value of a Smart Power 2 line is older than the line; drawn where it belongs.
_DELAY_S: Final = 0.26
_GAP_S: Final = 2.5


def power_data(runs: Sequence[RunEvidence]) -> dict[str, Any] | None:
    """Data of the page's power view, None when no run has a reading."""
    measured = [(run, run.energy) for run in runs if run.energy is not None and run.energy.measured]
    boards = sum(len(energy.devices) for _, energy in measured)
    if not boards:
        return None
    most = min(MOST_POINTS, _PAGE_POINTS // boards)
    longest_s = max((energy.end_ns - energy.start_ns) * 1e-9 for _, energy in measured)
    unit, scale = ("h", 3600.0) if longest_s > 3 * 3600 else ("min", 60.0) if longest_s > 300 else ("s", 1.0)
    return {
        "unit": unit,
        "runs": [
            {
                "label": run.label,
                "devices": [_device(device, energy, scale, most) for device in energy.devices],
            }
            for run, energy in measured
        ],
    }


def thin(
    at: npt.NDArray[np.float64], watts: npt.NDArray[np.float64], most: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """About `most` of the points, in order of time: lowest and highest of equally many in a row.

    So no peak disappears, however short. Every NaN is kept: it breaks the line at a gap. Shape (points,).
    """
    if len(at) <= most:
        return at, watts
    edges = np.linspace(0, len(at), max(1, most // 2) + 1).astype(np.int64)
    keep = set(np.flatnonzero(np.isnan(watts)).tolist())
    for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        part = watts[first:last]
        if not np.isnan(part).all():
            keep.update((first + int(np.nanargmin(part)), first + int(np.nanargmax(part))))
    chosen = np.array(sorted(keep))
    return at[chosen], watts[chosen]


def _device(device: DeviceEnergy, energy: RunEnergy, scale: float, most: int) -> dict[str, Any]:
    readings = device.readings
    at_s: npt.NDArray[np.float64] = (readings.ns - energy.start_ns).astype(np.float64) * 1e-9 - _DELAY_S
    # A break between two readings that are too far apart: the line must not bridge what no meter saw.
    breaks = np.flatnonzero(np.diff(at_s) > _GAP_S)
    at_s = np.insert(at_s, breaks + 1, at_s[breaks] + 1e-3)
    watts = np.insert(readings.watts, breaks + 1, np.nan)
    watts = np.where(np.isfinite(watts), watts, np.nan)
    at, watts = thin(at_s, watts, most)
    phases: dict[str, list[float]] = {}
    for span in device.spans:
        if span.end_ns > span.start_ns:
            borders = ((stamp - energy.start_ns) * 1e-9 / scale for stamp in (span.start_ns, span.end_ns))
            phases.setdefault(span.phase.value, []).extend(round(border, 5) for border in borders)
    return {
        "name": device.device,
        "end": round((energy.end_ns - energy.start_ns) * 1e-9 / scale, 5),
        # Whole numbers take a third of the page: milliseconds since the point before, milliwatts.
        "t": np.diff(np.round(at * 1e3).astype(np.int64), prepend=0).tolist(),
        "w": [None if np.isnan(value) else round(1e3 * value) for value in watts.tolist()],
        "phases": {phase.value: phases[phase.value] for phase in Phase if phase.value in phases},
    }
