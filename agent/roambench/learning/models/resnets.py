"""ResNet-18 and ResNet-50 (He et al., CVPR 2016) with a stem for small images: 3x3, stride 1, no max-pool.

Entries carry torchvision's names, so that its pretrained weights fit (but for the stem and the last layer).
"""

from __future__ import annotations

from collections import OrderedDict

from torch import Tensor, nn
from torch.nn import functional


def resnet18(in_channels: int, classes: int) -> nn.Module:
    """ResNet-18, basic blocks 2-2-2-2: 11,173,962 parameters for 3 channels, 10 classes; 9,600 statistics."""
    return ResNet(BasicBlock, (2, 2, 2, 2), in_channels, classes)


def resnet50(in_channels: int, classes: int) -> nn.Module:
    """ResNet-50, bottlenecks 3-4-6-3: 23,520,842 parameters for 3 channels, 10 classes, 53,120 statistics."""
    return ResNet(Bottleneck, (3, 4, 6, 3), in_channels, classes)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions around a shortcut."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = _conv(inputs, width, 3, stride)
        self.bn1 = _norm(width)
        self.conv2 = _conv(width, width, 3, 1)
        self.bn2 = _norm(width)
        self.downsample = _shortcut(inputs, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Features (n, channels, height, width) after two convolutions and the shortcut."""
        y = functional.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return functional.relu(y + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 around a shortcut; the last is four times as wide, the 3x3 has the stride."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = _conv(inputs, width, 1, 1)
        self.bn1 = _norm(width)
        self.conv2 = _conv(width, width, 3, stride)
        self.bn2 = _norm(width)
        self.conv3 = _conv(width, 4 * width, 1, 1)
        self.bn3 = _norm(4 * width)
        self.downsample = _shortcut(inputs, 4 * width, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Features (n, channels, height, width) after three convolutions and the shortcut."""
        y = functional.relu(self.bn1(self.conv1(x)))
        y = functional.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return functional.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """Four stages of 64, 128, 256, 512 channels (times the expansion), mean of pixels, classifier."""

    def __init__(
        self,
        block: type[BasicBlock] | type[Bottleneck],
        depths: tuple[int, int, int, int],
        in_channels: int,
        classes: int,
    ) -> None:
        super().__init__()
        self.conv1 = _conv(in_channels, 64, 3, 1)
        self.bn1 = _norm(64)
        inputs = 64
        for number, depth in enumerate(depths, 1):
            width = 32 << number
            blocks = OrderedDict[str, nn.Module]()
            for index in range(depth):
                blocks[str(index)] = block(inputs, width, 2 if index == 0 and number > 1 else 1)
                inputs = width * block.expansion
            self.add_module(f"layer{number}", nn.Sequential(blocks))
        self.fc = nn.Linear(inputs, classes, device="meta")

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n, classes) of images (n, channels, height, width)."""
        x = functional.relu(self.bn1(self.conv1(x)))
        for number in range(1, 5):
            x = self.get_submodule(f"layer{number}")(x)
        pixels = functional.adaptive_avg_pool2d(x, 1).flatten(1)
        logits: Tensor = self.fc(pixels)
        return logits


def _conv(inputs: int, outputs: int, size: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False, device="meta")


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, device="meta")


def _shortcut(inputs: int, outputs: int, stride: int) -> nn.Sequential | None:
    """A 1x1 convolution where the shapes differ, else the input itself."""
    if stride == 1 and inputs == outputs:
        return None
    return nn.Sequential(_conv(inputs, outputs, 1, stride), _norm(outputs))
