"""The "wide" network as a task of roambench's, with its pools before the ReLUs: the same function."""

from __future__ import annotations

from network import network
from torch import nn


class Wide:
    def load(self, folder: object, download: bool) -> object:
        raise NotImplementedError("the benchmark hands the images over itself")

    def build(self, in_channels: int, classes: int) -> nn.Module:
        return tuned(network("wide"))


def tuned(plain: nn.Sequential) -> nn.Sequential:
    """Pool on the convolution's output, ReLU in place on what is left."""
    layers = [nn.ReLU(inplace=True) if isinstance(layer, nn.ReLU) else layer for layer in plain]
    for index, layer in enumerate(layers):
        if isinstance(layer, nn.MaxPool2d):
            layers[index - 1], layers[index] = layers[index], layers[index - 1]
    return nn.Sequential(*layers)
