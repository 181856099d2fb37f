"""Local training: k1 epochs of mini-batches from a start model. The same bits for the same inputs."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain, count, islice

import numpy as np
import torch
from torch import Tensor, nn

from roambench.contract.errors import ConfigError, ModelError, RoambenchError, error_text
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.local_training import LocalTraining
from roambench.contract.orders import Vector
from roambench.learning.batches import Batches
from roambench.learning.evaluation import wrong_scores
from roambench.learning.hooks import cut_up, hooked, joined, sample_loss
from roambench.learning.layout import State, in_memory_format, others_restored
from roambench.learning.local_algorithms import LocalAlgorithm, LocalRun, Schedule, cross_entropy
from roambench.learning.local_algorithms import local_algorithm as find_algorithm
from roambench.learning.optimisers import Optimiser, Sgd, optimiser_of, velocities_of, velocity_of
from roambench.learning.perceptron import Perceptron
from roambench.learning.seeding import seeded
from roambench.learning.shards import Shard
from roambench.learning.task_batches import TaskBatches
from roambench.learning.task_parts import model_name, own_loss
from roambench.learning.tasks import has_hook


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """A locally trained model and what an order's reply tells about it.

    The losses are those of the samples in the last mini-batches, as many as an epoch has, each taken just
    before the step it contributes to.
    """

    vector: Vector  # shape (parameters,), and behind it what the local algorithm sends besides
    samples: int  # size of the shard: the data-size weight
    sgd_steps: int
    mean_loss: float
    mean_squared_loss: float  # mean of the squared losses (Oort's statistical utility)
    cpu_s: float  # of the calling thread, which does all the work when torch has one thread
    velocity: Vector | None = None  # of SGD's momentum after the last step, as long as `vector`; None without
    kept: Vector | None = None  # what the local algorithm keeps on the device, one vector behind the other


def single_threaded() -> None:
    """Give torch one thread in this process: sums no longer depend on the core count.

    Processes that train call it once, before they fork: a child inherits it, and no OpenMP pool that does
    not survive a fork is ever started. Two processes with one thread each do 1.7-2.0 times the work of one.
    """
    torch.set_num_threads(1)


def in_format(module: nn.Module, spec: LearningSpec) -> None:
    """Give the module's weights the memory format of the run."""
    in_memory_format(module, torch.channels_last if spec.channels_last else torch.contiguous_format)


