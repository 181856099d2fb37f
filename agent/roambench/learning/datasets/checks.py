"""Checks of a data set that another package loaded."""

from __future__ import annotations

import numpy as np

from roambench.learning.datasets.dataset import Dataset
from roambench.learning.shards import Images, Labels, are_classes, wrong_labels


def wrong_data(data: Dataset) -> str:
    """Return what was expected of the data set's classes, images, labels and groups, and what they are; "" if
    all is well."""
    if not isinstance(data.classes, int) or isinstance(data.classes, bool) or data.classes < 1:
        return f"classes: expected a whole number above 0, got {data.classes!r}"
    for part, images, labels in (
        ("train", data.train_images, data.train_labels),
        ("test", data.test_images, data.test_labels),
    ):
        if wrong := _wrong_samples(images, labels, data):
            return f"{part}_{wrong}"
    return _wrong_groups(data)


def _wrong_samples(images: Images, labels: Labels, data: Dataset) -> str:
    if (
        not isinstance(images, np.ndarray)
        or images.dtype != np.float32
        or images.ndim != 4
        or not images.size
    ):
        return "images: expected float32 of shape (n, channels, height, width), " + _kind(images)
    if images.shape[1:] != data.train_images.shape[1:]:
        return f"images: expected {data.train_images.shape[1:]} each, as the training images, " + _kind(
            images
        )
    if not np.isfinite((images.min(), images.max())).all():
        return "images: expected finite values, got NaN or infinity"
    if wrong := wrong_labels(labels, len(images), data.classes):
        return f"labels: {wrong}"
    first = data.train_labels
    if (labels.dtype, labels.shape[1:]) != (first.dtype, first.shape[1:]):
        return f"labels: expected {first.dtype} of shape {first.shape[1:]} each, as the training labels, " + (
            _kind(labels)
        )
    return ""


def _wrong_groups(data: Dataset) -> str:
    groups = data.train_groups
    if groups is None:
        return ""
    if wrong := wrong_labels(groups, len(data.train_images)):
        return f"train_groups: {wrong}"
    if are_classes(data.train_labels) or not are_classes(groups):
        got = "labels are classes" if are_classes(data.train_labels) else _kind(groups)
        return f"train_groups: expected a group per sample, int64 (n,), where labels are no classes; {got}"
    return ""


def _kind(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"got {value.dtype} of shape {value.shape}"
    return f"got {type(value).__name__}"
