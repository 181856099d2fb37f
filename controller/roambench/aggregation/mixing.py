"""Mixing matrices of decentralised learning: row i of W tells what device i's new model is made of,
x_i ← Σ_j W_ij x_j.

Every rule takes a neighbour matrix (devices, devices): a SciPy sparse array that stores the neighbours,
without oneself; the values it stores do not matter. It returns W as a `scipy.sparse.csr_array` of float64
with ascending indices in every row. W stores exactly the neighbours and the diagonal, also where a weight is
0: who sends to whom can be read from it. Sums run in ascending order of device, so equal contacts give equal
bits. Rows add up to 1; without neighbours a device keeps its own model.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import scipy

from roambench.aggregation.mixing_rule import MIXINGS, Mixing, MixingRule, Neighbours
from roambench.contract.errors import ConfigError, PluginError
from roambench.vectors import Weights

Devices = npt.NDArray[np.int64]


class NegativeWeightWarning(UserWarning):
    """A setting under which a model can count negatively."""


def mixing_matrix(
    rule: str | MixingRule,
    neighbours: Neighbours,
    *,
    speeds: npt.ArrayLike | None = None,
    samples: npt.ArrayLike | None = None,
    alpha: float = 0.0,
) -> Mixing:
    """W by the rule of that name: `mobility_aware` reads `speeds` and `alpha`, `data_size` reads `samples`.

    Raises ConfigError for a name that is none of MIXINGS, ValueError as the rules do; PluginError where a
    rule that is a function returns what is no W of these neighbours.
    """
    if not isinstance(rule, str):
        devices = neighbours.shape[0]
        speeds = np.zeros(devices) if speeds is None else np.asarray(speeds, np.float64)
        samples = np.zeros(devices, np.int64) if samples is None else np.asarray(samples, np.int64)
        return _checked(rule(neighbours, speeds=speeds, samples=samples, alpha=alpha), neighbours)
    if rule == "plain":
        return plain_mixing(neighbours)
    if rule == "mobility_aware":
        return mobility_aware_mixing(neighbours, () if speeds is None else speeds, alpha)
    if rule == "data_size":
        return data_size_mixing(neighbours, () if samples is None else samples)
    if rule == "metropolis_hastings":
        return metropolis_hastings_mixing(neighbours)
    if rule == "fully_connected":
        return fully_connected_mixing(neighbours.shape[0])
    raise ConfigError([f"mixing = {rule!r}: expected one of {', '.join(MIXINGS)}"])


def plain_mixing(neighbours: Neighbours) -> Mixing:
    """D-PSGD (de Heredia §5.3): 1 / N for each of the N models, one's own among them."""
    rows, columns, devices = _cells(neighbours)
    return _matrix(1.0 / _models(rows, devices)[rows], columns, rows, devices)


def mobility_aware_mixing(neighbours: Neighbours, speeds: npt.ArrayLike, alpha: float) -> Mixing:
    """1 / N + α (X_ij - 1 / N) with X_ij = s_j / Σ s over i and its neighbours (de Heredia §5.4).

    `speeds`: s_j >= 0 in any one unit, shape (devices,). α = 0 is `plain_mixing`, α = 1 the naive W = X.
    Where no device moves (Σ s = 0, not in the paper) X_ij is 1 / N. Warns for α > 1
    (`NegativeWeightWarning`):
    a device that is much slower than its neighbours then gets a negative weight. Raises ValueError for an α
    that is negative or not finite, and for a speed that is.
    """
    if not 0.0 <= alpha < np.inf:
        raise ValueError(f"alpha = {alpha}: expected 0 (plain averaging) or more")
    if alpha > 1.0:
        warnings.warn(
            f"alpha = {alpha}: above 1 the models of slow devices get negative weights",
            NegativeWeightWarning,
            stacklevel=2,
        )
    rows, columns, devices = _cells(neighbours)
    shares = 1.0 / _models(rows, devices)[rows]
    by_speed = _shares(_amounts(speeds, "speed", devices), shares, rows, columns, devices)
    return _matrix(shares + alpha * (by_speed - shares), columns, rows, devices)


def data_size_mixing(neighbours: Neighbours, samples: npt.ArrayLike) -> Mixing:
    """|D_j| / Σ |D| over oneself and one's neighbours (workshop Eq. 2).

    `samples`: shape (devices,). Where all of them hold none (not in the paper) each counts 1 / N. Raises
    ValueError for a negative count.
    """
    rows, columns, devices = _cells(neighbours)
    shares = 1.0 / _models(rows, devices)[rows]
    counts = _amounts(samples, "sample count", devices)
    return _matrix(_shares(counts, shares, rows, columns, devices), columns, rows, devices)


def metropolis_hastings_mixing(neighbours: Neighbours) -> Mixing:
    """1 / (1 + max(d_i, d_j)) for a neighbour, the rest for oneself (journal Eq. 2).

    d counts neighbours without oneself. Symmetric for a symmetric neighbour matrix, so its columns add up to
    1 as well: doubly stochastic. Raises ValueError for a neighbour matrix that is not symmetric.
    """
    rows, columns, devices = _cells(neighbours)
    if not np.array_equal(np.sort(rows * devices + columns), np.sort(columns * devices + rows)):
        raise ValueError("Metropolis-Hastings needs a symmetric neighbour matrix")
    degrees = _models(rows, devices) - 1.0
    weights = 1.0 / (1.0 + np.maximum(degrees[rows], degrees[columns]))
    own = rows == columns
    weights[own] = 0.0
    weights[own] = 1.0 - np.bincount(rows, weights, devices)
    return _matrix(weights, columns, rows, devices)


