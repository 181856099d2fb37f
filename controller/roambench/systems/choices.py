"""The choices that several systems share, each as ALGORITHMS.md section 1 reads the papers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from roambench.aggregation import attention_mean, data_size_weights
from roambench.contract.orders import Vector
from roambench.mobility.association import Association, FixedAp, NearestAp, fixed_assignment
from roambench.mobility.trace import Trace
from roambench.systems.system import (
    Candidates,
    CloudInput,
    CloudRule,
    EdgeInput,
    EdgeRule,
    Selection,
)
from roambench.vectors import Weights, weighted_mean

# ---- association ---------------------------------------------------------------------------


def nearest_ap(trace: Trace, seed: int) -> Association:
    """MOHAWK Eq. 4: the nearest AP, ties to the lowest index."""
    del seed
    return NearestAp(trace)


def fixed_ap(trace: Trace, seed: int) -> Association:
    """HierFAVG: device rank r belongs to AP floor(r·M/N) wherever it is."""
    del seed
    return FixedAp(trace)


# ---- selection -----------------------------------------------------------------------------


def _everyone(candidates: Candidates) -> Sequence[int]:
    return candidates.devices


#: Every present device trains.
ALL_AVAILABLE = Selection(choose=_everyone)

# ---- eligibility ---------------------------------------------------------------------------


def trained_one_step_ago(trained_step: int, step: int, last_sync_step: int) -> bool:
    """HierFAVG, MACFL: trained at t-1 and present at t; one who is absent at t is never asked again."""
    del last_sync_step
    return trained_step == step - 1


def trained_since_sync(trained_step: int, step: int, last_sync_step: int) -> bool:
    """MOHAWK: trained since the last cloud aggregation, which comes before the training of its own step."""
    return last_sync_step <= trained_step < step


def trained_this_step(trained_step: int, step: int, last_sync_step: int) -> bool:
    """The MIDDLE family: whoever was selected uploads in the same step."""
    del last_sync_step
    return trained_step == step


# ---- weights -------------------------------------------------------------------------------


def edge_data_size(edge: EdgeInput) -> tuple[Vector, Weights]:
    """n_i / Σ n over the models that arrived."""
    weights = data_size_weights(edge.samples)
    return weighted_mean(edge.models, weights), weights


def cloud_assigned_data(cloud: CloudInput) -> tuple[Vector, Weights]:
    """HierFAVG: the data of all devices assigned to the AP, whether they took part or not.

    With equal data behind every AP this is the plain mean; an AP without devices weighs nothing.
    """
    homes = fixed_assignment(len(cloud.device_samples), cloud.ap_count)
    data = np.bincount(homes, weights=np.asarray(cloud.device_samples), minlength=cloud.ap_count)
    weights = data_size_weights([int(data[ap]) for ap in cloud.aps])
    return weighted_mean(cloud.models, weights), weights


def edge_attention(sigma: float, cosine: str, shapes: Sequence[tuple[int, ...]]) -> EdgeRule:
    """MOHAWK Eq. 5: exp(-σ·cos) against the AP's own previous model."""

    def weigh(edge: EdgeInput) -> tuple[Vector, Weights]:
        return attention_mean(edge.reference, edge.models, sigma, cosine, shapes)

    return weigh


def cloud_attention(sigma: float, cosine: str, shapes: Sequence[tuple[int, ...]]) -> CloudRule:
    """MOHAWK Eq. 6: exp(-σ·cos) against the previous global model."""

    def weigh(cloud: CloudInput) -> tuple[Vector, Weights]:
        return attention_mean(cloud.reference, cloud.models, sigma, cosine, shapes)

    return weigh