def train(
    module: nn.Module,
    shard: Shard | Batches,
    start: Vector,
    training: LocalTraining,
    spec: LearningSpec,
    *,
    global_model: Vector | None = None,
    head: slice = slice(0, 0),
    velocity: Vector | None = None,
    keeps_velocity: bool = True,
    received: Vector | None = None,
    kept: Vector | None = None,
    behind: nn.Module | Perceptron | None = None,
) -> TrainingResult:
    """Train `module` from the flat model `start` on a device's data and return the new model.

    The module is only a workplace: its state is overwritten; a float64 one trains in float64. `start` is what
    the start rule of `training` built. Optimiser state is new, but for the `velocity` of SGD's momentum that
    an earlier training ended with (its result's, unless `keeps_velocity` is False, which spares memory; it is
    not changed). Adam knows no momentum. `global_model` and `head` (the last layer's entries of the flat
    model) are for objectives with proximal terms. `received` are the vectors that came behind the model, one
    after the other, `kept` is what the device's last training left. `behind`: the module's layers behind
    those that the given batches passed already (`Learner.prepared`). `channels_last` of `spec` is a memory
    format: it changes the speed and the last bits, nothing else. Raises ModelError if `start` has another
    length, an algorithm misses its global model, a hook of it or the model fails or training diverges to NaN
    or infinity,
    ConfigError for an unknown algorithm, optimiser or augmentation, ValueError for arguments that make no
    sense.
    """
    epochs, batch_size = training.epochs, spec.batch_size
    if epochs < 1 or batch_size < 1:
        raise ValueError(f"training needs epochs and batch size of 1 or more, got {epochs} and {batch_size}")
    if training.steps < 0:
        raise ValueError(f"training needs 0 or more steps, got {training.steps}")
    began_s = time.thread_time()
    objective = find_algorithm(training.objective)
    if misfit := objective.misfit(spec.optimiser, spec.momentum):
        raise ConfigError([f"local algorithm {training.objective!r}: {misfit}"])
    if behind is None:
        in_format(module, spec)
    plain = objective.loss is cross_entropy and own_loss(spec.task) is None
    perceptron = behind if isinstance(behind, Perceptron) and plain else None
    state = perceptron or State(module)
    batches = shard if isinstance(shard, Batches) else _batches(shard, spec, state.dtype)
    forward = module if behind is None else behind.module if isinstance(behind, Perceptron) else behind
    if perceptron is None:
        module.train()
    state.load(start)
    parameters: list[Tensor] = state.parameters
    if objective.needs_global and global_model is None:
        raise ModelError("the objective needs the last global model, and this device holds none")
    globals_ = cut_up(["global"], global_model, parameters)["global"] if objective.needs_global else []
    force = ProximalTerms(objective, parameters, globals_, state.in_slice(head))
    together = perceptron is not None and objective.correct is None and objective.optimiser is None
    moved = perceptron.trained if perceptron is not None and together else parameters
    optimiser = _optimiser(training.objective, objective, spec, moved, velocity)
    per_epoch = -(-batches.samples // batch_size)
    steps = training.sgd_steps(batches.samples, batch_size)
    losses: deque[Tensor] = deque(maxlen=per_epoch)
    epoch_by_epoch = chain.from_iterable(batches.epoch(training.seed, epoch, batch_size) for epoch in count())
    loss = sample_loss(training.objective, objective, spec.task)
    run: LocalRun | None = None
    if objective.correct or objective.before or objective.after:
        run = LocalRun(
            [parameter.detach().clone() for parameter in parameters],
            cut_up(objective.vectors, received, parameters),
            cut_up(objective.keeps, kept, parameters),
            steps,
            batches.samples,
            spec.learning_rate,
            training.seed,
        )
    sent: Mapping[str, Sequence[Tensor]] = {}
    with seeded(training.seed) if perceptron is None or run is not None else nullcontext():
        if run is not None and objective.before is not None:
            with torch.no_grad():
                hooked(training.objective, objective.before, parameters, run)
        with others_restored(module) if perceptron is None else nullcontext():
            for number, (pixels, targets) in enumerate(islice(epoch_by_epoch, steps)):
                if perceptron is not None:
                    batch_losses, gradients = perceptron.losses(pixels, targets), perceptron.gradients
                    if objective.correct is not None:  # may keep them
                        gradients = [gradient.clone() for gradient in gradients]
                else:
                    outputs: Tensor | None = None
                    try:
                        outputs = forward(pixels)
                        batch_losses = loss(outputs, targets)
                        gradients = _gradients(batch_losses.mean(), parameters, module)
                    except (Exception, SystemExit) as error:  # of the user's model
                        where, wrong = model_name(spec.task, spec.model), ""
                        if plain and outputs is not None:
                            wrong = wrong_scores(outputs, len(pixels), spec.classes)
                        if wrong:
                            raise ModelError(f"{where}: {wrong}") from error
                        if isinstance(error, RoambenchError):
                            raise
                        raise ModelError(f"{where}: training it fails: {error_text(error)}") from error
                with torch.no_grad():
                    force.add_to(gradients, parameters)
                    if objective.correct is not None:
                        hooked(training.objective, objective.correct, gradients, parameters, run, number)
                    if objective.clip_norm < math.inf:
                        _clip(gradients, objective.clip_norm)
                    if objective.schedule is not None:
                        factor = _factor(training.objective, objective.schedule, number, steps)
                        optimiser.learning_rate = spec.learning_rate * factor
                    slopes = perceptron.slopes if perceptron is not None and together else gradients
                    if objective.optimiser is None:
                        optimiser.step(slopes)
                    else:
                        hooked(training.objective, optimiser.step, slopes)
                losses.append(batch_losses.detach())
        vector = state.flat()
        if run is not None and objective.after is not None:
            with torch.no_grad():
                sent = hooked(training.objective, objective.after, parameters, run) or {}
    travels = left = vector[:0]
    if run is not None or objective.vectors or objective.keeps:
        travels = joined(training.objective, "after", objective.vectors, sent, parameters, vector.dtype)
        holds = run.kept if run is not None else {}
        left = joined(training.objective, "kept", objective.keeps, holds, parameters, vector.dtype)
    if not np.isfinite(vector).all():
        raise ModelError(f"training diverged after {steps} steps: the model holds NaN or infinity")
    last = torch.cat(tuple(losses)).numpy().astype(np.float64)
    return TrainingResult(
        vector=np.concatenate([vector, travels]) if objective.vectors else vector,
        samples=batches.samples,
        sgd_steps=steps,
        mean_loss=float(last.mean()),
        mean_squared_loss=float((last * last).mean()),
        cpu_s=time.thread_time() - began_s,
        velocity=velocity_of(optimiser.velocities, vector)
        if isinstance(optimiser, Sgd) and keeps_velocity
        else None,
        kept=left if objective.keeps else None,
    )


def _gradients(loss: Tensor, parameters: list[Tensor], module: nn.Module) -> list[Tensor]:
    """ModelError names the parameters that the loss does not depend on."""
    found: Sequence[Tensor | None] = [None] * len(parameters)
    if loss.requires_grad:
        found = torch.autograd.grad(loss, parameters, allow_unused=True)
    gradients = [gradient for gradient in found if gradient is not None]
    if len(gradients) == len(parameters):
        return gradients
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    unused = (names[id(one)] for one, gradient in zip(parameters, found, strict=True) if gradient is None)
    raise ModelError(f"{', '.join(unused)}: expected a loss that depends on every parameter in every step")


def _batches(shard: Shard, spec: LearningSpec, dtype: torch.dtype) -> Batches | TaskBatches:
    """The mini-batches that the run's task makes, or else ours."""
    if has_hook(spec.task, "batches"):
        return TaskBatches(spec.task, shard, spec.classes, channels_last=spec.channels_last, dtype=dtype)
    return Batches(
        shard.images,
        shard.labels,
        augmentation=spec.augmentation,
        channels_last=spec.channels_last,
        dtype=dtype,
    )


def _optimiser(
    text: str,
    algorithm: LocalAlgorithm,
    spec: LearningSpec,
    parameters: list[Tensor],
    velocity: Vector | None,
) -> Optimiser:
    """The optimiser of the algorithm that `text` spells, else the run's; SGD goes on from `velocity`."""
    if algorithm.optimiser is not None:
        optimiser: Optimiser = hooked(text, algorithm.optimiser, parameters, spec.learning_rate)
        if not hasattr(optimiser, "learning_rate") or not callable(getattr(optimiser, "step", None)):
            wanted = "an object with a learning_rate and step(gradients)"
            raise ModelError(
                f"local algorithm {text!r}: optimiser: expected {wanted}, got {type(optimiser).__name__}"
            )
    else:
        optimiser = optimiser_of(
            spec.optimiser, parameters, spec.learning_rate, spec.momentum, spec.weight_decay
        )
    if isinstance(optimiser, Sgd) and spec.momentum and velocity is not None:
        optimiser.velocities = velocities_of(parameters, velocity)
    return optimiser


def _factor(text: str, schedule: Schedule, number: int, steps: int) -> float:
    """The schedule's factor of the learning rate; ModelError for one that is negative or no finite number."""
    found = hooked(text, schedule, number, steps)
    try:
        factor = float(found)
    except (TypeError, ValueError, RuntimeError):
        factor = math.nan
    if not 0.0 <= factor < math.inf:
        where, wanted = f"local algorithm {text!r}: schedule at step {number}", "a finite factor of 0 or more"
        raise ModelError(f"{where}: expected {wanted}, got {found!r}")
    return factor


class ProximalTerms:
    """The gradient of an objective's proximal terms: adds 2 strength (w - anchor) to each parameter's, or to
    those of many models at once, each of shape (models, ...).

    `starts` and `globals_` are the anchors, entry by entry as the parameters; `globals_` may be empty where
    no term asks for it. `in_head` tells which parameters base-only terms spare.
    """

    def __init__(
        self,
        objective: LocalAlgorithm,
        starts: Sequence[Tensor],
        globals_: Sequence[Tensor],
        in_head: Sequence[bool],
    ) -> None:
        self._pulls: list[tuple[float, list[Tensor], list[int]]] = []
        for term in objective.proximal_terms:
            if term.strength == 0.0:
                continue
            anchors = starts if term.anchor == "start" else globals_
            chosen = [index for index in range(len(starts)) if not (term.base_only and in_head[index])]
            pieces = [anchors[index].detach().clone() for index in chosen]
            self._pulls.append((2.0 * term.strength, pieces, chosen))

    def add_to(self, gradients: list[Tensor], parameters: Sequence[Tensor]) -> None:
        """Call without gradient recording; writes to `gradients`."""
        for scale, anchors, chosen in self._pulls:
            stretched = torch._foreach_sub([parameters[index] for index in chosen], anchors)
            torch._foreach_add_([gradients[index] for index in chosen], stretched, alpha=scale)


def _clip(gradients: list[Tensor], largest: float) -> None:
    """Scale the whole gradient down to this Euclidean norm, in place."""
    norm = math.sqrt(sum(float(gradient.double().square().sum()) for gradient in gradients))
    if norm > largest:
        torch._foreach_mul_(gradients, largest / norm)
