"""The papers' small convolutional networks besides MOHAWK's; images are 32x32, weights are set by `build`.

Layer widths are ours where a paper gives only the number of layers.
"""

from __future__ import annotations

from torch import nn


def middle_cnn2(in_channels: int, classes: int) -> nn.Module:
    """MIDDLE's CNN of 2 convolutions and 2 fully connected layers (MNIST, EMNIST): 2,154,890 parameters for 1
    channel and 10 classes. 5x5, C -> 32 -> 64, each halved by a max-pool; then 4096 -> 512 -> classes."""
    return nn.Sequential(
        *_stage(in_channels, 32, 5),
        *_stage(32, 64, 5),
        nn.Flatten(),
        *_head(64 * 8 * 8, 512, classes),
    )


def middle_cnn3(in_channels: int, classes: int) -> nn.Module:
    """MIDDLE's CNN of 3 convolutions and 2 fully connected layers (CIFAR-10, SVHN, speech, HAR): 321,290
    parameters for 3 channels and 10 classes. 3x3, C -> 32 -> 64 -> 64; then 1024 -> 256 -> classes."""
    return nn.Sequential(
        *_stage(in_channels, 32, 3),
        *_stage(32, 64, 3),
        *_stage(64, 64, 3),
        nn.Flatten(),
        *_head(64 * 4 * 4, 256, classes),
    )


def dfl_cnn(in_channels: int, classes: int) -> nn.Module:
    """The CNN of 2 convolutions and 2 fully connected layers of the distribution-aware mobility papers:
    276,810 parameters for 1 channel and 10 classes. 5x5, C -> 16 -> 32; then 2048 -> 128 -> classes."""
    return nn.Sequential(
        *_stage(in_channels, 16, 5),
        *_stage(16, 32, 5),
        nn.Flatten(),
        *_head(32 * 8 * 8, 128, classes),
    )


def gn_lenet(in_channels: int, classes: int) -> nn.Module:
    """LeNet with group normalisation, usual in decentralised learning on CIFAR-10: 89,834 parameters for 3
    channels and 10 classes. 5x5, C -> 32 -> 32 -> 64, each normalised in 2 groups and halved."""
    return nn.Sequential(
        *_normed_stage(in_channels, 32),
        *_normed_stage(32, 32),
        *_normed_stage(32, 64),
        nn.Flatten(),
        nn.Linear(64 * 4 * 4, classes, device="meta"),
    )


def _stage(inputs: int, outputs: int, size: int) -> list[nn.Module]:
    """Pooling before the ReLU is the same function on a quarter of the pixels."""
    convolution = nn.Conv2d(inputs, outputs, kernel_size=size, padding=size // 2, device="meta")
    return [convolution, nn.MaxPool2d(2), nn.ReLU(inplace=True)]


def _normed_stage(inputs: int, outputs: int) -> list[nn.Module]:
    return [
        nn.Conv2d(inputs, outputs, kernel_size=5, padding=2, device="meta"),
        nn.GroupNorm(2, outputs, device="meta"),
        nn.MaxPool2d(2),
        nn.ReLU(inplace=True),
    ]


def _head(inputs: int, hidden: int, classes: int) -> list[nn.Module]:
    return [
        nn.Linear(inputs, hidden, device="meta"),
        nn.ReLU(inplace=True),
        nn.Linear(hidden, classes, device="meta"),
    ]
