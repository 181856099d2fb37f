"""Models by name, with the weights that a seed draws; and the builders of the small ones."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from roambench.contract.draws import generator
from roambench.contract.errors import ConfigError
from roambench.learning.layout import misfits_of
from roambench.learning.models.catalogue import MODELS
from roambench.learning.seeding import seeded


def build(name: str, in_channels: int, classes: int, seed: int = 0) -> nn.Module:
    """The model `name` for (n, in_channels, 32, 32) images, with Kaiming-normal weights drawn from `seed`.

    Weights are N(0, 2/fan_in), biases 0 (ours), norms 1; buffers are as the builder made them. Every
    parameter is drawn by its own key, and a builder draws by the seed, so no global generator is read or
    moved. Raises ConfigError for an unknown name, and for a builder of another package that
    makes no module, or one that no flat model could hold.
    """
    with seeded(seed):
        module = MODELS.load(name)(in_channels, classes)
    if not isinstance(module, nn.Module):
        raise ConfigError([f"model {name!r}: expected a torch.nn.Module, got {type(module).__name__}"])
    refuse_misfits(f"model {name!r}", module)
    draw_weights(module, seed)
    return module


def refuse_misfits(where: str, module: nn.Module) -> None:
    """ConfigError, with all of them, where the module has entries that no flat model could hold."""
    if problems := misfits_of(module):
        raise ConfigError([f"{where}: {problem}" for problem in problems])


def draw_weights(module: nn.Module, seed: int, *, only_meta: bool = False) -> None:
    """Give every parameter of a model, or only those on the meta device, the values `build` promises; buffers
    on the meta device get 0, variances 1, the vectors of `spectral_norm` a draw. What was tied or not
    persistent still is."""
    drawn: dict[torch.Tensor, torch.Tensor] = {}
    for index, (entry, tensor) in enumerate([*module.named_parameters(), *module.named_buffers()]):
        if tensor.is_meta or (isinstance(tensor, nn.Parameter) and not only_meta):
            values = torch.from_numpy(_initial(entry, tuple(tensor.shape), seed, index)).to(tensor.dtype)
            drawn[tensor] = nn.Parameter(values) if isinstance(tensor, nn.Parameter) else values
    # Not `to_empty`: on meta tensors it imports sympy, 500 modules and 45 MB for nothing.
    for part in module.modules():
        own = [*part.named_parameters("", False, False), *part.named_buffers("", False, False)]
        for name, tensor in own:
            if tensor in drawn:
                setattr(part, name, drawn[tensor])


def mohawk_cnn(in_channels: int, classes: int) -> nn.Module:
    """MOHAWK's CNN (its section 4.1 and its authors' code): 659,242 parameters for 1 channel and 10 classes.

    3x3 convolutions with padding 1 and no bias: C -> 32 | 32 -> 64 -> 64 | 64 -> 64 -> 64, each group ended
    by a 2x2 max-pool; then 1024 -> 512 -> classes. Pooling before the ReLU is the same function, because
    max(relu(x)) = relu(max(x)), on a quarter of the pixels.
    """
    return nn.Sequential(
        _conv(in_channels, 32),
        nn.MaxPool2d(2),
        nn.ReLU(inplace=True),
        *_double_block(32, 64),
        *_double_block(64, 64),
        nn.Flatten(),
        nn.Linear(64 * 4 * 4, 512, device="meta"),
        nn.ReLU(inplace=True),
        nn.Linear(512, classes, device="meta"),
    )


def mlp(in_channels: int, classes: int) -> nn.Module:
    """A small perceptron on 8x8 averages, 32 hidden units: for tests and quick trials, from no paper."""
    return nn.Sequential(
        nn.AvgPool2d(4),
        nn.Flatten(),
        nn.Linear(in_channels * 64, 32, device="meta"),
        nn.ReLU(inplace=True),
        nn.Linear(32, classes, device="meta"),
    )


def _conv(inputs: int, outputs: int) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, kernel_size=3, padding=1, bias=False, device="meta")


def _double_block(inputs: int, outputs: int) -> list[nn.Module]:
    return [
        _conv(inputs, outputs),
        nn.ReLU(inplace=True),
        _conv(outputs, outputs),
        nn.MaxPool2d(2),
        nn.ReLU(inplace=True),
    ]


def _initial(entry: str, shape: tuple[int, ...], seed: int, index: int) -> npt.NDArray[np.float32]:
    if len(shape) >= 2:
        fan_in = max(1, math.prod(shape[1:]))  # 0 of a parameter without entries
        draws = generator(seed, "model", step=index).standard_normal(shape, dtype=np.float32)
        draws *= np.float32(math.sqrt(2.0 / fan_in))
        return draws
    if shape and entry.endswith(("_u", "_v")):  # zeros would divide by zero
        direction = generator(seed, "model", step=index).standard_normal(shape, dtype=np.float32)
        return direction / np.linalg.norm(direction)
    ones = entry.endswith(("weight", "running_var"))
    return np.full(shape, 1.0 if ones else 0.0, dtype=np.float32)
