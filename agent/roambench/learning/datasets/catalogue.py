"""The data sets there are: name -> loader. Images arrive as float32, 32x32 pixels, normalised."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from roambench.contract.draws import generator
from roambench.contract.errors import ConfigError
from roambench.contract.table import Table
from roambench.learning.datasets.data_files import default_folder
from roambench.learning.datasets.dataset import Dataset, FileLoader, Loader
from roambench.learning.shards import Labels, are_classes

_SUBSET_SEED: Final = 0


def drawn_subset(labels: Labels, count: int, part: str) -> npt.NDArray[np.int64]:
    """Indices of `count` samples, ascending, with every class in its share of `labels`; at most all.

    The same draw in every run, under every seed; `part` ("train", "test") tells draws apart. A share is
    rounded down, and the largest remainders get what is missing. Data sets are in all kinds of orders: a
    leading part of MNIST's test images is harder than the rest, one of Speech Commands is a single word.
    Labels that are no classes have no shares: all samples alike.
    """
    if not are_classes(labels):
        labels = np.zeros(len(labels), np.int64)
    classes, of_class, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    count = min(count, len(labels))
    whole, rest = np.divmod(count * sizes, max(1, len(labels)))
    draws = generator(_SUBSET_SEED, f"subset {part}")
    # Ties between remainders are drawn, as classes of equal size would else always lose the last ones.
    whole[np.lexsort((draws.random(len(classes)), -rest))[: count - int(whole.sum())]] += 1
    chosen = [
        draws.choice(np.flatnonzero(of_class == place), size, replace=False)
        for place, size in enumerate(whole.tolist())
    ]
    return np.sort(np.concatenate([np.zeros(0, np.int64), *chosen]))


def load_dataset(name: str, folder: Path | None = None, *, download: bool = False) -> Dataset:
    """Load a data set. Raises ConfigError for an unknown name or missing files, DataError for broken ones.

    `folder` holds the files (None: the data set's place in the cache); nothing is fetched from the network
    unless `download` is set, and then only what is missing.
    """
    return DATASETS.load(name)(folder, download)


def require_files(name: str, folder: Path | None = None) -> None:
    """Raises ConfigError for files of the data set that are missing, which says how they come, if they do."""
    found = availability(name, folder) if name in DATASETS.names() else None
    if found is not None and found.missing:
        row = DATASETS.load(name)
        fetches = not isinstance(row, FileLoader) or row.fetches
        way = f"learning.dataset: {name} is not there yet: learning.download=true fetches it (--set)"
        raise ConfigError([*found.missing, *([way] if fetches else [])])


@dataclass(frozen=True, slots=True)
class Availability:
    """Presence of a data set: it can be loaded at once or not. `place` is where its files belong, None if it
    needs none."""

    place: Path | None
    missing: tuple[str, ...] = ()  # one line for every file that is not there


def availability(name: str, folder: Path | None = None) -> Availability | None:
    """Return whether `name`'s files are there, without reading them; None for another package's data set."""
    if not DATASETS.is_ours(name):
        return None
    row = DATASETS.load(name)
    if isinstance(row, FileLoader):
        place = folder or default_folder(row.cache)
        return Availability(place, tuple(row.missing(place)))
    if name not in _FILES:
        return Availability(None)
    module, cache = _FILES[name]
    place = folder or default_folder(cache)
    return Availability(place, tuple(_missing(module, place)))


def _missing(where: str, place: Path) -> list[str]:
    """Call the function at "module:name.of.it"; loaded late, as the loaders are."""
    module, _, path = where.partition(":")
    found: Any = import_module(f"roambench.learning.datasets.{module}")
    for part in path.split("."):
        found = getattr(found, part)
    return list(found(place))


#: Data set -> (what tells its missing files, its folder in the cache). What is not here needs no file.
_FILES: Final[dict[str, tuple[str, str]]] = {
    "mnist": ("mnist:missing", "mnist"),
    "emnist_byclass": ("emnist:BYCLASS.files.missing", "emnist"),
    "emnist_letters": ("emnist:LETTERS.files.missing", "emnist"),
    "cifar10": ("cifar:CIFAR10.files.missing", "cifar10"),
    "cifar100": ("cifar:CIFAR100.files.missing", "cifar100"),
}


def _digits(folder: Path | None, download: bool) -> Dataset:
    """1,797 real handwritten digits that scikit-learn ships, resized to 32x32: nothing to download."""
    del folder, download  # scikit-learn ships the images
    from roambench.learning.datasets.digits import load_digits

    return load_digits()


def _mnist(folder: Path | None, download: bool) -> Dataset:
    """MNIST's 70,000 handwritten digits from their four idx files, padded to 32x32."""
    from roambench.learning.datasets.mnist import load_mnist

    return load_mnist(folder, download=download)


def _emnist_byclass(folder: Path | None, download: bool) -> Dataset:
    """EMNIST by class: 814,255 handwritten digits and letters, 62 classes, padded to 32x32."""
    from roambench.learning.datasets.emnist import BYCLASS, load_emnist

    return load_emnist(BYCLASS, folder, download=download)


def _emnist_letters(folder: Path | None, download: bool) -> Dataset:
    """EMNIST letters: 145,600 handwritten letters, 26 classes, padded to 32x32."""
    from roambench.learning.datasets.emnist import LETTERS, load_emnist

    return load_emnist(LETTERS, folder, download=download)


def _cifar10(folder: Path | None, download: bool) -> Dataset:
    """CIFAR-10's 60,000 colour photographs of 32x32 from the binary version, 10 classes."""
    from roambench.learning.datasets.cifar import CIFAR10, load_cifar

    return load_cifar(CIFAR10, folder, download=download)


def _cifar100(folder: Path | None, download: bool) -> Dataset:
    """CIFAR-100's 60,000 colour photographs of 32x32 from the binary version, 100 fine classes."""
    from roambench.learning.datasets.cifar import CIFAR100, load_cifar

    return load_cifar(CIFAR100, folder, download=download)


def _synthetic(folder: Path | None, download: bool) -> Dataset:
    """7,000 drawn images of 32x32, 10 classes, separable but not at a glance: nothing to download."""
    del folder, download  # drawn from a fixed seed
    from roambench.learning.datasets.synthetic import load_synthetic

    return load_synthetic()


DATASETS: Final[Table[Loader]] = Table(
    what="data set",
    group="roambench.datasets",
    own={
        "digits": _digits,
        "mnist": _mnist,
        "emnist_byclass": _emnist_byclass,
        "emnist_letters": _emnist_letters,
        "cifar10": _cifar10,
        "cifar100": _cifar100,
        "synthetic": _synthetic,
    },
)
