"""Vectors that a local algorithm has travel behind every model, down and up."""

from __future__ import annotations

from enum import StrEnum


class Merge(StrEnum):
    """Rule by which an access point makes one vector of those that its devices send with their models."""

    MEAN = "mean"  # the mean, with the models' own weights
    SUM = "sum"  # its own, plus the sum of what came over the number of all devices; all of it in the cloud
