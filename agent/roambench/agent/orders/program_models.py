"""Messages to a program that trains models of our systems, and its answers: a line of JSON, and behind it a
flat little-endian float32 model.

    {"train": {"step": 0, "seed": 1}}   train from the model; the answer's line is {"samples": their number,
                                        "loss": mean or null}, and its model the trained one
    {"score": {}}                       score the model; the answer is a line {"accuracy": 0..1 or null,
                                        "loss": number or null, "metrics": {name: number}, "left_out":
                                        [sentence about what is in none of these]}
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from roambench.agent.orders.worker import TrainerRefused
from roambench.contract.json_values import json_or_none
from roambench.contract.local_training import LocalTraining
from roambench.contract.metric import name_of_foreign_metric
from roambench.contract.orders import Vector

_WIRE: Final = np.dtype("<f4")
_MOST_HEADER_BYTES: Final = 2**16
_MOST_METRICS: Final = 64


@dataclass(frozen=True, slots=True)
class ProgramScore:
    """A program's score of a model."""

    accuracy: float | None = None
    loss: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProgramTrained:
    """A model that a program has trained. `loss` is NaN where it says none."""

    model: Vector
    samples: int
    loss: float


@dataclass(frozen=True, slots=True)
class _TrainedHeader:
    samples: int
    loss: float | None = None


def train_message(model: Vector, step: int, training: LocalTraining) -> bytes:
    """A message to train from `model`."""
    return _message({"train": {"step": step, "seed": training.seed}}, model)


def score_message(model: Vector) -> bytes:
    """A message to score `model`."""
    return _message({"score": {}}, model)


def trained_model(answer: bytes, entries: int) -> ProgramTrained:
    """The model of an answer to `train_message`. TrainerRefused for anything else, and for NaN in it."""
    line, _, body = answer.partition(b"\n")
    header = _header(_TrainedHeader, line)
    if header.samples < 1:
        raise TrainerRefused(f"its program trained on {header.samples} samples, expected 1 or more")
    if len(body) != entries * _WIRE.itemsize:
        raise TrainerRefused(f"its program answered {len(body)} bytes, expected a model of {entries} numbers")
    model = np.frombuffer(body, _WIRE)
    loss = math.nan if header.loss is None else header.loss
    if not np.isfinite(model).all() or math.isinf(loss):
        raise TrainerRefused("its program trained a model that holds NaN or infinity")
    return ProgramTrained(model, header.samples, loss)


def model_score(answer: bytes) -> ProgramScore:
    """The answer to `score_message`. TrainerRefused for anything else."""
    score = _header(ProgramScore, answer)
    accuracy = score.accuracy
    if accuracy is not None and not 0.0 <= accuracy <= 1.0:
        raise TrainerRefused(f"its program scored an accuracy of {accuracy}, expected 0 to 1")
    some = list(score.metrics.items())[:_MOST_METRICS]
    metrics = {name_of_foreign_metric(name): value for name, value in some if math.isfinite(value)}
    if accuracy is None and not metrics:
        raise TrainerRefused("its program scored nothing: expected an accuracy or a metric")
    return ProgramScore(accuracy, score.loss, metrics, score.left_out)


def _message(about: Mapping[str, Any], model: Vector) -> bytes:
    return json.dumps(about).encode() + b"\n" + np.ascontiguousarray(model, _WIRE).tobytes()


def _header(kind: type[Any], line: bytes) -> Any:
    found = json_or_none(kind, line, finite=False) if len(line) <= _MOST_HEADER_BYTES else None
    if found is None:
        raise TrainerRefused("its program answered what cannot be read")
    return found
