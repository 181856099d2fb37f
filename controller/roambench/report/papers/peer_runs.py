"""One decentralised run as the papers' tables see it: its setting and a handful of figures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Final

from roambench.report import numbers

#: The distribution-aware mobility papers' movements, best first.
DAM_NAMES: Final = {"dcm": "DCM", "dam": "DAM", "random": "Random", "static": "Static"}


@dataclass(frozen=True, slots=True)
class PeerRun:
    """Figures are None where the run has none. Accuracies are means over the devices, 0..1; `gap` is that
    of high- minus that of low-mobility devices, over all scored iterations."""

    system: str
    mobility: str  # of `[mobility] model`
    partition: str
    dirichlet: float  # α of the data's split
    fast_share: float  # p
    mixing_alpha: float  # α of mobility-aware mixing
    seed: int
    iterations: int
    final_accuracy: float | None
    average_accuracy: float | None
    gap: float | None
    neighbours: float | None
    connected_within: float | None
    distribution_distance: float | None
    consumed_j: float | None
    joules_per_point: float | None
    best_accuracy: float | None
    clients: int
    grid: int  # G
    mobile: int  # |C_m|
    radius: float  # R_c
    reach: float  # R_m; ∞: no limit

    @property
    def iid(self) -> bool:
        """Whether all devices have data of one distribution."""
        return self.partition == "iid"


def figures(values: Iterable[float | None]) -> list[float]:
    """Those that are there."""
    return [value for value in values if value is not None]


def spread(values: Sequence[float], *, scale: float = 1.0, places: int = 2, unit: str = "") -> str:
    """Mean ± standard deviation over the seeds, or the mean alone."""
    if not values:
        return numbers.NONE
    told = f"{scale * mean(values):,.{places}f}"
    if len(values) > 1:
        told += f" ± {scale * stdev(values):,.{places}f}"
    return f"{told}{unit}"


def signed_points(values: Sequence[float]) -> str:
    """A difference of accuracies in percentage points, mean ± standard deviation."""
    if not values:
        return numbers.NONE
    told = f"{100.0 * mean(values):+.2f}"
    return f"{told} ± {100.0 * stdev(values):.2f}" if len(values) > 1 else told


def by_seed(runs: Iterable[PeerRun]) -> dict[int, PeerRun]:
    """The runs by their seeds."""
    return {run.seed: run for run in runs}


def differences(ours: Iterable[PeerRun], reference: Iterable[PeerRun], scale: float = 1.0) -> list[float]:
    """Final accuracy of each run less that of the reference with its seed; seeds that one lacks are left
    out."""
    beside = by_seed(reference)
    found = []
    for run in ours:
        other = beside.get(run.seed)
        if other is not None and run.final_accuracy is not None and other.final_accuracy is not None:
            found.append(scale * (run.final_accuracy - other.final_accuracy))
    return found


def close(value: float, other: float) -> bool:
    """Whether two settings are the same number, but for rounding."""
    return math.isclose(value, other, abs_tol=1e-9)