def fully_connected_mixing(devices: int) -> Mixing:
    """The bound of the journal's §V-B5 (R_c = inf): everybody gets the plain mean of all, 1 / devices."""
    if devices < 1:
        raise ValueError("a mixing matrix needs at least one device")
    return scipy.sparse.csr_array(np.full((devices, devices), 1.0 / devices))


def left_out(mixing: Mixing, receivers: Sequence[int], senders: Sequence[int]) -> Mixing:
    """W after models that did not arrive: receivers[n] got nothing from senders[n].

    The missing model's weight goes to the receiver's own. Rows still add up to 1; columns do only if who was
    left out by a neighbour left them out, too. The entry stays stored, as 0. Raises ValueError for a pair
    that exchanges no model in W; a pair named twice counts once.
    """
    devices = mixing.shape[0]
    gone = np.unique(np.asarray(receivers, np.int64) * devices + np.asarray(senders, np.int64))
    rows = np.repeat(np.arange(devices), np.diff(mixing.indptr))
    cells = rows * devices + mixing.indices
    for receiver, sender in zip(receivers, senders, strict=True):
        known = 0 <= receiver < devices and 0 <= sender < devices and receiver != sender
        if not known or sender not in mixing.indices[slice(*mixing.indptr[receiver : receiver + 2])]:
            raise ValueError(f"device {receiver} was to get no model from device {sender}")
    missing = np.isin(cells, gone)
    weights = np.where(missing, 0.0, mixing.data)
    weights[rows == mixing.indices] += np.bincount(rows[missing], mixing.data[missing], devices)
    return scipy.sparse.csr_array((weights, mixing.indices.copy(), mixing.indptr.copy()), shape=mixing.shape)


def mixing_row(mixing: Mixing, device: int) -> tuple[Devices, Weights]:
    """Return whose models device mixes, ascending and itself among them, and their weights."""
    start, stop = mixing.indptr[device : device + 2]
    sources: Devices = np.asarray(mixing.indices[start:stop], np.int64)
    weights: Weights = np.array(mixing.data[start:stop], np.float64)
    return sources, weights


def _checked(answer: object, neighbours: Neighbours) -> Mixing:
    """The answer of another package's rule as a W like ours: entries for all neighbours and the diagonal."""
    rows, columns, devices = _cells(neighbours)
    if not scipy.sparse.issparse(answer) and not isinstance(answer, np.ndarray):
        raise PluginError(f"mixing: expected a matrix, got {type(answer).__name__}")
    given = scipy.sparse.csr_array(answer)
    if given.shape != (devices, devices):
        raise PluginError(f"mixing: expected a matrix of {devices} x {devices}, got {given.shape}")
    if not np.isfinite(given.data).all():
        raise PluginError("mixing: expected finite weights, got NaN or infinity")
    receivers, _ = given.nonzero()
    inside = np.isin(receivers * devices + given.nonzero()[1], rows * devices + columns)
    if not inside.all():
        receiver, sender = receivers[~inside][0], given.nonzero()[1][~inside][0]
        raise PluginError(f"mixing: device {receiver} weighs device {sender}, which is not its neighbour")
    sums = np.asarray(given.sum(axis=1))
    if (wrong := np.flatnonzero(np.abs(sums - 1.0) > 1e-6)).size:
        raise PluginError(
            f"mixing: device {wrong[0]}: expected weights that sum to 1, got {sums[wrong[0]]:g}"
        )
    return _matrix(np.asarray(given[rows, columns], np.float64), columns, rows, devices)


def _cells(neighbours: Neighbours) -> tuple[Devices, Devices, int]:
    """Rows and columns of the neighbours and the diagonal, by row and column, and the number of devices."""
    devices, width = neighbours.shape
    if devices != width or devices < 1:
        raise ValueError(f"neighbour matrix of shape {neighbours.shape}: expected (devices, devices)")
    rows, columns = scipy.sparse.coo_array(neighbours).coords
    own = np.arange(devices, dtype=np.int64)
    cells = np.concatenate((rows.astype(np.int64) * devices + columns, own * devices + own))
    rows, columns = np.divmod(np.unique(cells), devices)
    return rows, columns, devices


def _models(rows: Devices, devices: int) -> npt.NDArray[np.float64]:
    """N of every device: its neighbours and itself."""
    return np.bincount(rows, minlength=devices).astype(np.float64)


def _shares(
    amounts: Weights, otherwise: Weights, rows: Devices, columns: Devices, devices: int
) -> npt.NDArray[np.float64]:
    """Each model's amount by the sum over its row; `otherwise` in rows without any."""
    sums = np.bincount(rows, amounts[columns], devices)[rows]
    return np.divide(amounts[columns], sums, out=otherwise.copy(), where=sums > 0.0)


def _amounts(values: npt.ArrayLike, what: str, devices: int) -> Weights:
    amounts: Weights = np.asarray(values, np.float64)
    if amounts.shape != (devices,):
        raise ValueError(f"{devices} devices need as many {what}s, got shape {amounts.shape}")
    wrong = np.flatnonzero(~((amounts >= 0.0) & np.isfinite(amounts)))
    if len(wrong):
        raise ValueError(f"device {wrong[0]}: {what} {amounts[wrong[0]]}, expected 0 or more")
    return amounts


def _matrix(weights: Weights, columns: Devices, rows: Devices, devices: int) -> Mixing:
    starts = np.searchsorted(rows, np.arange(devices + 1))
    return scipy.sparse.csr_array((weights, columns, starts), shape=(devices, devices))
