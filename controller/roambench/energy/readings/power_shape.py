"""Power over time as far as it is known, columns that are to be found, and what readings saw; pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from roambench.energy.readings.occupancy import Floats


@dataclass(frozen=True, slots=True)
class Prior:
    """One belief in what columns may draw: covariance, W^2, and how far transfers scatter, as a share."""

    covariance_w2: Floats
    scatter: float


class KnownPower:
    """Power over time as far as it is known, plus columns that are to be found.

    Between `knots_s`, shape (knots,), power is `watts`, shape (knots - 1,), plus the columns that are `on`,
    shape (knots - 1, columns).
    """

    def __init__(self, knots_s: Floats, watts: Floats, on: Floats) -> None:
        self.knots_s, self.watts, self.on = knots_s, watts, on
        step_s = np.diff(knots_s)
        self._joules = np.concatenate(([0.0], np.cumsum(step_s * watts)))
        # By column: of many windows one column after the other is looked up.
        self._on = np.ascontiguousarray(on.T)
        seconds = np.cumsum(step_s * self._on, axis=1)
        self._seconds = np.concatenate((np.zeros((len(seconds), 1)), seconds), axis=1)

    def seen(self, ends_s: Floats, window_s: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Of windows the mean power, same shape, each column's share, shape (columns, *windows), and by how
        much power and columns are more at their ends than at their beginnings.
        """
        begins_s = ends_s - window_s
        last, first = (
            np.clip(np.searchsorted(self.knots_s, at_s, "right") - 1, 0, len(self.watts) - 1)
            for at_s in (ends_s, begins_s)
        )
        into_s, before_s = ends_s - self.knots_s[last], begins_s - self.knots_s[first]
        joules = self._joules[last] + into_s * self.watts[last]
        joules -= self._joules[first] + before_s * self.watts[first]
        on_last, on_first = self._on[:, last], self._on[:, first]
        step_on = on_last - on_first
        on_last *= into_s
        on_last += self._seconds[:, last]
        on_first *= before_s
        on_first += self._seconds[:, first]
        on_last -= on_first
        on_last /= window_s
        return joules / window_s, on_last, self.watts[last] - self.watts[first], step_on


@dataclass(frozen=True, slots=True)
class NearReadings:
    """Readings near borders, shape (readings,) each: arrival, power, variance, and the power of transfers
    that they saw (of which a share scatters).
    """

    at_s: Floats
    watts: Floats
    noise_w2: Floats
    transfer_w: Floats


class Borders(NamedTuple):
    """Borders that one reading saw alone: their times, the share of its window that lies behind, a weight."""

    at_s: Floats
    behind: Floats
    weight: Floats
