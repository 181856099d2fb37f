"""From bytes to images: normalised by mean and deviation per channel, padded to the models' size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.learning.datasets.dataset import IMAGE_SIDE
from roambench.learning.shards import Images

Pixels = npt.NDArray[np.uint8]  # (n, channels, height, width)

_VALUES: Final = 256
#: Images looked up or counted at once: a copy of all of EMNIST would take 2 GB more, its count 4 GB.
_AT_ONCE: Final = 4096


def normalised(pixels: Pixels, means: Sequence[float], deviations: Sequence[float]) -> Images:
    """(x/255 - mean)/deviation per channel, float32 (n, channels, 32, 32); smaller ones on black."""
    count, channels, height, width = pixels.shape
    top, left = (IMAGE_SIDE - height) // 2, (IMAGE_SIDE - width) // 2
    images = np.empty((count, channels, IMAGE_SIDE, IMAGE_SIDE), dtype=np.float32)
    for channel, (mean, deviation) in enumerate(zip(means, deviations, strict=True)):
        # One table of 256 values: no float64 copy of the images.
        values = ((np.arange(_VALUES) / 255.0 - mean) / deviation).astype(np.float32)
        images[:, channel] = values[0]
        inside = images[:, channel, top : top + height, left : left + width]
        for first in range(0, count, _AT_ONCE):
            part = slice(first, first + _AT_ONCE)
            inside[part] = values[pixels[part, channel]]
    return images


def statistics(pixels: Pixels) -> tuple[list[float], list[float]]:
    """Mean and deviation of x/255 per channel, exactly, by counting 256 values; a deviation is never 0."""
    counts = np.zeros((pixels.shape[1], _VALUES), dtype=np.int64)
    for first in range(0, len(pixels), _AT_ONCE):
        for channel in range(pixels.shape[1]):
            part = pixels[first : first + _AT_ONCE, channel]
            counts[channel] += np.bincount(part.reshape(-1), minlength=_VALUES)
    values = np.arange(_VALUES) / 255.0
    shares = counts / counts.sum(axis=1, keepdims=True)
    means = shares @ values
    deviations = np.sqrt(np.maximum(shares @ values**2 - means**2, 0.0))
    return means.tolist(), np.where(deviations > 1e-9, deviations, 1.0).tolist()
