"""Trainings of one length on a perceptron, all at once: a small model's steps are all overhead.

Products of matrices are those of `torch.bmm`, which gives the bits of `torch.mm` where both call one kernel;
who trains so compares (`fleet.simulated.worker.TaskTrainer`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from roambench.contract.errors import ConfigError
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.local_training import LocalTraining
from roambench.contract.orders import Vector
from roambench.learning.batches import Batches
from roambench.learning.local_algorithms import cross_entropy
from roambench.learning.local_algorithms import local_algorithm as find_algorithm
from roambench.learning.optimisers import Sgd, optimiser_of
from roambench.learning.perceptron import ATEN, EACH, Perceptron, losses_of
from roambench.learning.shards import IGNORED
from roambench.learning.task_parts import own_loss
from roambench.learning.training import ProximalTerms, TrainingResult

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PerceptronTask:
    """A training as `learning.training.train` has it. All of a stack have as many batches in an epoch and as
    many steps, one objective, and a global model and a velocity each, or none."""

    batches: Batches
    start: Vector
    training: LocalTraining
    global_model: Vector | None = None
    velocity: Vector | None = None


def can_stack(objective: str, spec: LearningSpec) -> bool:
    """Return whether such trainings of a perceptron are cross-entropy, proximal terms and an optimiser."""
    try:
        found = find_algorithm(objective)
    except ConfigError:  # its training says why
        return False
    misfit = found.misfit(spec.optimiser, spec.momentum)
    return (
        found.loss is cross_entropy and own_loss(spec.task) is None and not found.changes_steps and not misfit
    )


def train_stack(
    perceptron: Perceptron,
    tasks: Sequence[PerceptronTask],
    spec: LearningSpec,
    head: slice,
    keeps_velocity: bool,
) -> list[TrainingResult | None]:
    """A result for each task, in the order given; None where the training diverged. ValueError or
    RuntimeError for tasks that are no stack."""
    began_s = time.thread_time()
    first, samples = tasks[0], np.array([task.batches.samples for task in tasks])
    objective = find_algorithm(first.training.objective)
    steps = first.training.sgd_steps(first.batches.samples, spec.batch_size)
    per_epoch = -(-first.batches.samples // spec.batch_size)
    entries = _stacked([task.start for task in tasks], perceptron)
    globals_ = _stacked([task.global_model for task in tasks], perceptron) if objective.needs_global else []
    force = ProximalTerms(objective, entries, globals_, perceptron.in_slice(head))
    optimiser = optimiser_of(spec.optimiser, entries, spec.learning_rate, spec.momentum, spec.weight_decay)
    if isinstance(optimiser, Sgd) and spec.momentum and first.velocity is not None:
        optimiser.velocities = _stacked([task.velocity for task in tasks], perceptron)
    losses: list[list[npt.NDArray[Any]]] = []
    with torch.no_grad():
        for number in range(steps):
            epoch, begin = divmod(number * spec.batch_size, per_epoch * spec.batch_size)
            if begin == 0:
                inputs, targets = _dealt(tasks, epoch, per_epoch * spec.batch_size)
            batch = slice(begin, begin + spec.batch_size)
            sizes = np.minimum(samples - begin, spec.batch_size)
            found, gradients = _losses(entries, inputs[:, batch], targets[:, batch], sizes)
            force.add_to(gradients, entries)
            optimiser.step(gradients)
            losses.append([row[:size] for row, size in zip(found, sizes, strict=True)])
    models = _flat(entries)
    last = [np.concatenate(rows).astype(np.float64) for rows in zip(*losses[-per_epoch:], strict=True)]
    velocities = optimiser.velocities if isinstance(optimiser, Sgd) and keeps_velocity else None
    moved = None if velocities is None else _flat(velocities)
    cpu_s = (time.thread_time() - began_s) / len(tasks)
    return [
        TrainingResult(
            model,
            int(samples[index]),
            steps,
            float(last[index].mean()),
            float((last[index] * last[index]).mean()),
            cpu_s,
            None if moved is None else moved[index],
        )
        if np.isfinite(model).all()
        else None
        for index, model in enumerate(models)
    ]


def _dealt(tasks: Sequence[PerceptronTask], epoch: int, width: int) -> tuple[Tensor, Tensor]:
    """Inputs (models, samples, features) and targets of an epoch: for devices with fewer samples than others
    blank ones up to `width`, which count for nothing."""
    dealt = [next(iter(task.batches.epoch(task.training.seed, epoch, width))) for task in tasks]
    if len({len(labels) for _, labels in dealt}) > 1:
        blank, label = (
            dealt[0][0].new_zeros(width, dealt[0][0].shape[1]),
            dealt[0][1].new_full((width,), IGNORED),
        )
        dealt = [
            (torch.cat([rows, blank[len(rows) :]]), torch.cat([labels, label[len(rows) :]]))
            for rows, labels in dealt
        ]
    inputs, targets = zip(*dealt, strict=True)
    return torch.stack(inputs), torch.stack(targets)


def _losses(
    entries: Sequence[Tensor], inputs: Tensor, targets: Tensor, sizes: Counts
) -> tuple[npt.NDArray[Any], list[Tensor]]:
    """Losses (models, n) as `Perceptron.losses` has them, and the gradients of each model's mean over
    the first `sizes` samples."""
    models, samples = targets.shape
    weights, biases = entries[::2], entries[1::2]
    values = [inputs]
    for weight, bias in zip(weights, biases, strict=True):
        if len(values) > 1:
            values[-1].relu_()
        values.append(torch.baddbmm(bias[:, None], values[-1], weight.transpose(1, 2)))
    logs = torch.log_softmax(values.pop(), 2).flatten(0, 1)
    labels, one = targets.reshape(-1), logs.new_ones(())
    losses = losses_of(logs, labels)
    share = (one / torch.from_numpy(sizes))[:, None].to(one.dtype).expand(models, samples).reshape(-1)
    slope = ATEN.nll_loss_backward.default(share, logs, labels, None, EACH, IGNORED, one)
    slope = ATEN._log_softmax_backward_data.default(slope, logs, 1, logs.dtype).view(models, samples, -1)
    gradients: list[Tensor] = []
    for number in reversed(range(len(weights))):
        gradients[:0] = _summed(slope, values[number], sizes)
        if number:
            slope = ATEN.threshold_backward.default(slope.bmm(weights[number]), values[number], 0)
    return losses.view(models, samples).numpy(), gradients


def _summed(slope: Tensor, values: Tensor, sizes: Counts) -> tuple[Tensor, Tensor]:
    """Gradients of each model's weight and bias. Sums over samples have other bits where blank ones are among
    them."""
    if (sizes == slope.shape[1]).all():
        return slope.transpose(1, 2).bmm(values), slope.sum(1)
    each = [(own[:size], value[:size]) for own, value, size in zip(slope, values, sizes, strict=True)]
    return torch.stack([own.t().mm(value) for own, value in each]), torch.stack(
        [own.sum(0) for own, _ in each]
    )


def _stacked(vectors: Sequence[Vector | None], perceptron: Perceptron) -> list[Tensor]:
    """The entries of flat models, each (models, *shape)."""
    whole = torch.from_numpy(np.stack([vector for vector in vectors if vector is not None])).to(
        perceptron.dtype
    )
    shapes = [parameter.shape for parameter in perceptron.parameters]
    pieces = torch.split_with_sizes(whole, [shape.numel() for shape in shapes], 1)
    return [piece.reshape(-1, *shape).clone() for piece, shape in zip(pieces, shapes, strict=True)]


def _flat(entries: Sequence[Tensor]) -> list[Vector]:
    return list(torch.cat([entry.flatten(1) for entry in entries], dim=1).numpy())
