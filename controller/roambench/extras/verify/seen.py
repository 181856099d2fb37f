"""A kit as arrays: its readings in order, and the levels of the square wave of load."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.extras.verify.kit import Kit
from roambench.meters.traits import MeterTraits

Floats = npt.NDArray[np.float64]

#: A line may come so late, and be so old beyond its window, before that counts (s).
LATE_S: Final = 0.05
#: Seconds after an edge of the square wave until no reading of any meter holds power of before it.
BROAD_S: Final = 2.0
#: A reading is of one level alone if no edge is this many windows before it.
_WINDOWS: Final = 2.3
#: Levels beside an edge are medians of this many readings: a board that throttles has other ones by and by.
_NEAR: Final = 5


class SeenKit:
    """A kit as arrays, and what the square wave's levels were."""

    def __init__(self, kit: Kit, traits: MeterTraits) -> None:
        self.kit, self.traits = kit, traits
        columns = (kit.series.at_s, kit.series.watts, kit.series.volts, kit.series.amps)
        at, watts, volts, amps = (
            np.array([np.nan if value is None else value for value in column], dtype=np.float64)
            for column in columns
        )
        known = np.isfinite(at) & np.isfinite(watts)
        order = np.argsort(at[known], kind="stable")
        self.at_s, self.watts, self.volts, self.amps = (
            part[known][order] for part in (at, watts, volts, amps)
        )
        self.nominal_s = kit.nominal_s or traits.nominal_s
        self.window_s = traits.window_s
        self.reach_s = _WINDOWS * self.window_s + LATE_S
        self.edges_s = np.sort(np.array(kit.edges_s, dtype=np.float64))

    def within(self, from_s: float, until_s: float) -> npt.NDArray[np.bool_]:
        """Readings of nothing but this time."""
        return np.asarray((self.at_s - self.reach_s >= from_s) & (self.at_s <= until_s))

    def levels(self) -> tuple[Level, Level] | None:
        """Power of the pure readings under load and at rest of the square wave."""
        if len(self.edges_s) < 4:
            return None
        turns = np.searchsorted(self.edges_s, self.at_s, side="right") - 1
        inside = (turns >= 0) & (turns < len(self.edges_s) - 1)
        since_s = self.at_s - self.edges_s[np.clip(turns, 0, None)]
        pure = inside & (since_s >= BROAD_S)
        high, low = (
            Level(self.at_s[chosen], self.watts[chosen])
            for chosen in (pure & (turns % 2 == 0), pure & (turns % 2 == 1))
        )
        return (high, low) if len(high.watts) >= 5 and len(low.watts) >= 5 else None


class Level:
    """One of the square wave's two levels, which may change by and by."""

    def __init__(self, at_s: Floats, watts: Floats) -> None:
        self.at_s, self.watts = at_s, watts
        first = np.clip(np.arange(len(watts)) - _NEAR // 2, 0, max(0, len(watts) - _NEAR))
        self.level_w = np.array([np.median(watts[one : one + _NEAR]) for one in first])

    def at(self, when_s: Floats) -> Floats:
        """The level then."""
        return np.asarray(np.interp(when_s, self.at_s, self.level_w))

    @property
    def noise_w(self) -> float:
        """The distance of readings from it: what 68 % do, for a step of the level is no noise."""
        return float(np.quantile(np.abs(self.watts - self.level_w), 0.68))
