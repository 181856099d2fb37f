"""Trains many devices' models as one batch: what `learning.training.train` does for each, up to rounding."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from roambench.contract.errors import ModelError, RoambenchError
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.orders import Vector
from roambench.fleet.simulated.stacked_feed import StackedFeed
from roambench.fleet.simulated.stacked_graphs import GraphedStep
from roambench.fleet.simulated.stacked_model import StackedModel
from roambench.learning.hooks import sample_loss
from roambench.learning.learner import module_of
from roambench.learning.local_algorithms import local_algorithm as find_algorithm
from roambench.learning.optimisers import optimiser_of
from roambench.learning.shards import Shard
from roambench.learning.training import ProximalTerms, TrainingResult


@dataclass(frozen=True, slots=True)
class StackedTask:
    """One device's training: `steps` mini-batches of `objective` on `shard` from the flat model `start`."""

    shard: Shard
    start: Vector
    global_model: Vector | None
    objective: str
    steps: int
    seed: int


class StackedLearner:
    """At most `stack` models at once. `autocast`: convolutions and products in bfloat16, the rest as it is.
    `graphs`: on a GPU, steps of SGD are replayed.

    ConfigError if the model is unknown or cannot be stacked.
    """

    def __init__(
        self,
        spec: LearningSpec,
        *,
        stack: int,
        device: str = "cpu",
        autocast: bool = False,
        graphs: bool = True,
    ) -> None:
        self._spec, self._stack, self._autocast = spec, stack, autocast
        self._graphs = graphs and device != "cpu" and spec.optimiser == "sgd"  # Adam counts its steps
        self._model = StackedModel(module_of(spec), torch.device(device))
        self.size, self.head = self._model.layout.size, self._model.head
        self.trainings = self.stacks = 0  # so far
        self._fills_up = self._model.check((spec.in_channels, spec.height, spec.width))

    def train(self, tasks: Sequence[StackedTask]) -> list[TrainingResult | str]:
        """One result per task, in the order given; a text says why there is none."""
        results: list[TrainingResult | str] = [_mistake(task, self.size) for task in tasks]
        sound = [index for index, mistake in enumerate(results) if not mistake]
        for stack in self._stacks(tasks, sound):
            self.trainings, self.stacks = self.trainings + len(stack), self.stacks + 1
            found: list[TrainingResult | str]
            try:
                found = self._train_stack([tasks[index] for index in stack])
            except RoambenchError as error:  # of a loss of another package
                found = [str(error)] * len(stack)
            for index, result in zip(stack, found, strict=True):
                results[index] = result
        return results

    def _stacks(self, tasks: Sequence[StackedTask], indices: list[int]) -> Iterator[list[int]]:
        """Groups that train together: one objective, and no more than twice the shortest one's steps.

        Where filling up a batch would change it, only devices with equally many samples.
        """
        groups: dict[tuple[str, int], list[int]] = {}
        for index in indices:
            samples = 0 if self._fills_up else len(tasks[index].shard.labels)
            groups.setdefault((tasks[index].objective, samples), []).append(index)
        for group in groups.values():
            group.sort(key=lambda index: -tasks[index].steps)  # stable: equal ones stay as they came
            stack: list[int] = []
            for index in group:
                if stack and (len(stack) == self._stack or tasks[stack[0]].steps > 2 * tasks[index].steps):
                    yield stack
                    stack = []
                stack.append(index)
            yield stack

    def _train_stack(self, tasks: list[StackedTask]) -> list[TrainingResult | str]:
        """A task with fewer steps than others is taken out after its last one; what it does then is lost."""
        began_s = time.process_time()
        model, spec = self._model, self._spec
        feed = StackedFeed(
            spec, [task.shard for task in tasks], [task.seed for task in tasks], model.dtype, model.device
        )
        entries = model.entries(np.stack([task.start for task in tasks]))
        parameters = [entry.requires_grad_() for entry in entries[: model.parameters]]
        counters = model.counters(len(tasks))
        objective = find_algorithm(tasks[0].objective)
        loss = sample_loss(tasks[0].objective, objective, spec.task)
        anchors: list[Tensor] = []
        if objective.needs_global:
            anchors = model.entries(
                np.stack([task.global_model for task in tasks if task.global_model is not None])
            )
        with torch.no_grad():
            proximal = ProximalTerms(objective, entries[: model.parameters], anchors, model.in_head)
        optimiser = optimiser_of(
            spec.optimiser, parameters, spec.learning_rate, spec.momentum, spec.weight_decay
        )
        models: dict[int, Vector] = {}
        step_losses: list[Tensor] = []
        steps = [task.steps for task in tasks]

        def step(pixels: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
            with torch.autocast(model.device.type, torch.bfloat16, enabled=self._autocast):
                logits = model.logits(entries, counters, pixels)
            losses = loss(logits.flatten(0, 1), labels.flatten(0, 1)).view(weights.shape)
            gradients = list(torch.autograd.grad((losses * weights).sum(), parameters))
            with torch.no_grad():
                proximal.add_to(gradients, parameters)
                optimiser.step(gradients)
            return losses.detach()

        carry_out = GraphedStep(step) if self._graphs else step
        for number in range(max(steps)):
            step_losses.append(carry_out(*feed.step(number)))
            with torch.no_grad():
                ended = [index for index, count in enumerate(steps) if count == number + 1]
                if ended:
                    models.update(zip(ended, model.flat(entries, ended), strict=True))
        cpu_s = (time.process_time() - began_s) / sum(steps)
        losses_of = [step.cpu().numpy() for step in step_losses]
        results: list[TrainingResult | str] = []
        for index, task in enumerate(tasks):
            if not np.isfinite(models[index]).all():
                results.append(f"training diverged after {task.steps} steps: the model holds NaN or infinity")
                continue
            first = max(0, task.steps - int(feed.per_epoch[index]))
            last = np.concatenate(
                [
                    losses_of[number][index, : feed.counts(number)[index]]
                    for number in range(first, task.steps)
                ]
            ).astype(np.float64)
            results.append(
                TrainingResult(
                    vector=models[index],
                    samples=len(task.shard.labels),
                    sgd_steps=task.steps,
                    mean_loss=float(np.mean(last)),
                    mean_squared_loss=float(np.mean(last * last)),
                    cpu_s=cpu_s * task.steps,
                )
            )
        return results


def _mistake(task: StackedTask, size: int) -> str:
    """Return why the task cannot be done, in the words of `train`; empty if it can."""
    try:
        objective = find_algorithm(task.objective)
        if objective.changes_steps:
            raise ModelError(
                f"objective {task.objective!r} corrects, clips or schedules steps, which the stacked backend "
                'cannot: expected simulated.backend = "workers" or "ray"'
            )
        if task.steps < 1:
            raise ValueError(f"training needs one or more steps, got {task.steps}")
        if task.start.shape != (size,):
            raise ModelError(f"the model has {size} parameters, the vector shape {task.start.shape}")
        if objective.needs_global and task.global_model is None:
            raise ModelError("the objective needs the last global model, and this device holds none")
    except (RoambenchError, ValueError) as error:
        return str(error)
    return ""
