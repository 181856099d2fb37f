"""Flat models: means, dot products and cosines in fixed order (NumPy)."""

from roambench.vectors.sums import (
    RunningMean,
    RunningSum,
    Weights,
    cosine,
    dot,
    norm,
    products,
    weighted_mean,
)

__all__ = ["RunningMean", "RunningSum", "Weights", "cosine", "dot", "norm", "products", "weighted_mean"]
