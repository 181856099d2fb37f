"""Local training: k1 epochs of mini-batch SGD from a start model. The same bits for the same inputs."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from roambench.contract.errors import ModelError
from roambench.contract.orders import Vector
from roambench.learning.batches import Batches
from roambench.learning.layout import flatten, load
from roambench.learning.objectives import objective as find_objective
from roambench.learning.sgd import Sgd
from roambench.learning.shards import Images, Labels
from roambench.learning.springs import SpringForce


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """A locally trained model and what an order's reply tells about it.

    The losses are those of the last epoch's samples, each taken just before the step it contributes to.
    """

    vector: Vector  # shape (parameters,)
    samples: int  # size of the shard: the data-size weight
    sgd_steps: int
    mean_loss: float
    mean_squared_loss: float  # mean of the squared losses (Oort's statistical utility)
    cpu_s: float  # of the calling thread, which does all the work when torch has one thread


def single_threaded() -> None:
    """Give torch one thread in this process: sums no longer depend on the core count.

    Processes that train call it once, before they fork: a child inherits it, and no OpenMP pool that does
    not survive a fork is ever started. Two processes with one thread each do 1.7-2.0 times the work of one.
    """
    torch.set_num_threads(1)


def train(
    module: nn.Module,
    images: Images,
    labels: Labels,
    *,
    start: Vector,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    seed: int,
    objective: str = "ce",
    global_model: Vector | None = None,
    head: slice = slice(0, 0),
    augmentation: str = "none",
    channels_last: bool = True,
) -> TrainingResult:
    """Train `module` from `start` on a device's data and return the new model.

    The module is only a workplace: its state is overwritten. `images` are float32 (n, channels, height,
    width), `labels` int64 (n,). `seed` keys the batch order and the augmentation; optimiser state is new.
    `global_model` and `head` (the last layer's entries of the flat model) are for objectives with springs.
    `channels_last` is a memory format: it changes the speed and the last bits, nothing else. Raises
    ModelError if `start` has another length, an objective misses its global model or training diverges to
    NaN or infinity, ConfigError for an unknown objective or augmentation, ValueError for arguments that make
    no sense.
    """
    if epochs < 1 or batch_size < 1:
        raise ValueError(f"training needs epochs and batch size of 1 or more, got {epochs} and {batch_size}")
    began_s = time.thread_time()
    goal = find_objective(objective)
    batches = Batches(images, labels, augmentation=augmentation, channels_last=channels_last)
    torch_format = torch.channels_last if channels_last else torch.contiguous_format
    module.to(memory_format=torch_format)  # type: ignore[call-overload]  # the stub wants a tensor with it
    module.train()
    load(module, start)
    parameters: list[Tensor] = list(module.parameters())
    force = SpringForce(goal, parameters, start, global_model, head)
    optimiser = Sgd(parameters, learning_rate, momentum, weight_decay)
    losses: list[Tensor] = []
    steps = 0
    for epoch in range(epochs):
        losses.clear()
        for pixels, targets in batches.epoch(seed, epoch, batch_size):
            batch_losses = goal.loss(module(pixels), targets)
            gradients = list(torch.autograd.grad(batch_losses.mean(), parameters))
            with torch.no_grad():
                force.add_to(gradients, parameters)
                optimiser.step(gradients)
            losses.append(batch_losses.detach())
            steps += 1
    vector = flatten(module)
    if not np.isfinite(vector).all():
        raise ModelError(f"training diverged after {steps} steps: the model holds NaN or infinity")
    last = torch.cat(losses).numpy().astype(np.float64)
    return TrainingResult(
        vector=vector,
        samples=batches.samples,
        sgd_steps=steps,
        mean_loss=float(np.mean(last)),
        mean_squared_loss=float(np.mean(last * last)),
        cpu_s=time.thread_time() - began_s,
    )
