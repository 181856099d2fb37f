"""Loss and gradients of a chain of layers by the kernels that autograd calls, in its order, without its
graph: the same bits in a third of the time for a small perceptron, which is all overhead."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final

import torch
from torch import Tensor, nn

from roambench.learning.shards import IGNORED

#: The loss's slope by a layer's outputs makes that by its inputs (where it is wanted) and by its parameters.
Derivative = Callable[[Tensor, bool], tuple[Tensor, list[Tensor]]]

_ATEN: Final = torch.ops.aten
_EACH: Final = 0  # reduction="none"


class LayerChain:
    """Layers one behind the other, trained with cross-entropy: as the model has them."""

    def __init__(self, layers: list[nn.Module]) -> None:
        self._layers = [(_KINDS[type(layer)], layer) for layer in layers]
        self._first = next(number for number, layer in enumerate(layers) if layer._parameters)

    def __call__(self, inputs: Tensor, targets: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The loss of each sample, and the gradients of their mean: parameters of layer after layer.

        `inputs`: (n, ...); `targets`: int64 (n,).
        """
        derivatives: list[Derivative] = []
        with torch.no_grad():
            for kind, layer in self._layers:
                inputs, derivative = kind(layer, inputs)
                derivatives.append(derivative)
            logs = torch.log_softmax(inputs, 1)
            losses, total = _ATEN.nll_loss_forward.default(logs, targets, None, _EACH, IGNORED)
            shares = losses.new_ones(()).expand(losses.shape) / len(losses)
            slope = _ATEN.nll_loss_backward.default(shares, logs, targets, None, _EACH, IGNORED, total)
            slope = _ATEN._log_softmax_backward_data.default(slope, logs, 1, logs.dtype)
            gradients: list[Tensor] = []
            for number in reversed(range(self._first, len(derivatives))):
                slope, own = derivatives.pop()(slope, number > self._first)
                gradients[:0] = own
        return losses, gradients


def layer_chain_of(module: nn.Module, *, takes_images: bool) -> LayerChain | None:
    """The module as a LayerChain; None if it has other layers, or anything watches them.

    `takes_images`: it is fed (n, channels, height, width), otherwise (n, features).
    """
    layers = list(module) if type(module) is nn.Sequential else []
    kinds = [type(layer) for layer in layers]
    if not kinds or kinds[-1] is not nn.Linear or torch._C._len_torch_function_stack():
        return None
    flat = kinds.index(nn.Flatten) if takes_images and nn.Flatten in kinds else -1
    fitting = (
        takes_images == (flat >= 0)
        and set(kinds[: max(flat, 0)]) <= {nn.Conv2d, nn.MaxPool2d, nn.ReLU}
        and set(kinds[flat + 1 :]) <= {nn.Linear, nn.ReLU}
    )
    watched = any(
        layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks or layer._backward_pre_hooks
        for layer in layers
    )
    parameters = list(module.parameters())
    tied = len(parameters) < sum(parameter is not None for part in layers for parameter in _own(part))
    plain = all(parameter.requires_grad and not parameter._backward_hooks for parameter in parameters)
    if not fitting or watched or tied or not plain or not all(_is_usual(layer) for layer in layers):
        return None
    return LayerChain(layers)


def _own(layer: nn.Module) -> list[nn.Parameter | None]:
    return list(layer._parameters.values())


def _is_usual(layer: Any) -> bool:
    """True if the layer is what `_KINDS` does."""
    match layer:
        case nn.Linear():
            return layer.bias is not None
        case nn.Conv2d():
            return layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
        case nn.MaxPool2d():
            return not layer.return_indices
        case nn.Flatten():
            return (layer.start_dim, layer.end_dim) == (1, -1)
    return True


def _linear(layer: Any, inputs: Tensor) -> tuple[Tensor, Derivative]:
    weight = layer.weight

    def derivative(slope: Tensor, wanted: bool) -> tuple[Tensor, list[Tensor]]:
        own = [slope.t().mm(inputs), slope.sum(0)]
        return slope.mm(weight) if wanted else slope, own

    return torch.addmm(layer.bias, inputs, weight.t()), derivative


def _convolution(layer: Any, inputs: Tensor) -> tuple[Tensor, Derivative]:
    weight, bias = layer.weight, layer.bias
    shape = layer.stride, layer.padding, layer.dilation

    def derivative(slope: Tensor, wanted: bool) -> tuple[Tensor, list[Tensor]]:
        biases = None if bias is None else bias.shape
        asked = wanted, True, bias is not None
        before, *own = _ATEN.convolution_backward.default(
            slope, inputs, weight, biases, *shape, False, (0, 0), layer.groups, asked
        )
        return before, own if bias is not None else own[:1]

    return torch.conv2d(inputs, weight, bias, *shape, layer.groups), derivative


def _pooling(layer: Any, inputs: Tensor) -> tuple[Tensor, Derivative]:
    # torch takes an empty stride for the kernel's size; the layer has it there already.
    shape = [_pair(size) for size in (layer.kernel_size, layer.stride, layer.padding, layer.dilation)]
    outputs, places = _ATEN.max_pool2d_with_indices.default(inputs, *shape, layer.ceil_mode)

    def derivative(slope: Tensor, _wanted: bool) -> tuple[Tensor, list[Tensor]]:
        before = _ATEN.max_pool2d_with_indices_backward.default(
            slope, inputs, *shape, layer.ceil_mode, places
        )
        return before, []

    return outputs, derivative


def _relu(layer: Any, inputs: Tensor) -> tuple[Tensor, Derivative]:
    outputs = inputs.relu_() if layer.inplace else inputs.relu()
    return outputs, lambda slope, _wanted: (_ATEN.threshold_backward.default(slope, outputs, 0), [])


def _flat(_layer: Any, inputs: Tensor) -> tuple[Tensor, Derivative]:
    return inputs.flatten(1), lambda slope, _wanted: (slope.reshape(inputs.shape), [])


def _pair(size: int | tuple[int, int]) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else size


_KINDS: Final = MappingProxyType(
    {
        nn.Linear: _linear,
        nn.Conv2d: _convolution,
        nn.MaxPool2d: _pooling,
        nn.ReLU: _relu,
        nn.Flatten: _flat,
    }
)
