"""Input and result of the loop of decentralised systems."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from roambench.aggregation.mixing_rule import MixingRule
from roambench.contract.errors import ConfigError
from roambench.contract.local_training import LocalTraining
from roambench.contract.orders import Vector
from roambench.rounds.ports import Score
from roambench.vectors import weighted_mean

ONE_BATCH: Final = LocalTraining(steps=1)


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """The numbers of one run. Devices are 0..len(samples)-1, as in the trace."""

    run_id: str
    seed: int
    steps: int
    samples: tuple[int, ...]  # training samples of every device
    mixing: str | MixingRule  # one of aggregation.mixing_rule.MIXINGS, or a system's own
    alpha: float = 0.0  # of mobility-aware mixing
    training: LocalTraining = ONE_BATCH  # the half step; each order adds its seed
    evaluate_every: int = 10
    exchange_mbit_s: float = 0.0  # 0: the links' own speed
    deadline_s: float = 60.0
    orders_to_absent: bool = True  # False: absent devices get no IdleOrder
    spectral_gap_devices: int = 200  # with more devices the spectral gap is not computed (devices³)
    stop_at: float | None = None  # end at the first scored step whose mean score is as good as this
    sees_energy: bool = False  # its mixing rule is given the joules of every device

    def __post_init__(self) -> None:
        problems = [
            f"{name} = {value}: expected at least 1"
            for name, value in (
                ("steps", self.steps),
                ("devices", len(self.samples)),
                ("evaluate_every", self.evaluate_every),
            )
            if value < 1
        ]
        if problems:
            raise ConfigError(problems)

    def scored(self, step: int) -> bool:
        """Return whether everybody's model is scored after this step: every n-th, and the last."""
        return (step + 1) % self.evaluate_every == 0 or step == self.steps - 1


@dataclass(frozen=True, slots=True)
class PeerScores:
    """Scores of the models that devices hold; `average` is of the mean of these models."""

    devices: tuple[int, ...]
    scores: tuple[Score, ...]
    average: Score

    @property
    def mean(self) -> Score:
        """The mean of the devices' accuracies, losses and metrics: the figure of all papers' tables."""
        first = self.scores[0]
        accuracies = [score.accuracy for score in self.scores if score.accuracy is not None]
        return Score(
            float(np.mean(accuracies)) if accuracies else None,
            float(np.mean([score.loss for score in self.scores])),
            {name: float(np.mean([score.metrics[name] for score in self.scores])) for name in first.metrics},
            first.better,
        )


@dataclass(frozen=True, slots=True)
class PeerState:
    """Before step `next_step`. `models`: what devices hold, by device, as they were collected last; from it a
    run goes on bit for bit where there is no momentum, which stays on the devices.

    `waiting`: who has to be given the first model, where all others go on from what they hold themselves;
    None: everybody starts from its model of `models`.
    """

    next_step: int
    models: Mapping[int, Vector]
    waiting: frozenset[int] | None = None
    ended: bool = False  # before the last step: the accuracy was reached

    @property
    def average(self) -> Vector:
        """The mean of all models, summed in ascending order of device."""
        return average_of([self.models[device] for device in sorted(self.models)])


@dataclass(frozen=True, slots=True)
class PeerStep:
    """The progress after a step."""

    step: int
    present: int
    done: int
    left_out: int
    scores: PeerScores | None
    wall_s: float


#: Called when a step is closed, with the state from which the run could be continued on the same devices.
OnPeerStep = Callable[[PeerStep, PeerState], None]
#: Called whenever the models that devices hold were collected, with the state that has them.
OnCollected = Callable[[PeerState], None]


def average_of(models: list[Vector]) -> Vector:
    """De Heredia's Alg. 1 line 8: every model counts the same."""
    return weighted_mean(models, np.full(len(models), 1.0 / len(models)))
