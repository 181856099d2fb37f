"""Numbers per device in a selection's memory, and what a training of each has cost so far."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from roambench.systems.system import Candidates

PerDevice = npt.NDArray[np.float64]


def per_device(offered: Candidates, name: str) -> PerDevice:
    """A copy of the vector of that name that the selection keeps, with a zero for each new device."""
    known = offered.memory.get(name, np.zeros(0))
    found = np.zeros(max(len(known), max(offered.devices, default=-1) + 1))
    found[: len(known)] = known
    return found


def training_j(offered: Candidates, device: int, trainings: PerDevice, assumed_j: float) -> float:
    """Joules of a training of the device with its transfers: the mean of those it had, by what is seen of
    its energy; `assumed_j` before the first."""
    spent_j = offered.energy[device].total.joules
    return spent_j / float(trainings[device]) if trainings[device] and spent_j > 0.0 else assumed_j
