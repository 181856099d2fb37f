"""Local epochs of each device by marginal accuracy per joule, learned while a run goes on; ours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np

from roambench.contract.phases import ACTIVE_PHASES, Phase
from roambench.systems.system import Candidates, Memory

_WINDOWS, _TRAININGS, _EPOCHS = "epoch windows", "trainings ordered", "epochs ordered"
#: The exponent that is assumed before any score, as if this many windows of each kind had shown it: scores of
#: single windows scatter. And how far a measured one is believed.
_PRIOR, _PRIOR_WINDOWS = 0.5, 10.0
_LEAST, _MOST = 0.05, 0.95


@dataclass(slots=True)
class _Windows:
    """Windows from one cloud aggregation to the next, in turn of fewer epochs (0) and of more (1): this one,
    the one that waits for its score, and sums over windows of both kinds."""

    kind: float = 0.0
    sync_step: float = -1.0
    accuracy: float = -1.0  # the best so far; below 0 before any
    trainings: float = 0.0
    epochs: float = 0.0
    waits: float = 0.0
    waiting_trainings: float = 0.0
    waiting_epochs: float = 0.0
    gain_0: float = 0.0
    trainings_0: float = 0.0
    epochs_0: float = 0.0
    windows_0: float = 0.0
    gain_1: float = 0.0
    trainings_1: float = 0.0
    epochs_1: float = 0.0
    windows_1: float = 0.0

    def follow(self, offered: Candidates) -> None:
        """Book the score of a window that ended, and begin another one behind a cloud aggregation."""
        if self.waits and offered.accuracy is not None and offered.step > offered.last_sync_step:
            if self.accuracy >= 0.0:
                self._book(1 - int(self.kind), max(0.0, offered.accuracy - self.accuracy))
            self.accuracy, self.waits = max(self.accuracy, offered.accuracy), 0.0
        elif self.accuracy < 0.0 and offered.accuracy is not None:
            self.accuracy = offered.accuracy
        if offered.last_sync_step > self.sync_step:
            self.sync_step, self.kind, self.waits = offered.last_sync_step, 1.0 - self.kind, 1.0
            self.waiting_trainings, self.waiting_epochs = self.trainings, self.epochs
            self.trainings = self.epochs = 0.0

    def _book(self, kind: int, gain: float) -> None:
        for name, more in (
            ("gain", gain),
            ("trainings", self.waiting_trainings),
            ("epochs", self.waiting_epochs),
            ("windows", 1.0),
        ):
            setattr(self, f"{name}_{kind}", getattr(self, f"{name}_{kind}") + more)

    @property
    def exponent(self) -> float:
        """a, where a training of e epochs gains e^a."""
        if min(self.gain_0, self.gain_1, self.trainings_0, self.trainings_1) <= 0.0:
            return _PRIOR
        gained = (self.gain_1 / self.trainings_1) / (self.gain_0 / self.trainings_0)
        longer = (self.epochs_1 / self.trainings_1) / (self.epochs_0 / self.trainings_0)
        if longer <= 1.0:
            return _PRIOR
        measured = min(_MOST, max(_LEAST, math.log(gained) / math.log(longer)))
        windows = min(self.windows_0, self.windows_1)
        return (_PRIOR_WINDOWS * _PRIOR + windows * measured) / (_PRIOR_WINDOWS + windows)


def marginal_epochs(
    offered: Candidates, chosen: Sequence[int], usual: int, most: int
) -> tuple[dict[int, int], Memory]:
    """Epochs of the chosen devices, 1 to `most`, and what a selection has to keep.

    A training of e epochs gains e^a and costs c + e t joules; t, those of an epoch, and c, those of all else
    that its trainings took, are the device's own so far. Gain per joule is largest where the next epoch's is
    the mean's: e = a c / (t (1 - a)). A device of which nothing is known takes `usual`. a is learned by the
    score of each cloud aggregation, as far as it is the best so far: windows between them take 1 / sqrt 2 and
    sqrt 2 of e in turn.
    """
    windows = _Windows(*offered.memory.get(_WINDOWS, np.array(astuple(_Windows()))).tolist())
    windows.follow(offered)
    devices = max([len(offered.memory.get(_EPOCHS, ())), *(device + 1 for device in offered.devices)])
    trainings, ordered = (np.zeros(devices) for _ in range(2))
    for numbers, name in ((trainings, _TRAININGS), (ordered, _EPOCHS)):
        known = offered.memory.get(name, np.zeros(0))
        numbers[: len(known)] = known
    a, found = windows.exponent, {}
    for device in chosen:
        phases = offered.energy[device].phases
        epoch_j = phases[Phase.TRAIN].joules if Phase.TRAIN in phases else 0.0
        other_j = sum(energy.joules for phase, energy in phases.items() if phase in ACTIVE_PHASES) - epoch_j
        best = float(usual)
        if ordered[device] and epoch_j > 0.0:
            best = a / (1.0 - a) * (other_j / trainings[device]) / (epoch_j / ordered[device])
        factor = math.sqrt(2.0) if windows.kind else math.sqrt(0.5)
        found[device] = min(most, max(1, round(best * factor)))
        ordered[device] += found[device]
        trainings[device] += 1.0
    windows.trainings += len(found)
    windows.epochs += sum(found.values())
    return found, {_WINDOWS: np.array(astuple(windows)), _TRAININGS: trainings, _EPOCHS: ordered}
