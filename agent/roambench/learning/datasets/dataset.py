"""A data set: its images and labels, and the function that loads one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from roambench.learning.shards import Images, Labels

IMAGE_SIDE: Final = 32  # pixels; every data set is brought to this size


@dataclass(frozen=True, slots=True)
class Dataset:
    """Images float32 (n, channels, 32, 32), normalised; labels int64 (n,) in 0..classes-1."""

    train_images: Images
    train_labels: Labels
    test_images: Images
    test_labels: Labels
    classes: int

    @property
    def in_channels(self) -> int:
        """Channels of each image."""
        return int(self.train_images.shape[1])


#: (folder with the files, or None for the usual place; may it download what is missing) -> data set.
Loader = Callable[[Path | None, bool], Dataset]
