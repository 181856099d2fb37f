"""FedAvg with an optimiser on the server: FedAvgM (Hsu et al., 2019), FedAdam and FedYogi (Reddi et
al., ICLR 2021), and FedDyn.

The server takes delta, the mean change of the models, as a negative gradient. It works in float64 on the
trained parameters; buffers such as BatchNorm's statistics are averaged. What it keeps is the rule's memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from roambench.contract.errors import ConfigError
from roambench.contract.orders import Vector
from roambench.systems.choices import cloud_participating_data
from roambench.systems.fedavg import fedavg
from roambench.systems.options import SystemOptions
from roambench.systems.system import CloudInput, CloudRule, FoldedEdge, Memory, RuleAnswer, System
from roambench.vectors import Weights, weighted_mean

_Numbers = npt.NDArray[np.floating[Any]]  # float64
#: (delta, memory) -> what is added to the parameters, and the new memory.
_ServerStep = Callable[[_Numbers, Memory], tuple[_Numbers, Memory]]
#: (delta, v before) -> v.
_Squares = Callable[[_Numbers, _Numbers], _Numbers]


def _refuse(*, above_0: Mapping[str, float], below_1: Mapping[str, float] = MappingProxyType({})) -> None:
    problems = [
        f"{name} = {value:g}: expected a number above 0"
        for name, value in above_0.items()
        if not 0.0 < value < math.inf
    ]
    problems += [
        f"{name} = {value:g}: expected a number from 0 to below 1"
        for name, value in below_1.items()
        if not 0.0 <= value < 1.0
    ]
    if problems:
        raise ConfigError(problems)


@dataclass(frozen=True, slots=True)
class FedAvgMParameters:
    """FedAvgM's server: its learning rate and its momentum."""

    rate: float = 1.0
    beta: float = 0.9

    def __post_init__(self) -> None:
        _refuse(above_0={"rate": self.rate}, below_1={"beta": self.beta})


@dataclass(frozen=True, slots=True)
class AdaptiveParameters:
    """FedAdam's and FedYogi's server: the paper's numbers; the rate, which it tunes, is ours."""

    rate: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.99
    tau: float = 0.001

    def __post_init__(self) -> None:
        _refuse(
            above_0={"rate": self.rate, "tau": self.tau},
            below_1={"beta1": self.beta1, "beta2": self.beta2},
        )


@dataclass(frozen=True, slots=True)
class FedDynParameters:
    """FedDyn's pull to the model that training starts from, the same on devices and on the server."""

    alpha: float = 0.1

    def __post_init__(self) -> None:
        _refuse(above_0={"alpha": self.alpha})


def fedavgm(options: SystemOptions, own: FedAvgMParameters) -> System:
    """FedAvg with momentum on the server: m <- beta m + delta; x <- x + rate m."""

    def step(delta: _Numbers, memory: Memory) -> tuple[_Numbers, Memory]:
        m = own.beta * memory.get("m", np.zeros_like(delta)) + delta
        return own.rate * m, {"m": m}

    return replace(fedavg(options), name="fedavgm", cloud_weights=_stepping(step))


def fedadam(options: SystemOptions, own: AdaptiveParameters) -> System:
    """FedAvg with Adam on the server (Reddi et al., Algorithm 2): v <- beta2 v + (1 - beta2) delta^2."""
    return _adaptive("fedadam", options, own, lambda delta, v: own.beta2 * v + (1.0 - own.beta2) * delta**2)


def fedyogi(options: SystemOptions, own: AdaptiveParameters) -> System:
    """FedAvg with Yogi on the server: v <- v - (1 - beta2) delta^2 sign(v - delta^2)."""

    def squares(delta: _Numbers, v: _Numbers) -> _Numbers:
        found: _Numbers = v - (1.0 - own.beta2) * delta**2 * np.sign(v - delta**2)
        return found

    return _adaptive("fedyogi", options, own, squares)


def _adaptive(name: str, options: SystemOptions, own: AdaptiveParameters, squares: _Squares) -> System:
    """m <- beta1 m + (1 - beta1) delta; x <- x + rate m / (sqrt(v) + tau); m = 0 and v = tau^2 at first."""

    def step(delta: _Numbers, memory: Memory) -> tuple[_Numbers, Memory]:
        m = own.beta1 * memory.get("m", np.zeros_like(delta)) + (1.0 - own.beta1) * delta
        v = squares(delta, memory.get("v", np.full_like(delta, own.tau**2)))
        return own.rate * m / (np.sqrt(v) + own.tau), {"m": m, "v": v}

    return replace(fedavg(options), name=name, cloud_weights=_stepping(step))


def feddyn(options: SystemOptions, own: FedDynParameters) -> System:
    """FedDyn (Acar et al., ICLR 2021): h <- h - alpha/N sum(w_k - x); x <- mean(w_k) - h/alpha."""

    def step(cloud: CloudInput) -> RuleAnswer:
        counts = np.array([work.models for work in cloud.work], np.float64)
        weights = counts / counts.sum()
        share = own.alpha * counts.sum() / len(cloud.device_samples)

        def moved(delta: _Numbers, memory: Memory) -> tuple[_Numbers, Memory]:
            h = memory.get("h", np.zeros_like(delta)) - share * delta
            return delta - h / own.alpha, {"h": h}

        return _stepped(cloud, (weighted_mean(cloud.models, weights), weights), moved)

    return replace(
        fedavg(options),
        name="feddyn",
        training=replace(options.training, objective=f"feddyn:alpha={own.alpha!r}"),
        edge_weights=FoldedEdge(lambda samples: 1.0),
        cloud_weights=step,
    )


def _stepping(step: _ServerStep) -> CloudRule:
    """FedAvg's mean, and the server's step from it."""
    return lambda cloud: _stepped(cloud, cloud_participating_data(cloud), step)


def _stepped(cloud: CloudInput, answer: tuple[Vector, Weights], step: _ServerStep) -> RuleAnswer:
    """The mean model with its trained parameters replaced by those that the server moved."""
    mean, weights = answer
    trained = slice(cloud.trained or mean.size)
    before = cloud.reference[trained].astype(np.float64)
    move, memory = step(mean[trained] - before, cloud.memory)
    model = mean.copy()
    model[trained] = before + move
    return model, weights, memory
