"""Power over time: a sum of straight pieces, whose integrals are exact."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Signal:
    """Power over time, in W and s: the sum of straight pieces (start, end, W at start, W at end)."""

    def __init__(self, pieces: Floats) -> None:
        start, end, first, last = pieces.T
        slope = (last - first) / (end - start)
        when = np.concatenate([start, end])
        order = np.argsort(when, kind="stable")
        self._at = when[order]
        gap = np.diff(self._at)
        self._slope = np.cumsum(np.concatenate([slope, -slope])[order])
        self._watts = np.cumsum(np.concatenate([first, -last])[order])
        self._watts[1:] += np.cumsum(self._slope[:-1] * gap)
        area = (self._watts[:-1] + 0.5 * self._slope[:-1] * gap) * gap
        self._joules = np.concatenate([[0.0], np.cumsum(area)])

    def _piece(self, t: Floats) -> tuple[NDArray[np.intp], Floats]:
        i = np.maximum(np.searchsorted(self._at, t, side="right") - 1, 0)
        return i, np.maximum(t - self._at[i], 0.0)

    def watts(self, t: ArrayLike) -> Floats:
        """Power at the instants `t`; a step belongs to what follows it."""
        i, since = self._piece(np.asarray(t, float))
        return self._watts[i] + self._slope[i] * since

    def joules(self, t: ArrayLike) -> Floats:
        """Energy from the first piece's start up to each `t`."""
        i, since = self._piece(np.asarray(t, float))
        return self._joules[i] + (self._watts[i] + 0.5 * self._slope[i] * since) * since


def lagged(step: float, tau: float, inputs: Floats) -> Floats:
    """x[k] = a x[k-1] + inputs[k] with a = exp(-step / tau)."""
    decay = np.exp(-step / tau * np.arange(len(inputs)))
    return np.asarray(decay * np.cumsum(inputs / decay))
