"""Partition of the training images: MOHAWK's label distribution per device, a Dirichlet draw."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from roambench.contract.draws import generator
from roambench.contract.errors import ConfigError
from roambench.learning.shards import Classes

Indices = npt.NDArray[np.int64]


def partition(
    labels: Classes,
    devices: int,
    images_per_device: int,
    alpha: float,
    seed: int,
    *,
    replacement: bool = False,
) -> list[Indices]:
    """For each device the indices of its images, int64 (images_per_device,).

    A device's labels are Dirichlet(alpha, ..., alpha) (100: nearly IID, 0.1: a few classes), and its class
    counts are that mix of `images_per_device` as MOHAWK's authors' code rounds it: down; scaled up to
    `images_per_device` and down again; what is missing still goes to one class, drawn evenly. Within a device
    no image comes twice; devices draw independently and overlap (with `replacement`, as in the authors'
    code, images may repeat within a device too). When a device asks for more of a class than there is, it
    gets all of that class, and the rest is counted in the same way over the classes that still have images.
    Device d's draw is keyed by (seed, d): it does not depend on how many devices there are. Raises
    ConfigError with every reason why this cannot be done.
    """
    problems = []
    if not alpha > 0.0:
        problems.append(f"alpha = {alpha}: expected more than 0")
    if devices < 1:
        problems.append(f"devices = {devices}: expected 1 or more")
    if images_per_device < 1:
        problems.append(f"images_per_device = {images_per_device}: expected 1 or more")
    if len(labels) == 0:
        problems.append("the training set holds no image")
    elif not replacement and images_per_device > len(labels):
        problems.append(f"images_per_device = {images_per_device}: the training set has {len(labels)}")
    if problems:
        raise ConfigError(problems)
    by_class = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    return [
        _draw(by_class, images_per_device, alpha, generator(seed, "partition", device), replacement)
        for device in range(devices)
    ]


def _draw(
    by_class: list[npt.NDArray[np.intp]],
    images: int,
    alpha: float,
    draws: np.random.Generator,
    replacement: bool,
) -> Indices:
    mix = draws.dirichlet(np.full(len(by_class), alpha))
    available = np.array([len(members) for members in by_class])
    counts = _rounded(mix, images, draws) if replacement else _counts_within(available, images, mix, draws)
    chosen = [
        draws.choice(members, size=count, replace=replacement)
        for members, count in zip(by_class, counts, strict=True)
    ]
    return np.concatenate(chosen).astype(np.int64)


def _counts_within(
    available: npt.NDArray[np.int64], images: int, mix: npt.NDArray[np.float64], draws: np.random.Generator
) -> npt.NDArray[np.int64]:
    counts = np.zeros_like(available)
    while (missing := images - int(counts.sum())) > 0:
        there = counts < available
        open_mix = np.where(there, mix, 0.0)
        if open_mix.sum() < 1e-12:  # only classes the mix gives nothing to are left: by what they hold
            open_mix = (available - counts).astype(np.float64)
        wanted = np.zeros_like(available)
        wanted[there] = _rounded(open_mix[there] / open_mix.sum(), missing, draws)
        counts = np.minimum(counts + wanted, available)
    return counts


def _rounded(mix: npt.NDArray[np.float64], images: int, draws: np.random.Generator) -> npt.NDArray[np.int64]:
    """Whole numbers that add up to `images`, by the authors' rule."""
    counts = (mix * images).astype(np.int64)
    if whole := int(counts.sum()):
        counts = counts * images // whole
    counts[draws.integers(len(counts))] += images - counts.sum()
    return counts
