"""Cosine attention (MOHAWK Eq. 5 at the edge, Eq. 6 in the cloud): p_m ∝ exp(-σ·cos(reference, w_m)).

The less a model resembles the reference, the more it weighs. Normalised over the models given, which are
those really aggregated. The paper prints cos as <x,y>/(|x|^2 |y|^2) and its authors' code computes something
else again, so the cosine is an option (docs/algorithms.md):

    flat        <x,y>/(|x| |y|) of the whole flat models: the conventional reading and the default
    printed     <x,y>/(|x|^2 |y|^2) of the whole flat models, as Eq. 5 prints it
    per_entry   the conventional cosine of every state-dict entry by itself: one weight per model and entry
    per_column  along dimension 0 of every unflattened entry: one weight per model and column of the entry
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final, Literal, get_args

import numpy as np
import numpy.typing as npt

from roambench.contract.errors import ConfigError
from roambench.contract.orders import Vector
from roambench.vectors import Weights, products, weighted_mean

CosineReading = Literal["flat", "printed", "per_entry", "per_column"]
COSINE_READINGS: Final[tuple[str, ...]] = get_args(CosineReading)

Shapes = Sequence[tuple[int, ...]]
_Matrix = npt.NDArray[np.float64]


def attention_weights(
    reference: Vector,
    models: Sequence[Vector],
    sigma: float,
    cosine: str = "flat",
    shapes: Shapes = (),
) -> Weights:
    """One weight per model, adding up to 1; float64 of shape (models,).

    `reference`: the AP's own previous model (Eq. 5) or the previous global model (Eq. 6). `shapes`: the
    entries of the flat vector in order, needed by the per_* readings only. Those weigh every entry or column
    differently: what they return here is the average over parameters (for the log); `attention_mean` applies
    the real ones.
    """
    _check(reference, models, cosine, shapes)
    if cosine in ("flat", "printed"):
        return _whole_model_weights(reference, models, sigma, cosine)
    average = np.zeros(len(models))
    for entry, shape in _entries(shapes):
        weights = _entry_weights(reference[entry], [model[entry] for model in models], shape, sigma, cosine)
        average += np.mean(weights, axis=1) * (entry.stop - entry.start)
    return average / reference.size


def attention_mean(
    reference: Vector,
    models: Sequence[Vector],
    sigma: float,
    cosine: str = "flat",
    shapes: Shapes = (),
) -> tuple[Vector, Weights]:
    """The aggregated model (shape and dtype of the reference) and the weights of `attention_weights`.

    "flat" and "printed" read the models twice: once for the cosines, once for the mean.
    """
    weights = attention_weights(reference, models, sigma, cosine, shapes)
    if cosine in ("flat", "printed"):
        return weighted_mean(models, weights), weights
    mean: Vector = np.empty(reference.size, dtype=reference.dtype)
    for entry, shape in _entries(shapes):
        pieces = [model[entry] for model in models]
        scales = _entry_weights(reference[entry], pieces, shape, sigma, cosine)
        total = np.zeros(_as_matrix(reference[entry], shape, cosine).shape)
        for piece, scale in zip(pieces, scales, strict=True):
            total += _as_matrix(piece, shape, cosine) * scale
        mean[entry] = total.reshape(-1)
    return mean, weights


def _whole_model_weights(reference: Vector, models: Sequence[Vector], sigma: float, cosine: str) -> Weights:
    power = 1 if cosine == "flat" else 2
    dots, squares = products(reference, models)
    (_, (reference_square,)) = products(reference, [reference])
    lengths = np.sqrt(reference_square) * np.sqrt(squares)
    cosines = np.array(
        [_quotient(product, length**power) for product, length in zip(dots, lengths.tolist(), strict=True)]
    )
    return _normalised(-sigma * cosines)


def _entry_weights(
    reference: Vector, models: Sequence[Vector], shape: tuple[int, ...], sigma: float, cosine: str
) -> _Matrix:
    """Weights of one entry, shape (models, columns); they add up to 1 along axis 0."""
    ours = _as_matrix(reference, shape, cosine)
    our_norms = np.sqrt(np.sum(ours * ours, axis=0))
    rows = []
    for model in models:
        theirs = _as_matrix(model, shape, cosine)
        products = np.sum(ours * theirs, axis=0)
        lengths = our_norms * np.sqrt(np.sum(theirs * theirs, axis=0))
        rows.append(np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0))
    return _normalised(-sigma * np.stack(rows))


def _as_matrix(piece: Vector, shape: tuple[int, ...], cosine: str) -> _Matrix:
    """One entry as float64 (length of a column, columns); a whole entry is one column for `per_entry`."""
    rows = shape[0] if cosine == "per_column" and shape else piece.size
    return piece.reshape(rows, -1).astype(np.float64)


def _normalised(exponents: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """exp() of each, divided by their sum over axis 0; the largest is subtracted first against overflow."""
    scores = np.exp(exponents - np.max(exponents, axis=0))
    normalised: npt.NDArray[np.float64] = scores / np.sum(scores, axis=0)
    return normalised


def _quotient(product: float, lengths: float) -> float:
    return product / lengths if lengths > 0.0 else 0.0


def _entries(shapes: Shapes) -> Iterator[tuple[slice, tuple[int, ...]]]:
    start = 0
    for shape in shapes:
        stop = start + math.prod(shape)
        yield slice(start, stop), shape
        start = stop


def _check(reference: Vector, models: Sequence[Vector], cosine: str, shapes: Shapes) -> None:
    if cosine not in COSINE_READINGS:
        raise ConfigError([f"cosine = {cosine!r}: expected one of {', '.join(COSINE_READINGS)}"])
    if not models:
        raise ValueError("attention needs at least one model")
    for index, model in enumerate(models):
        if model.shape != reference.shape:
            raise ValueError(f"model {index} has shape {model.shape}, the reference {reference.shape}")
    if cosine in ("per_entry", "per_column"):
        count = sum(math.prod(shape) for shape in shapes)
        if count != reference.size:
            raise ValueError(f"cosine {cosine!r}: shapes hold {count} parameters, the model {reference.size}")
