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
    text = f"{scale * mean(values):,.{places}f}"
    if len(values) > 1:
        text += f" ± {scale * stdev(values):,.{places}f}"
    return f"{text}{unit}"


def signed_points(values: Sequence[float]) -> str:
    """A difference of accuracies in percentage points, mean ± standard deviation."""
    if not values:
        return numbers.NONE
    text = f"{100.0 * mean(values):+.2f}"
    return f"{text} ± {100.0 * stdev(values):.2f}" if len(values) > 1 else text


def differences(ours: Iterable[PeerRun], reference: Iterable[PeerRun]) -> list[float]:
    """Final accuracy of each run less that of the reference with its seed; seeds that one lacks are left
    out."""
    beside = {run.seed: run.final_accuracy for run in reference}
    return [
        run.final_accuracy - other
        for run in ours
        if run.final_accuracy is not None and (other := beside.get(run.seed)) is not None
    ]


def close(value: float, other: float) -> bool:
    """Whether two settings are the same number, but for rounding."""
    return math.isclose(value, other, abs_tol=1e-9)
