"""The measure of a model on the test set: a name, and which values of it are better."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from roambench.contract.printable import printable

Better = Literal["higher", "lower"]


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure of a model on the test set, and whether higher or lower values of it are better."""

    name: str
    better: Better

    def reaches(self, value: float, wanted: float) -> bool:
        """Return whether `value` is at least as good as `wanted`; NaN never is."""
        return value >= wanted if self.better == "higher" else value <= wanted

    def best(self, values: Iterable[float]) -> float | None:
        """The best of `values`, None of none."""
        return (max if self.better == "higher" else min)(values, default=None)

    @property
    def key(self) -> str:
        """The name as part of a file's name or a figure's key."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")

    @property
    def axis(self) -> str:
        """Return what stands beside an axis of it."""
        return f"{self.name}, %" if self == ACCURACY else f"{self.name} ({self.better} is better)"

    def shown(self, value: float) -> float:
        """The value as axes have it: accuracy in percent."""
        return 100.0 * value if self == ACCURACY else value

    def text(self, value: float) -> str:
        """The value as it is printed: accuracy in percent, all else with four significant digits."""
        return f"{100.0 * value:.1f} %" if self == ACCURACY else f"{value:.4g}"

    def wanted(self, threshold: float) -> str:
        """A threshold as it is printed."""
        return f"{100.0 * threshold:g} %" if self == ACCURACY else f"{threshold:g}"


#: Share of the test set (0..1) whose class is right: the metric of every task whose labels are classes.
ACCURACY: Final = Metric("accuracy", "higher")


#: Columns of a run's steps, in which metrics are columns, too.
TAKEN: Final = frozenset({
    "step", "present", "aggregated", "outstanding", "participating_aps", "cloud", "accuracy", "loss",
    "wall_s", "local model divergence",
})  # fmt: skip
_MOST_LETTERS: Final = 60


def name_of_foreign_metric(name: str) -> str:
    """A name for a metric of an app, which may have any: printable, of some length, and no column's."""
    found = printable(name[:_MOST_LETTERS])
    return f"{found} of the app" if found in TAKEN else found
