"""Loss and gradients of a perceptron by the kernels that autograd calls, in its order, without its graph: the
same bits in a third of the time, which for a small model is all overhead."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn

from roambench.learning.layout import State
from roambench.learning.shards import IGNORED

ATEN: Final = torch.ops.aten
EACH: Final = 0  # reduction="none"
_ALIGNED_BYTES: Final = 64  # as torch aligns what it allocates


class Perceptron(State):
    """Linear layers with ReLUs between them, trained with cross-entropy: the state of `module`, which has
    these `layers`.

    `trained` are its parameters, in one tensor where each then lies as if it were alone, `slopes` their
    gradients; `gradients` are the views of them for each parameter, which the next call overwrites.
    """

    def __init__(self, module: nn.Sequential, layers: list[nn.Linear]) -> None:
        members = [member for layer in layers for member in (layer.weight, layer.bias)]
        sizes, shapes = [member.numel() for member in members], [member.shape for member in members]
        if any(size * members[0].itemsize % _ALIGNED_BYTES for size in sizes[:-1]):
            self.trained = [member.detach() for member in members]
            self.slopes = [torch.empty_like(member) for member in self.trained]
            self.gradients = self.slopes
        else:
            flat = torch.cat([member.detach().reshape(-1) for member in members])
            self.trained, self.slopes = [flat], [torch.empty_like(flat)]
            views, self.gradients = (
                [
                    piece.view(shape)
                    for piece, shape in zip(torch.split_with_sizes(whole, sizes), shapes, strict=True)
                ]
                for whole in (flat, self.slopes[0])
            )
            for member, view in zip(members, views, strict=True):
                member.data = view
        super().__init__(module)
        self.module = module
        self._weights = [layer.weight.detach() for layer in layers]
        self._layers = [(layer.bias.detach(), layer.weight.detach().t()) for layer in layers]
        self._shares: dict[int, tuple[Tensor, Tensor]] = {}

    @torch.no_grad()
    def losses(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """The loss of each sample; the gradients of their mean are in `gradients`.

        `inputs`: (n, features); `targets`: int64 (n,).
        """
        values = [inputs]
        for bias, weight in self._layers:
            if len(values) > 1:
                values[-1].relu_()
            values.append(torch.addmm(bias, values[-1], weight))
        logs = torch.log_softmax(values.pop(), 1)
        if (known := self._shares.get(len(targets))) is None:
            one = logs.new_ones(())
            known = self._shares[len(targets)] = (one.expand(targets.shape) / len(targets), one)
        share, unused = known
        losses = losses_of(logs, targets)
        slope = ATEN.nll_loss_backward.default(share, logs, targets, None, EACH, IGNORED, unused)
        slope = ATEN._log_softmax_backward_data.default(slope, logs, 1, logs.dtype)
        for number in reversed(range(len(self._weights))):
            torch.mm(slope.t(), values[number], out=self.gradients[2 * number])
            torch.sum(slope, 0, out=self.gradients[2 * number + 1])
            if number:
                slope = slope.mm(self._weights[number])
                slope = ATEN.threshold_backward.default(slope, values[number], 0)
        return losses


def losses_of(logs: Tensor, targets: Tensor) -> Tensor:
    """The loss of each sample, given the logarithms of the classes' probabilities."""
    return torch._C._nn.nll_loss_nd(logs, targets, None, EACH, IGNORED)  # type: ignore[arg-type]  # the stub


def is_watched(module: nn.Module) -> bool:
    """True where the module has hooks, which may change what it gives."""
    hooks = (module._forward_hooks, module._forward_pre_hooks)
    return any((*hooks, module._backward_hooks, module._backward_pre_hooks))


def perceptron_of(module: nn.Module | None) -> Perceptron | None:
    """The module as a Perceptron; None if it is another one, or anything watches its layers."""
    layers = list(module) if type(module) is nn.Sequential else []
    kinds = [type(layer) for layer in layers]
    if not kinds or kinds != [nn.Linear, *[nn.ReLU, nn.Linear] * (len(kinds) // 2)]:
        return None
    linear = [layer for layer in layers if isinstance(layer, nn.Linear)]
    watched = any(map(is_watched, layers))
    tied = len({id(layer.weight) for layer in linear}) < len(linear)
    plain = all(
        parameter is not None and parameter.requires_grad and not parameter._backward_hooks
        for layer in linear
        for parameter in (layer.weight, layer.bias)
    )
    if not isinstance(module, nn.Sequential) or watched or tied or not plain:
        return None
    return Perceptron(module, linear)
