"""Flat models: means, dot products, cosines and distances in fixed order (NumPy)."""

from roambench.vectors.sums import (
    RunningMean,
    RunningSum,
    Weights,
    cosine,
    distance_share,
    dot,
    norm,
    products,
    weighted_mean,
)

__all__ = [
    "RunningMean",
    "RunningSum",
    "Weights",
    "cosine",
    "distance_share",
    "dot",
    "norm",
    "products",
    "weighted_mean",
]
