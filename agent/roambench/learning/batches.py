"""Mini-batches of a device's images, in an order fixed by a key, augmented if asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from roambench.contract.draws import generator
from roambench.contract.errors import ConfigError
from roambench.learning.shards import Images, Labels

AUGMENTATIONS: Final = ("none", "crop_flip")
_ALIGNED_BYTES: Final = 64  # as torch aligns what it allocates
_CROP_PADDING: Final = 4  # pixels on every side, as in the CIFAR recipes


class Batches:
    """The images of one device, ready to be dealt out epoch by epoch.

    Images are kept as (n, height, width, channels) when `channels_last`: a batch is then one gather and a
    transposed view, which the convolutions take as they are (18-23 % faster than channels first), also for
    the one channel of MNIST, where torch cannot tell the two formats apart by itself.

    `front`: layers that every image passes alone and alike in each training (`fixed_front`): all pass them
    here, at once, and batches are dealt of what comes out. Not beside an augmentation.
    """

    def __init__(
        self,
        images: Images,
        labels: Labels,
        *,
        augmentation: str = "none",
        channels_last: bool = True,
        dtype: torch.dtype = torch.float32,
        front: nn.Module | None = None,
    ) -> None:
        if augmentation not in AUGMENTATIONS:
            expected = ", ".join(AUGMENTATIONS)
            raise ConfigError([f"unknown augmentation {augmentation!r}: expected one of {expected}"])
        if images.ndim != 4 or labels.shape[:1] != images.shape[:1] or len(labels) == 0:
            raise ValueError(f"images of shape {images.shape} do not go with labels of shape {labels.shape}")
        self.samples = len(labels)
        self._channels_last = channels_last
        self._augment = augmentation == "crop_flip"
        targets = torch.from_numpy(np.require(labels, requirements=("C", "W")))
        self._labels = targets.to(dtype) if targets.is_floating_point() else targets
        pixels = torch.from_numpy(np.require(images, np.float32, ("C", "W"))).to(dtype)
        self._height, self._width = images.shape[2:]
        if self._augment:
            pixels = _pad_with_black(pixels)
        self._pixels = pixels.permute(0, 2, 3, 1).contiguous() if channels_last or self._augment else pixels
        if front is not None:
            shown = self._pixels.permute(0, 3, 1, 2) if channels_last else self._pixels
            self._pixels, self._channels_last = front(shown).contiguous(), False

    @property
    def nbytes(self) -> int:
        """Bytes of memory of the samples."""
        return self._pixels.nbytes + self._labels.nbytes

    def epoch(self, seed: int, epoch: int, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Every image once, in an order keyed by (seed, epoch); the last batch may be smaller.

        Yields (n, channels, height, width) of the batches' dtype and their labels.
        """
        order = torch.from_numpy(generator(seed, "batches", step=epoch).permutation(self.samples))
        crops = _Crops.draw(seed, epoch, self.samples) if self._augment else None
        if self._in_rows(batch_size):
            shown, labels = self._pixels.index_select(0, order), self._labels.index_select(0, order)
            cuts = [min(batch_size, self.samples - start) for start in range(0, self.samples, batch_size)]
            parts = (torch.split_with_sizes(whole, cuts) for whole in (shown, labels))
            yield from zip(*parts, strict=True)
            return
        for start in range(0, self.samples, batch_size):
            chosen = order[start : start + batch_size]
            if crops is not None:
                pixels = crops.cut(self._pixels, chosen, start, self._height, self._width)
            else:
                pixels = self._pixels.index_select(0, chosen)
            if self._channels_last or self._augment:
                pixels = pixels.permute(0, 3, 1, 2)
            if self._augment and not self._channels_last:
                pixels = pixels.contiguous()
            yield pixels, self._labels.index_select(0, chosen)

    def _in_rows(self, batch_size: int) -> bool:
        """True for short rows of which each batch of an epoch lies in memory as if it were alone."""
        return self._pixels.ndim == 2 and self._pixels[0].nbytes * batch_size % _ALIGNED_BYTES == 0


class _Crops:
    """The random crop and flip of every place in one epoch's order."""

    def __init__(self, tops: Tensor, lefts: Tensor, mirrored: Tensor) -> None:
        self._tops, self._lefts, self._mirrored = tops, lefts, mirrored

    @classmethod
    def draw(cls, seed: int, epoch: int, samples: int) -> _Crops:
        draws = generator(seed, "augmentation", step=epoch)
        offsets = torch.from_numpy(draws.integers(0, 2 * _CROP_PADDING + 1, size=(2, samples)))
        return cls(offsets[0], offsets[1], torch.from_numpy(draws.random(samples) < 0.5))

    def cut(self, padded: Tensor, chosen: Tensor, start: int, height: int, width: int) -> Tensor:
        """The crops of images `chosen`, (n, height, width, channels), at places start.. of the order."""
        places = slice(start, start + len(chosen))
        columns = torch.arange(width).expand(len(chosen), width)
        columns = torch.where(self._mirrored[places, None], width - 1 - columns, columns)
        columns = columns + self._lefts[places, None]
        rows = torch.arange(height) + self._tops[places, None]
        return padded[chosen[:, None, None], rows[:, :, None], columns[:, None, :]]


def _pad_with_black(pixels: Tensor) -> Tensor:
    """Pad each side with black. After normalisation black is each channel's least value, not zero."""
    count, _, height, width = pixels.shape
    black = pixels.amin(dim=(0, 2, 3))[None, :, None, None]
    padded = black.repeat(count, 1, height + 2 * _CROP_PADDING, width + 2 * _CROP_PADDING)
    padded[:, :, _CROP_PADDING:-_CROP_PADDING, _CROP_PADDING:-_CROP_PADDING] = pixels
    return padded
