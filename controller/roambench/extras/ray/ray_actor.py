"""The far side of the Ray backend: one single-threaded trainer in a process that Ray starts, on any node."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from roambench.contract.errors import reason_of
from roambench.contract.json_values import from_values
from roambench.contract.orders import Vector
from roambench.fleet.simulated.job import TrainingJob, TrainingOutcome, WorkerSetting
from roambench.fleet.simulated.worker import Places, TaskTrainer
from roambench.learning.shards import Images, Labels

#: What has to be equal on every node: models are only comparable where the arithmetic is the same.
PACKAGES = ("roambench", "torch", "numpy")


class TrainingActor:
    """Nothing is raised across the network that describes a user's mistake: `ready` and `train` tell it."""

    def __init__(self) -> None:
        self._trainer: TaskTrainer | None = None

    def ready(
        self, setting: str, images: Images, labels: Labels, parts: Places, offsets: Places
    ) -> dict[str, Any]:
        """Get warm. Tells node, process and versions, and in `refused` why it cannot train."""
        refused = ""
        try:
            learning = WorkerSetting.from_json(setting, "the run's setting").learning
            self._trainer = TaskTrainer(learning, images, labels, parts, offsets)
        except Exception as error:  # a user's model may raise anything
            refused = reason_of(error)[:500]
        return {
            "refused": refused,
            "process": os.getpid(),
            "node": platform.node(),
            "versions": {name: version(name) for name in PACKAGES},
        }

    def train(
        self,
        job: Mapping[str, Any],
        ap_model: Vector,
        own_model: Vector | None,
        global_model: Vector | None,
        previous_model: Vector | None,
    ) -> tuple[TrainingOutcome, Vector | None]:
        """The arguments are read-only views of Ray's store; the model that comes back is new."""
        assert self._trainer is not None
        outcome, trained = self._trainer.carry_out(
            from_values(TrainingJob, job, "job"), ap_model, own_model, global_model, previous_model
        )
        return outcome, None if trained is None else trained.vector
