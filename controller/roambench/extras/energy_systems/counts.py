"""Numbers per device in a selection's memory, and the joules of a training of each so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.contract.phases import ACTIVE_PHASES, Phase
from roambench.systems.system import Candidates

PerDevice = npt.NDArray[np.float64]
_NONE: Final = 0.1  # of a training's joules
_NAMES: Final = ("trainings", "trainings seen", "joules of training seen")


def per_device(offered: Candidates, name: str) -> PerDevice:
    """A copy of the vector of that name that the selection keeps, with a zero for each new device."""
    known = offered.memory.get(name, np.zeros(0))
    found = np.zeros(max(len(known), max(offered.devices, default=-1) + 1))
    found[: len(known)] = known
    return found


class TrainingCosts:
    """Joules of a training of each device, by what is seen of its energy, and the selection's own count of
    the trainings that it ordered.

    A training costs the gross joules of trainings, transfers and coding; what a board draws between them is
    none of it. Trainings count by the joules of training that were seen since the last look: one at first,
    then as many as their mean so far goes into them, a tenth of one being none (an order that failed, or an
    estimate that was revised), never more than were ordered.
    """

    def __init__(self, offered: Candidates) -> None:
        self.ordered, self._counted, self._train_j = (per_device(offered, name) for name in _NAMES)
        self._work_j = dict[int, float]()
        for device in offered.devices:
            phases = offered.energy[device].phases
            joules = {phase: phases[phase].joules for phase in ACTIVE_PHASES if phase in phases}
            self._work_j[device] = sum(joules.values())
            more_j = joules.get(Phase.TRAIN, 0.0) - self._train_j[device]
            mean_j = self._train_j[device] / self._counted[device] if self._counted[device] else more_j
            if more_j > _NONE * mean_j:
                more = max(1.0, np.rint(more_j / mean_j))
                self._counted[device] = min(self._counted[device] + more, self.ordered[device])
                self._train_j[device] += more_j

    def of(self, device: int, assumed_j: float) -> float:
        """The mean of the device's trainings; `assumed_j` before the first."""
        counted = float(self._counted[device])
        return self._work_j[device] / counted if counted else assumed_j

    def kept_with(self, chosen: Sequence[int]) -> dict[str, PerDevice]:
        """The memory of the selection that orders these trainings."""
        self.ordered[list(chosen)] += 1.0
        return dict(zip(_NAMES, (self.ordered, self._counted, self._train_j), strict=True))
