"""The learner that carries out train orders: one model as a workplace, set up from the learning settings of a
run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from torch import nn

from roambench.contract.errors import ConfigError, ModelError
from roambench.contract.learning_spec import PRECISIONS, LearningSpec
from roambench.contract.local_training import LocalTraining
from roambench.contract.orders import Vector
from roambench.learning.batches import Batches
from roambench.learning.layout import Layout, dtype_of, flatten, head_of, layout_of
from roambench.learning.local_algorithms import local_algorithm
from roambench.learning.perceptron import Perceptron, is_watched, perceptron_of
from roambench.learning.perceptron_stack import PerceptronTask, can_stack, train_stack
from roambench.learning.shards import Shard
from roambench.learning.start_models import StartInputs, start_model
from roambench.learning.task_parts import build_model
from roambench.learning.tasks import has_hook
from roambench.learning.training import TrainingResult, in_format, train

#: Layers that hold nothing, draw nothing and take each image by itself.
_FIXED: Final = (nn.AvgPool2d, nn.MaxPool2d, nn.Flatten, nn.Identity)


def module_of(spec: LearningSpec) -> nn.Module:
    """The run's model in the run's precision. ConfigError names what is unknown or not installed."""
    module = build_model(spec.task, spec.model, spec.in_channels, spec.classes)
    if spec.precision not in PRECISIONS:
        raise ConfigError([f"precision {spec.precision!r}: expected one of {', '.join(PRECISIONS)}"])
    return module.double() if spec.precision == "float64" else module


def fixed_front(module: nn.Module) -> int:
    """Return how many of a sequence's first layers do the same with an image in every training."""
    if type(module) is not nn.Sequential or is_watched(module):
        return 0
    for number, layer in enumerate(module):
        if type(layer) not in _FIXED or is_watched(layer):
            return number
    return 0


class Learner:
    """Trains for any number of devices, one after the other; agents and simulated fleets both use it.

    ConfigError if the settings name an unknown model, or a task that is not installed here.
    """

    def __init__(self, spec: LearningSpec) -> None:
        self._spec = spec
        self._module = module_of(spec)
        self.layout: Layout = layout_of(self._module)
        self._head = head_of(self._module)
        self._front: nn.Module | None = None
        self._behind: nn.Module | Perceptron | None = None
        if (fixed := fixed_front(self._module)) and isinstance(self._module, nn.Sequential):
            self._front, behind = self._module[:fixed], self._module[fixed:]
            self._behind = perceptron_of(behind) or behind

    def prepared(self, shard: Shard) -> Batches | None:
        """The data behind the layers that every training on them begins with: for `train` in place of the
        shard, with the same bits. None where a training begins with the data themselves."""
        spec = self._spec
        if self._front is None or spec.augmentation != "none" or has_hook(spec.task, "batches"):
            return None
        in_format(self._module, spec)
        return Batches(
            shard.images,
            shard.labels,
            channels_last=spec.channels_last,
            dtype=dtype_of(self._module),
            front=self._front,
        )

    def train(
        self,
        shard: Shard | Batches,
        training: LocalTraining,
        ap_model: Vector,
        own_model: Vector | None = None,
        global_model: Vector | None = None,
        previous_model: Vector | None = None,
        *,
        velocity: Vector | None = None,
        keeps_velocity: bool = True,
        kept: Vector | None = None,
    ) -> TrainingResult:
        """Build the start model and train from it on `shard`. `previous_model` is that of the AP where the
        device was before; `velocity` is what the momentum of an earlier training ended with, `kept` what the
        local algorithm left on the device. Where vectors travel with models, they stand behind the models
        here, too. Errors as `train` raises, which says the rest."""
        received: Vector | None = None
        if names := local_algorithm(training.objective).vectors:
            size = self.layout.size + len(names) * self.layout.trained
            for model in (ap_model, own_model, global_model, previous_model):
                if model is not None and model.size != size:
                    raise ModelError(
                        f"local algorithm {training.objective!r}: expected {size} entries, the model's "
                        f"and those of {', '.join(names)}, got {model.size}"
                    )
            received = ap_model[self.layout.size :]
            ap_model = ap_model[: self.layout.size]
            own_model, global_model, previous_model = (
                None if model is None else model[: self.layout.size]
                for model in (own_model, global_model, previous_model)
            )
        inputs = StartInputs(ap_model, own_model, self._head, global_model, previous_model)
        return train(
            self._module,
            shard,
            start_model(training.start_rule, inputs),
            training,
            self._spec,
            global_model=global_model,
            head=self._head,
            velocity=velocity,
            keeps_velocity=keeps_velocity,
            received=received,
            kept=kept,
            behind=self._behind if isinstance(shard, Batches) else None,
        )

    def train_alike(
        self,
        batches: Sequence[Batches],
        trainings: Sequence[LocalTraining],
        models: Sequence[tuple[Vector, Vector | None, Vector | None, Vector | None]],
        velocities: Sequence[Vector | None],
        *,
        keeps_velocity: bool = True,
    ) -> list[TrainingResult | None]:
        """Train for several devices at once, as `perceptron_stack` can where `stacks` says so: `models` are
        the AP's, the device's own, the global and the previous AP's of each."""
        assert isinstance(self._behind, Perceptron)
        tasks = []
        for mine, training, (ap, own, last_global, previous), velocity in zip(
            batches, trainings, models, velocities, strict=True
        ):
            inputs = StartInputs(ap, own, self._head, last_global, previous)
            start = start_model(training.start_rule, inputs)
            tasks.append(PerceptronTask(mine, start, training, last_global, velocity))
        return train_stack(self._behind, tasks, self._spec, self._head, keeps_velocity)

    def steps(self, training: LocalTraining, samples: int) -> tuple[int, int]:
        """The SGD steps of a training on this many samples, and those of an epoch."""
        size = self._spec.batch_size
        return training.sgd_steps(samples, size), -(-samples // size)

    def stacks(self, objective: str) -> bool:
        """Return whether trainings of this objective can be stacked."""
        return isinstance(self._behind, Perceptron) and can_stack(objective, self._spec)

    def warm_up(self, shard: Shard, steps: int = 1) -> float:
        """Throw-away steps on the first batch of the device's `shard`, so that the first order finds
        everything loaded; a single sample is taken twice, as batch statistics need two. Where these samples
        cannot be trained, which is for the order to say, blank ones stand in. Errors as `train` raises.

        Returns the CPU-seconds of one step.
        """
        samples = len(shard.labels)
        first = np.arange(min(self._spec.batch_size, max(2, samples))) % samples
        batch = Shard(shard.images[first], shard.labels[first])
        try:
            return self._throw_away(batch, steps)
        except Exception:  # of the user's model as it meets its data
            return self._throw_away(Shard(np.zeros_like(batch.images), batch.labels), steps)

    def _throw_away(self, batch: Shard, steps: int) -> float:
        # Steps of no size: what is trained for its time alone cannot diverge.
        still = replace(self._spec, learning_rate=0.0)
        training, model = LocalTraining(epochs=steps), flatten(self._module)
        return train(self._module, batch, model, training, still, keeps_velocity=False).cpu_s / steps


def works_channels_last(spec: LearningSpec, shard: Shard) -> bool:
    """Return whether the run's model can be trained on such data with images and weights channels last. Not
    so, for example, where it makes rows of them by `view`. True where it cannot be trained at all: its
    training says why."""

    def fails(channels_last: bool) -> bool:
        try:
            Learner(replace(spec, channels_last=channels_last)).warm_up(shard)
        except Exception:  # any error of the user's model
            return True
        return False

    return not fails(True) or fails(False)
