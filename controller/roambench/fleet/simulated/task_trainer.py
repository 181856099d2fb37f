"""Carry out a job of a virtual device, wherever its models come from: the same in every process that
trains."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from roambench.contract.errors import RoambenchError
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.orders import Vector
from roambench.fleet.simulated.job import TrainingJob, TrainingOutcome
from roambench.learning.learner import Learner
from roambench.learning.malloc import keep_freed_memory
from roambench.learning.shards import Images, Labels, Shard
from roambench.learning.training import TrainingResult, single_threaded

Places = npt.NDArray[np.int64]


class TaskTrainer:
    """One warm thread with the training set. `parts` holds every device's indices one after the other,
    `offsets` where each device's begin (one more entry than devices)."""

    def __init__(
        self, learning: LearningSpec, images: Images, labels: Labels, parts: Places, offsets: Places
    ) -> None:
        single_threaded()
        keep_freed_memory()
        self._learner = Learner(learning)
        self._images, self._labels = images, labels
        self._parts, self._offsets = parts, offsets
        self._learner.warm_up()

    def carry_out(
        self,
        job: TrainingJob,
        ap_model: Vector,
        own_model: Vector | None,
        global_model: Vector | None,
        previous_model: Vector | None,
        velocity: Vector | None = None,
    ) -> tuple[TrainingOutcome, TrainingResult | None]:
        """The outcome and what was trained; a job that cannot be done is an outcome that says so."""
        try:
            result = self._learner.train(
                self._shard(job.device),
                job.training,
                ap_model,
                own_model,
                global_model,
                previous_model,
                velocity=velocity,
                keeps_velocity=job.velocity_out_row >= 0,
            )
        except (RoambenchError, ValueError, RuntimeError) as error:
            return TrainingOutcome(refused=str(error)[:500] or type(error).__name__), None
        outcome = TrainingOutcome(
            "",
            result.samples,
            result.sgd_steps,
            result.mean_loss,
            result.mean_squared_loss,
            result.cpu_s,
        )
        return outcome, result

    def _shard(self, device: int) -> Shard:
        chosen = self._parts[self._offsets[device] : self._offsets[device + 1]]
        return Shard(np.asarray(self._images[chosen]), np.asarray(self._labels[chosen]))
