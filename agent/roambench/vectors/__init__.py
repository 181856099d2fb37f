"""Flat models: weighted sums, dot products and cosines in fixed order (NumPy)."""

from roambench.vectors.sums import Weights, cosine, dot, norm, weighted_mean

__all__ = ["Weights", "cosine", "dot", "norm", "weighted_mean"]
