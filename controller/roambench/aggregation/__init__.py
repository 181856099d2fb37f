"""Weights of edge and cloud aggregation, and mixing matrices; pure."""

from roambench.aggregation.attention import (
    COSINE_READINGS,
    CosineReading,
    attention_mean,
    attention_weights,
)
from roambench.aggregation.weights import Folding, data_size_weights, equal_weights

__all__ = [
    "COSINE_READINGS",
    "CosineReading",
    "Folding",
    "attention_mean",
    "attention_weights",
    "data_size_weights",
    "equal_weights",
]
