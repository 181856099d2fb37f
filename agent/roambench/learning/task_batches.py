"""Mini-batches that a task makes itself: sequences of like length together, windows, uneven draws."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from roambench.contract.draws import generator
from roambench.contract.errors import ConfigError, error_text
from roambench.learning.shards import Shard, wrong_labels
from roambench.learning.tasks import asked


class TaskBatches:
    """The batches of one device, as many in an epoch and by the same key as those of `Batches`."""

    def __init__(
        self, task: str, shard: Shard, classes: int, channels_last: bool, dtype: torch.dtype
    ) -> None:
        self.samples = len(shard.labels)
        self._task, self._shard, self._classes = task, shard, classes
        self._format = torch.channels_last if channels_last else torch.contiguous_format
        self._dtype = dtype

    def epoch(self, seed: int, epoch: int, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """The task's batches, its draws keyed by (seed, epoch). ConfigError names what is wrong with one."""
        draws = generator(seed, "batches", step=epoch)
        wanted = -(-self.samples // batch_size)
        count = 0
        for found in self._asked(batch_size, draws):
            if wrong := self._wrong(found):
                raise ConfigError([f"task {self._task!r}: batches: {wrong}"])
            count += 1
            if count > wanted:
                break
            pixels, labels = (torch.from_numpy(np.require(part, requirements=("C", "W"))) for part in found)
            pixels = pixels.to(self._dtype).contiguous(memory_format=self._format)
            yield pixels, labels.to(self._dtype) if labels.is_floating_point() else labels
        if count != wanted:
            got = f"more than {wanted}" if count > wanted else str(count)
            problem = (
                f"expected {wanted} batches of an epoch, {self.samples} samples by {batch_size}, got {got}"
            )
            raise ConfigError([f"task {self._task!r}: batches: {problem}"])

    def _asked(self, batch_size: int, draws: np.random.Generator) -> Iterator[Any]:
        """Return what the task's function gives, as it comes; ConfigError where it fails, on the way, too."""
        made = asked(self._task, "batches", self._shard.images, self._shard.labels, batch_size, draws)
        if not isinstance(made, Iterable):
            wanted = "pairs of images and labels, one after the other"
            raise ConfigError([f"task {self._task!r}: batches: expected {wanted}, got {type(made).__name__}"])
        found = iter(made)
        while True:
            try:
                batch = next(found)
            except StopIteration:
                return
            except (Exception, SystemExit) as error:
                problem = f"task {self._task!r}: batches fails: {error_text(error)}"
                raise ConfigError([problem]) from error
            yield batch

    def _wrong(self, found: object) -> str:
        if not isinstance(found, tuple) or len(found) != 2:
            return f"expected pairs of images and labels, got {type(found).__name__}"
        images, labels = found
        channels, ours = self._shard.images.shape[1], self._shard.labels
        if not isinstance(images, np.ndarray) or images.dtype != np.float32 or images.ndim != 4:
            return "expected images float32 (n, channels, height, width)"
        if images.shape[1] != channels or not images.size:
            return f"expected images of {channels} channels, got shape {images.shape}"
        if not np.isfinite((images.min(), images.max())).all():
            return "expected images of finite values, got some that are not"
        if wrong := wrong_labels(labels, len(images), self._classes):
            return f"labels: {wrong}"
        if (labels.dtype, labels.ndim) != (ours.dtype, ours.ndim):
            return f"labels: expected {ours.dtype} of {ours.ndim} axes, got {labels.dtype} of {labels.ndim}"
        return ""
