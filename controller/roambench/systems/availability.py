"""A forecast of who will be at an access point, from the steps that a selection has seen: no look-ahead."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.systems.system import Candidates, Memory

_STEPS: Final = "steps seen"
_PRESENT: Final = "steps present"
Counts = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PresenceForecast:
    """Steps that were seen, and those of them at which each device was offered, by their place in a period
    (a day of 24 steps of an hour).

    `steps` has the shape (period,), `present` (devices, period). A device that is present but has a model to
    deliver first is not offered: it counts as away.
    """

    steps: Counts
    present: Counts

    @classmethod
    def at(cls, offered: Candidates, period: int) -> PresenceForecast:
        """The counts when these are offered: those in `offered.memory`, and who is there now."""
        steps = np.zeros(period) + offered.memory.get(_STEPS, 0.0)
        known = offered.memory.get(_PRESENT, np.zeros(0)).reshape(-1, period)
        present = np.zeros((max(len(known), max(offered.devices, default=-1) + 1), period))
        present[: len(known)] = known
        place = offered.step % period
        steps[place] += 1.0
        present[list(offered.devices), place] += 1.0
        return cls(steps, present)

    @property
    def memory(self) -> Memory:
        """The counts as a selection keeps them, so that `at` finds them at the next step."""
        return {_STEPS: self.steps, _PRESENT: self.present.reshape(-1)}

    def chance(self, device: int, step: int) -> float:
        """The chance that a device that was seen before is there at `step`: (n_h + q) / (N_h + 1).

        n_h of the N_h steps at the same place of the period had it; q = (n + 1) / (N + 2) is Laplace's rule
        over all steps, and counts as one more of them.
        """
        place = step % len(self.steps)
        seen, there = float(self.steps.sum()), float(self.present[device].sum())
        share = (there + 1.0) / (seen + 2.0)
        return (float(self.present[device, place]) + share) / (float(self.steps[place]) + 1.0)

    def chance_within(self, device: int, step: int, steps: int) -> float:
        """The chance that it is there at one of `steps` steps behind `step`, as if they were independent."""
        return 1.0 - math.prod(
            1.0 - self.chance(device, later) for later in range(step + 1, step + steps + 1)
        )
