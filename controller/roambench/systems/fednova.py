"""FedNova (Wang et al., NeurIPS 2020): devices that took more steps do not pull the global model further."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from roambench.aggregation import data_size_weights
from roambench.contract.errors import ConfigError
from roambench.contract.orders import Vector
from roambench.systems.fedavg import fedavg
from roambench.systems.options import SystemOptions
from roambench.systems.system import CloudInput, EdgeInput, System, Training
from roambench.vectors import Weights, weighted_mean


def fednova(options: SystemOptions) -> System:
    """FedAvg whose changes are divided by the length of their training: x <- x + T sum(p_i (w_i - x) / a_i),
    with a_i = the 1-norm of Eq. 4 and T = sum(p_i a_i); for SGD with or without momentum.

    An AP does that with its devices, the cloud with its APs: the same as if all devices were at one.
    """
    _refuse_other_training(options)

    def at_edge(edge: EdgeInput) -> tuple[Vector, Weights]:
        weights = data_size_weights(edge.samples)
        lengths = _lengths(edge.trainings, options.momentum)
        return _normalised(edge.reference, edge.models, weights, lengths, edge.trained), weights

    def in_cloud(cloud: CloudInput) -> tuple[Vector, Weights]:
        weights = data_size_weights(cloud.aggregated_samples)
        lengths = [
            float(
                data_size_weights([training.samples for training in work.trainings])
                @ _lengths(work.trainings, options.momentum)
            )
            for work in cloud.work
        ]
        return _normalised(cloud.reference, cloud.models, weights, np.array(lengths), cloud.trained), weights

    return replace(fedavg(options), name="fednova", edge_weights=at_edge, cloud_weights=in_cloud)


def _lengths(trainings: Sequence[Training], momentum: float) -> Weights:
    """a_i of every training: its steps, or (steps - m (1 - m^steps) / (1 - m)) / (1 - m) with momentum m. A
    rehearsal's count as one step."""
    steps = np.array([max(training.sgd_steps, 1) for training in trainings], np.float64)
    found: Weights = (steps - momentum * (1.0 - momentum**steps) / (1.0 - momentum)) / (1.0 - momentum)
    return found


def _normalised(
    reference: Vector, models: Sequence[Vector], weights: Weights, lengths: Weights, trained: int
) -> Vector:
    """The reference, moved by the normalised changes of its trained parameters; buffers are averaged."""
    scales = weights * float(weights @ lengths) / lengths
    moved = weighted_mean(models, weights)
    first = slice(trained or moved.size)
    own = [1.0 - float(scales.sum()), *scales]
    moved[first] = weighted_mean([reference[first], *(model[first] for model in models)], np.array(own))
    return moved


def _refuse_other_training(options: SystemOptions) -> None:
    """ConfigError for devices that train otherwise than the normalisation knows."""
    objective, problems = options.training.objective, []
    if options.optimiser != "sgd":
        problems.append(f'learning.optimiser: system "fednova" expects "sgd", got "{options.optimiser}"')
    if objective != "ce":
        problems.append(
            f'system "fednova": expected devices that train on plain cross-entropy, got "{objective}"'
        )
    if problems:
        raise ConfigError(problems)
