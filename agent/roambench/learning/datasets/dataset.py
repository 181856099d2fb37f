"""A data set: its images and labels, and the function that loads one."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from roambench.learning.shards import Classes, Images, Labels, are_classes

IMAGE_SIDE: Final = 32  # pixels; every data set is brought to this size


@dataclass(frozen=True, slots=True)
class Dataset:
    """Images float32 (n, channels, 32, 32), normalised and finite, and their labels: int64 (n,) in
    0..classes-1; or values, float32 (n, classes); or a class per place of a sequence, int64 (n, places),
    where `roambench.learning.shards.IGNORED` stands at places that do not count.
    """

    train_images: Images
    train_labels: Labels
    test_images: Images
    test_labels: Labels
    classes: int  # or values per sample: what the model is built with
    train_groups: Classes | None = None  # int64 (n,) for partitions by class, where labels are no classes

    def __post_init__(self) -> None:
        with suppress(TypeError):  # `wrong_data` names it; NumPy's whole numbers are no JSON
            object.__setattr__(self, "classes", operator.index(self.classes))

    @property
    def groups(self) -> Classes | None:
        """Return what partitions by class go by, int64 (n,): the training labels, or their groups."""
        return self.train_labels if are_classes(self.train_labels) else self.train_groups

    @property
    def group_count(self) -> int:
        """Return how many there are of them, 0 for none."""
        if self.groups is None or self.groups is self.train_labels:
            return 0 if self.groups is None else self.classes
        return int(self.groups.max()) + 1

    @property
    def in_channels(self) -> int:
        """Channels of each image."""
        return int(self.train_images.shape[1])


#: (folder with the files, or None for the usual place; may it download what is missing) -> data set.
Loader = Callable[[Path | None, bool], Dataset]


@dataclass(frozen=True, slots=True)
class FileLoader:
    """A `Loader` of files whose place in the cache is the folder `cache`. `missing` returns a line for every
    file that is not in a folder, without reading any; `fetches`: it can download them."""

    summary: str
    cache: str
    load: Loader
    missing: Callable[[Path], Iterable[str]]
    fetches: bool = True

    def __call__(self, folder: Path | None, download: bool) -> Dataset:
        """Load the data set."""
        return self.load(folder, download)
