"""A device's own data as one safetensors file: `images` and `labels`, checked whenever it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, TypeGuard

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from roambench.contract.errors import DataError
from roambench.contract.whole_file import write_whole

Images = npt.NDArray[np.float32]  # (n, channels, height, width), normalised
Classes = npt.NDArray[np.int64]  # (n,), a class per sample
#: What a sample is trained towards, by dtype and shape: a class, int64 (n,); values, float32 (n, values),
#: which are 0 and 1 where several labels may hold; a class per place of a sequence, int64 (n, places).
Labels = npt.NDArray[np.int64 | np.float32]
#: The class of a place that counts neither in training nor in scores (torch's `ignore_index`).
IGNORED: Final = -100


@dataclass(frozen=True, slots=True)
class Shard:
    """The training samples of one device: float32 (n, channels, height, width), and a label of each."""

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
        write_whole(path, save(arrays))
    except (OSError, SafetensorError) as error:
        raise DataError(f"{path}: shard cannot be written ({error})") from None


def read_shard(path: Path, *, in_channels: int | None = None, classes: int | None = None) -> Shard:
    """Read and check a shard. DataError names the file and what is wrong with it.

    With `in_channels` and `classes` the images must have that many channels and the labels go with a model
    of that many outputs.
    """
    try:
        with path.open("rb") as file:
            arrays = load_file(_by_descriptor(file))
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
    if wrong := wrong_labels(labels, len(images), classes):
        raise DataError(f"{path}: labels: {wrong}")
    return Shard(images, labels)


def are_classes(labels: Labels) -> TypeGuard[Classes]:
    """Return whether the labels are a class per sample, so that there is an accuracy."""
    return labels.ndim == 1


def wrong_labels(labels: object, samples: int, classes: int | None = None) -> str:
    """Return what was expected of the labels of that many samples, and what they are; "" if nothing is wrong.

    `classes`: how many classes there are, or values per sample.
    """
    wanted = (
        f"expected int64 of shape ({samples},), a class per sample, or ({samples}, places), one per place; "
        f"or float32 of shape ({samples}, values)"
    )
    if not isinstance(labels, np.ndarray):
        return f"{wanted}, got {type(labels).__name__}"
    got = f"got {labels.dtype} of shape {labels.shape}"
    if labels.dtype not in (np.int64, np.float32) or labels.shape[:1] != (samples,) or not labels.size:
        return f"{wanted}, {got}"
    if labels.dtype == np.float32:
        if labels.ndim != 2:
            return f"{wanted}, {got}"
        if classes is not None and labels.shape[1] != classes:
            return f"expected {classes} values per sample, as many as `classes`, {got}"
        return "" if np.isfinite(labels).all() else "expected finite values, got NaN or infinity"
    if labels.ndim > 2:
        return f"{wanted}, {got}"
    counted = np.ones(labels.shape, bool) if labels.ndim == 1 else labels != IGNORED
    if not counted.reshape(samples, -1).any(axis=1).all():
        return f"expected at least one place of every sample that is not {IGNORED}, which does not count"
    least, most = int(labels[counted].min()), int(labels[counted].max())
    if least < 0 or (classes is not None and most >= classes):
        wanted = "0 or more" if classes is None else f"0..{classes - 1}"
        return f"expected {wanted}, got {least}..{most}"
    return ""


def _check(path: str, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    if arrays.keys() != {"images", "labels"}:
        raise DataError(f"{path}: expected entries images and labels, found {', '.join(sorted(arrays))}")
    images, labels = arrays["images"], arrays["labels"]
    if images.dtype != np.float32 or images.ndim != 4:
        raise DataError(
            f"{path}: images are {images.dtype} of shape {images.shape}, "
            "expected float32 (n, channels, height, width)"
        )
    if images.size == 0:
        raise DataError(f"{path}: holds no image")
    if not np.isfinite(images).all():
        raise DataError(f"{path}: images hold NaN or infinity")
    if wrong := wrong_labels(labels, len(images)):
        raise DataError(f"{path}: labels: {wrong}")


def _by_descriptor(file: IO[bytes]) -> str:
    """A name for safetensors, which takes only names in UTF-8."""
    return f"/proc/self/fd/{file.fileno()}"
