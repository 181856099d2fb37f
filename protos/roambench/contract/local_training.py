"""One local training of one device: what a system sets reaches the device's learner as one value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LocalTraining:
    """From which start model, towards which objective and for how many mini-batches a device trains.

    What all devices of a run share (batch size, step size, optimiser) is `learning_spec.LearningSpec`.
    """

    epochs: int = 1  # passes over the device's own samples (k1)
    seed: int = 0  # of the batch order and the augmentation; keyed by (run's seed, "train", device, step)
    steps: int = 0  # mini-batches instead, over as many epochs as they take; 0: whole epochs
    objective: str = "ce"  # as `learning.local_algorithms` spells it
    start_rule: str = "ap"  # a name of `learning.start_models`, or "moved|fresh"

    def sgd_steps(self, samples: int, batch_size: int) -> int:
        """Return how many SGD steps it has on `samples` samples."""
        return self.steps or self.epochs * -(-samples // batch_size)
