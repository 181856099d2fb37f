"""A device's own data as one safetensors file: `images` and `labels`, checked whenever it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from roambench.contract.errors import DataError
from roambench.contract.whole_file import replaced

Images = npt.NDArray[np.float32]  # (n, channels, height, width), normalised
Labels = npt.NDArray[np.int64]  # (n,)


@dataclass(frozen=True, slots=True)
class Shard:
    """The training samples of one device: float32 (n, channels, height, width) and int64 (n,)."""

    images: Images
    labels: Labels


def write_shard(path: Path, shard: Shard) -> None:
    """Write `shard` to `path`, whole or not at all. DataError if it could not be read back or written."""
    _check(str(path), {"images": shard.images, "labels": shard.labels})
    arrays: dict[str, npt.NDArray[Any]] = {
        "images": np.ascontiguousarray(shard.images),
        "labels": np.ascontiguousarray(shard.labels),
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replaced(path) as file:
            save_file(arrays, file)
    except (OSError, SafetensorError) as error:
        raise DataError(f"{path}: shard cannot be written ({error})") from None


def read_shard(path: Path, *, in_channels: int | None = None, classes: int | None = None) -> Shard:
    """Read and check a shard. DataError names the file and what is wrong with it.

    With `in_channels` and `classes` the images must have that many channels and the labels lie below.
    """
    try:
        arrays = load_file(path)
    except FileNotFoundError:
        raise DataError(f"{path}: no such shard") from None
    # Besides OSError and SafetensorError: a header that names a dtype NumPy lacks makes safetensors 0.8 raise
    # TypeError (BF16) or AttributeError (F8_E4M3). No file may do more than be refused.
    except Exception as error:
        raise DataError(f"{path}: not a readable shard ({error})") from None
    _check(str(path), arrays)
    images, labels = arrays["images"], arrays["labels"]
    if in_channels is not None and images.shape[1] != in_channels:
        raise DataError(f"{path}: images have {images.shape[1]} channels, the model takes {in_channels}")
    if classes is not None and int(labels.max()) >= classes:
        raise DataError(f"{path}: label {int(labels.max())} with {classes} classes")
    return Shard(images, labels)


def _check(path: str, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    if arrays.keys() != {"images", "labels"}:
        raise DataError(f"{path}: expected entries images and labels, found {', '.join(sorted(arrays))}")
    images, labels = arrays["images"], arrays["labels"]
    if images.dtype != np.float32 or images.ndim != 4:
        raise DataError(
            f"{path}: images are {images.dtype} of shape {images.shape}, "
            "expected float32 (n, channels, height, width)"
        )
    if labels.dtype != np.int64 or labels.ndim != 1:
        raise DataError(f"{path}: labels are {labels.dtype} of shape {labels.shape}, expected int64 (n,)")
    if len(images) != len(labels):
        raise DataError(f"{path}: {len(images)} images but {len(labels)} labels")
    if images.size == 0:
        raise DataError(f"{path}: holds no image")
    if not np.isfinite(images).all():
        raise DataError(f"{path}: images hold NaN or infinity")
    if int(labels.min()) < 0:
        raise DataError(f"{path}: label {int(labels.min())} is negative")
