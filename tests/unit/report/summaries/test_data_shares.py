"""Training data as they are shared out, by device and at access points."""

from __future__ import annotations

import dataclasses

import numpy as np

from roambench.mobility.walks.edge_hopping import EdgeHoppingParameters, edge_hopping
from roambench.report.summaries.data_shares import DataShares, ap_distances, shares_of, spread


def test_shares_are_counted_by_device_and_class() -> None:
    labels = np.array([0, 0, 1, 2])
    shares = shares_of(("a", "b"), labels, (np.array([0, 1]), np.array([2])), 3)
    assert shares.counts.tolist() == [[2, 0, 0], [0, 1, 0]]
    assert (shares.sizes.tolist(), shares.classes_held.tolist()) == ([2, 1], [1, 1])
    assert (shares.held.tolist(), shares.distinct) == ([2, 1, 1], 3)
    assert shares.distances.tolist() == [0.5, 0.75]
    assert dataclasses.astuple(spread(shares.distances)) == (0.5, 0.625, 0.625, 0.75)


def test_the_mix_at_access_points_is_that_of_their_devices_together() -> None:
    shares = DataShares(tuple("abcd"), np.array([[4, 0], [4, 0], [0, 4], [0, 4]]), np.array([8, 8]), 16)
    trace = edge_hopping(EdgeHoppingParameters(devices=4, steps=3, aps=2, p=1.0, moves_at=[2]), 1)
    assert ap_distances(shares, trace).tolist() == [
        0.5,
        0.5,
        0.5,
    ]  # they swap classes
    mixed = dataclasses.replace(shares, counts=shares.counts[[0, 2, 1, 3]])
    assert ap_distances(mixed, trace).tolist() == [0.0, 0.0, 0.0]
