"""Mini-batches of many devices at once: each the batches, order and augmentation it would train on alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from roambench.contract.learning_spec import LearningSpec
from roambench.learning.batches import Batches
from roambench.learning.shards import Shard

Counts = npt.NDArray[np.int64]


class StackedFeed:
    """One epoch of every device lies on the computing device, cut into batches of equal size.

    A device's last batch of an epoch may be smaller than the others: it is filled up with its first image,
    whose weight in the loss is 0. Where all batches of a step are small, none is filled up.
    """

    def __init__(
        self,
        spec: LearningSpec,
        shards: Sequence[Shard],
        seeds: Sequence[int],
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self._seeds = seeds
        self._batches = [
            Batches(
                shard.images,
                shard.labels,
                augmentation=spec.augmentation,
                channels_last=False,
                dtype=dtype,
            )
            for shard in shards
        ]
        self._samples: Counts = np.array([batches.samples for batches in self._batches])
        self._size = spec.batch_size
        self.per_epoch: Counts = -(-self._samples // self._size)  # mini-batches, by device
        places = self.per_epoch * self._size
        self._offsets: Counts = np.cumsum(places) - places
        image = shards[0].images.shape[1:]
        self._pixels = torch.empty((int(places.sum()), *image), dtype=dtype, device=device)
        label = shards[0].labels.shape[1:]
        kind = dtype if shards[0].labels.dtype == np.float32 else torch.int64
        self._labels = torch.empty((int(places.sum()), *label), dtype=kind, device=device)
        weights = [
            self._weights_of(samples, count) for samples, count in zip(self._samples, places, strict=True)
        ]
        self._weights = torch.from_numpy(np.concatenate(weights)).to(device, dtype)

    def step(self, number: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return step `number`: pixels (devices, n, channels, height, width), labels (devices, n, ...) and
        weights (devices, n).

        The weights of one device add up to 1. Steps are asked for in order, from 0.
        """
        batch = number % self.per_epoch
        for index in np.flatnonzero(batch == 0):
            self._refill(int(index), number // int(self.per_epoch[index]))
        width = int(self.counts(number).max())
        places = (self._offsets + batch * self._size)[:, None] + np.arange(width)
        chosen = torch.from_numpy(places.reshape(-1)).to(self._pixels.device)
        shape = (len(self._batches), width)
        return (
            self._pixels.index_select(0, chosen).view(*shape, *self._pixels.shape[1:]),
            self._labels.index_select(0, chosen).view(*shape, *self._labels.shape[1:]),
            self._weights.index_select(0, chosen).view(shape),
        )

    def counts(self, number: int) -> Counts:
        """Return how many of the images in step `number` are a device's own, by device; they come first."""
        left: Counts = self._samples - number % self.per_epoch * self._size
        return np.minimum(left, self._size)

    def _refill(self, index: int, epoch: int) -> None:
        samples = int(self._samples[index])
        start = int(self._offsets[index])
        stop = start + int(self.per_epoch[index]) * self._size
        # The order and the crops of an epoch do not depend on how it is cut into batches.
        pixels, labels = next(iter(self._batches[index].epoch(self._seeds[index], epoch, samples)))
        self._pixels[start : start + samples].copy_(pixels)
        self._labels[start : start + samples].copy_(labels)
        self._pixels[start + samples : stop] = self._pixels[start]
        self._labels[start + samples : stop] = self._labels[start]

    def _weights_of(self, samples: int, places: int) -> npt.NDArray[np.float64]:
        """1 / (size of its batch) for every place of an epoch, 0 for what fills up."""
        place = np.arange(places)
        sizes = np.minimum(samples - place // self._size * self._size, self._size)
        return np.where(place < samples, 1.0 / sizes, 0.0)
