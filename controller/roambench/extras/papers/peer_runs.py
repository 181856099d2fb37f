"""One decentralised run as the papers' tables have it: its setting and its figures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Final, Protocol

from roambench.report import numbers

#: The distribution-aware mobility papers' movements, best first.
DAM_NAMES: Final = {"dcm": "DCM", "dam": "DAM", "random": "Random", "static": "Static"}


@dataclass(frozen=True, slots=True)
class PeerRun:
    """`figures`: by the names of `report.quantities`. Accuracies are means over the devices, 0..1;
    `mobility_gap` is that of high- minus that of low-mobility devices, over all scored iterations."""

    system: str
    mobility: str  # of `[mobility] model`
    partition: str
    dirichlet: float  # α of the data's split
    fast_share: float  # p
    mixing_alpha: float  # α of mobility-aware mixing
    seed: int
    clients: int
    grid: int  # G
    mobile: int  # |C_m|
    radius: float  # R_c
    reach: float  # R_m; ∞: no limit
    figures: Mapping[str, float | None]

    @property
    def iid(self) -> bool:
        """True where all devices have data of one distribution."""
        return self.partition == "iid"


class _HasFigures(Protocol):
    @property
    def figures(self) -> Mapping[str, float | None]: ...


def known(runs: Iterable[_HasFigures], name: str) -> list[float]:
    """A figure of the runs that have it."""
    return [value for run in runs if (value := run.figures[name]) is not None]


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
    beside = {run.seed: run.figures["final_accuracy"] for run in reference}
    return [
        accuracy - other
        for run in ours
        if (accuracy := run.figures["final_accuracy"]) is not None
        and (other := beside.get(run.seed)) is not None
    ]


def close(value: float, other: float) -> bool:
    """Say whether two settings are the same number, but for rounding."""
    return math.isclose(value, other, abs_tol=1e-9)
