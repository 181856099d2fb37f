"""A decentralised run for machines; what is unknown is null."""

from __future__ import annotations

import math
from typing import Any

from roambench.report.summaries.peers import PeerSummary


def peer_document(peers: PeerSummary | None) -> dict[str, Any] | None:
    """None for a run of a system with a server. Scores are of `metric`, accuracies are 0..1; lists are by
    iteration."""
    if peers is None:
        return None
    return {
        "metric": peers.metric.name,
        "better": peers.metric.better,
        "final_mean_score": None if peers.final is None else peers.final.mean,
        "final_average_model_score": peers.final_average,
        "mobility_gap": peers.mean_gap,
        "high_mobility_devices": peers.high_mobility,
        "mean_neighbours": peers.mean_neighbours,
        "connected_within": peers.connected_within,
        "mean_spectral_gap": peers.mean_spectral_gap,
        "mean_distribution_distance": peers.mean_distribution_distance,
        "exchanges": peers.exchanges,
        "left_out": dict(peers.left_out),
        "sent_bytes": peers.sent_bytes,
        "received_bytes": peers.received_bytes,
        "scores": [
            {
                "step": point.step,
                "mean": point.mean,
                "worst": point.worst,
                "best": point.best,
                "high_mobility": point.high,
                "low_mobility": point.low,
                "average_model": point.average,
            }
            for point in peers.points
        ],
        "cumulative_neighbours": {
            "high_mobility": _numbers(peers.neighbours[:, 0].tolist()),
            "low_mobility": _numbers(peers.neighbours[:, 1].tolist()),
        },
        "spectral_gaps": _numbers(peers.spectral_gaps.tolist()),
        "distribution_distances": _numbers(peers.distribution_distances.tolist()),
    }


def _numbers(values: list[float]) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values]
