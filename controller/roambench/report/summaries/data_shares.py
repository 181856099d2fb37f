"""A training set as a partition shares it out: images per device and class, and what follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from roambench.mobility.trace import Trace


@dataclass(frozen=True, slots=True)
class ShareSpread:
    """Smallest, median, mean and largest of one number per device."""

    least: float
    median: float
    mean: float
    most: float


@dataclass(frozen=True, slots=True, eq=False)
class DataShares:
    """`counts[d, c]` images of class c at device d; `held[c]` images of class c in the training set."""

    devices: tuple[str, ...]
    counts: npt.NDArray[np.int64]
    held: npt.NDArray[np.int64]
    distinct: int  # training images that at least one device has

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Images of each device."""
        return np.asarray(self.counts.sum(axis=1))

    @property
    def classes_held(self) -> npt.NDArray[np.int64]:
        """Classes of which each device has at least one image."""
        return np.asarray((self.counts > 0).sum(axis=1))

    @property
    def distances(self) -> npt.NDArray[np.float64]:
        """Total variation between a device's class mix and the training set's: 0 the same, 1 disjoint.

        Half the sum of the absolute differences of the shares; 1 for a device without images.
        """
        mixes = self.counts / np.maximum(self.sizes, 1)[:, None]
        found = np.abs(mixes - self.held / self.held.sum()).sum(axis=1) / 2.0
        return np.asarray(np.where(self.sizes > 0, found, 1.0))


def shares_of(
    devices: Sequence[str],
    labels: npt.NDArray[np.int64],
    parts: Sequence[npt.NDArray[np.int64]],
    classes: int,
) -> DataShares:
    """Count a training set's `labels` in every device's part (indices into them)."""
    counts = np.stack([np.bincount(labels[part], minlength=classes) for part in parts]).astype(np.int64)
    given = np.zeros(len(labels), dtype=bool)
    for part in parts:
        given[part] = True
    held = np.bincount(labels, minlength=classes).astype(np.int64)
    return DataShares(tuple(devices), counts, held, int(given.sum()))


def ap_distances(shares: DataShares, trace: Trace) -> npt.NDArray[np.float64]:
    """Total variation between the class mix of an access point's devices together and the training set's, as
    the mean over the access points that have images, shape (steps,); NaN in a step without any. The trace has
    recorded access points, and `shares` its devices."""
    if trace.ap is None:
        raise ValueError("the trace recorded no access points")
    whole = shares.held / shares.held.sum()
    found = np.full(trace.steps, np.nan)
    for step in range(trace.steps):
        rows = trace.rows(step)
        at_ap = np.zeros((len(trace.ap_names), len(whole)), np.int64)
        np.add.at(at_ap, trace.ap[rows], shares.counts[trace.device[rows]])
        sizes = at_ap.sum(axis=1)
        if sizes.any():
            mixes = at_ap[sizes > 0] / sizes[sizes > 0, None]
            found[step] = (np.abs(mixes - whole).sum(axis=1) / 2.0).mean()
    return found


def spread(values: npt.NDArray[np.int64] | npt.NDArray[np.float64]) -> ShareSpread:
    """The spread of one number per device, shape (devices,)."""
    return ShareSpread(
        *(float(value) for value in (values.min(), np.median(values), values.mean(), values.max()))
    )
