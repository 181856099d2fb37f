"""Seconds that a virtual device takes for an SGD step of the run's model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import torch
from torch.overrides import TorchFunctionMode

from roambench.experiment.sections import Experiment
from roambench.learning.learner import Learner
from roambench.runner.world import LearningTask, learning_spec

#: A backward pass has two products for each of the forward pass; a product and its sum are two operations.
_PER_PRODUCT: Final = 6
#: A board's seconds to start one function of torch, its derivative and its share of the update: assumed.
_CALL_S: Final = 3e-4
_SAMPLES: Final = 2  # batch statistics need two


def board_step_s(experiment: Experiment, learning_task: LearningTask) -> float:
    """Seconds of an SGD step: `simulated.sgd_step_s`, or by the model where that is 0.

    By the model: floating-point operations of convolutions, products of matrices, attention and recurrent
    layers, forward and backward, for a whole batch, at `simulated.gflop_s`; and 0.3 ms for each function of
    torch. Equal on all machines.
    """
    section = experiment.simulated
    if section.sgd_step_s > 0.0:
        return section.sgd_step_s
    learner = Learner(learning_spec(experiment, learning_task, ""))
    shard = learning_task.shard(0, most=_SAMPLES)
    # Where a user's model cannot be trained, its orders say why.
    with _Counted() as counted, suppress(Exception):
        learner.warm_up(shard)
    per_sample = _PER_PRODUCT * counted.products / _SAMPLES
    operations = per_sample * experiment.learning.batch_size
    return float(operations / (1e9 * section.gflop_s) + _CALL_S * counted.calls)


class _Counted(TorchFunctionMode):
    """Counts the multiplications, and the calls that gradients go through, of what is computed inside."""

    def __init__(self) -> None:
        super().__init__()
        self.products = 0
        self.calls = 0

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        first = out[0] if isinstance(out, tuple) and out else out
        if isinstance(first, torch.Tensor) and first.requires_grad:
            self.calls += 1
            self.products += _products(
                getattr(func, "__name__", ""), [*args, *(kwargs or {}).values()], first
            )
        return out


def _products(name: str, given: Sequence[Any], out: torch.Tensor) -> int:
    """Multiplications of one call of `name` on the tensors `given`; 0 of what works entry by entry."""
    if name.startswith("conv_transpose"):
        return int(given[0].numel() * given[1][0].numel())
    if name.startswith("conv"):
        return int(out.numel() * given[1][0].numel())
    if name in {"linear", "matmul", "mm", "bmm", "mv", "__matmul__"}:
        return int(out.numel() * given[0].shape[-1])
    if name in {"addmm", "baddbmm"}:
        return int(out.numel() * given[1].shape[-1])
    if name in {"lstm", "gru", "rnn_tanh", "rnn_relu"}:
        tokens = int(given[0].numel() // given[0].shape[-1])
        return tokens * sum(int(weights.numel()) for weights in given[2] if weights.dim() > 1)
    if name == "scaled_dot_product_attention":
        return 2 * int(given[0].numel()) * int(given[1].shape[-2])
    if name == "multi_head_attention_forward":  # of (tokens, batch, width): four projections, two products
        query, key = given[0], given[1]
        width = int(query.shape[-1])
        return 2 * int(query.numel() + key.numel()) * width + 2 * int(query.numel()) * int(key.shape[0])
    return 0
