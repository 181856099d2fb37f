"""The data sets there are: name -> loader. Images arrive as float32, 32x32 pixels, normalised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from roambench.learning import catalogue
from roambench.learning.shards import Images, Labels

GROUP: Final = "roambench.datasets"


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
        return int(self.train_images.shape[1])


#: (folder with the files, or None for the usual place; may it download what is missing) -> data set.
Loader = Callable[[Path | None, bool], Dataset]


def load_dataset(name: str, folder: Path | None = None, *, download: bool = False) -> Dataset:
    """Load a data set. Raises ConfigError for an unknown name or missing files, DataError for broken ones.

    `folder` holds the files (None: the data set's place in the cache); nothing is fetched from the network
    unless `download` is set, and then only what is missing.
    """
    return catalogue.find(DATASETS, name, what="data set", group=GROUP)(folder, download)


def dataset_names() -> list[str]:
    """The names `load_dataset` knows, entry points included."""
    return catalogue.names(DATASETS, GROUP)


def _digits(folder: Path | None, download: bool) -> Dataset:
    """1,797 real handwritten digits that scikit-learn ships, resized to 32x32: nothing to download."""
    del folder, download  # scikit-learn ships the images
    from roambench.learning.digits import load_digits

    return load_digits()


def _mnist(folder: Path | None, download: bool) -> Dataset:
    """MNIST's 70,000 handwritten digits from their four idx files, padded to 32x32."""
    from roambench.learning.mnist import load_mnist

    return load_mnist(folder, download=download)


DATASETS: Final[dict[str, Loader]] = {"digits": _digits, "mnist": _mnist}
