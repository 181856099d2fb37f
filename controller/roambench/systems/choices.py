"""The choices that several systems share, each as docs/algorithms.md reads the papers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from roambench.aggregation import attention_mean, data_size_weights, equal_weights
from roambench.contract.draws import generator
from roambench.contract.orders import Vector
from roambench.mobility.association import (
    Association,
    FixedAp,
    NearestAp,
    RecordedAp,
    RingWalkAp,
    fixed_assignment,
)
from roambench.mobility.ties import NearestApDrawn
from roambench.mobility.trace import Trace
from roambench.systems.system import (
    AssociationRule,
    Candidates,
    CloudInput,
    CloudRule,
    EdgeInput,
    EdgeRule,
    FoldedEdge,
    PastTraining,
    Selection,
    Training,
)
from roambench.vectors import Weights, cosine, weighted_mean

# ---- association ---------------------------------------------------------------------------


def nearest_ap(trace: Trace, seed: int) -> Association:
    """MOHAWK Eq. 4: the nearest AP, ties to the lowest index."""
    del seed
    return NearestAp(trace)


def nearest_ap_drawn(trace: Trace, seed: int) -> Association:
    """MOHAWK Eq. 4, ties drawn as its authors do."""
    return NearestApDrawn(trace, seed)


def nearest(ties: str) -> AssociationRule:
    """The nearest AP; of equally near ones the "lowest" index or a "random" one."""
    return nearest_ap_drawn if ties == "random" else nearest_ap


def trace_ap(trace: Trace, seed: int) -> Association:
    """The AP that the trace recorded for every fix."""
    del seed
    return RecordedAp(trace)


def fixed_ap(trace: Trace, seed: int) -> Association:
    """HierFAVG: device rank r belongs to AP floor(r·M/N) wherever it is."""
    del seed
    return FixedAp(trace)


def ring_walk_ap(trace: Trace, seed: int) -> Association:
    """MACFL's pseudo-mobility: at every step half of the devices move on along a ring of APs."""
    return RingWalkAp(trace, seed)


# ---- selection -----------------------------------------------------------------------------


def _everyone(candidates: Candidates) -> Sequence[int]:
    return candidates.devices


#: Every present device trains.
ALL_AVAILABLE = Selection(choose=_everyone)

#: (what is remembered of a device or None, step of the last cloud aggregation) -> the higher the sooner.
Priority = Callable[[PastTraining | None, int], float]


def top_k(
    k: int, priority: Priority, rate: Callable[[Training, Vector, Vector], float] | None = None
) -> Selection:
    """At each AP the K devices of the highest priority, or all if there are fewer; ties are drawn."""

    def choose(candidates: Candidates) -> Sequence[int]:
        ranked = ranked_at_aps(
            candidates,
            candidates.devices,
            lambda device: priority(candidates.past.get(device), candidates.last_sync_step),
        )
        return [device for devices in ranked.values() for device in devices[:k]]

    return Selection(choose, rate)


def ranked_at_aps(
    candidates: Candidates, devices: Sequence[int], priority: Callable[[int], float]
) -> dict[int, list[int]]:
    """Some of the candidates by AP, ascending; at each those of the highest priority first, ties drawn."""
    aps = dict(zip(candidates.devices, candidates.aps, strict=True))
    by_ap: dict[int, list[int]] = {}
    for device in devices:
        by_ap.setdefault(aps[device], []).append(device)
    ranked = {}
    for ap, here in sorted(by_ap.items()):
        lots = generator(candidates.seed, "selection", ap, candidates.step).permutation(len(here))
        rows = sorted(zip(here, lots.tolist(), strict=True), key=lambda row: (-priority(row[0]), row[1]))
        ranked[ap] = [device for device, _ in rows]
    return ranked


def random_k(k: int) -> Selection:
    """K devices at each AP, drawn."""
    return top_k(k, lambda past, last_sync_step: 0.0)


def least_similar(past: PastTraining | None, last_sync_step: int) -> float:
    """MIDDLE Eq. 12: -U(w_c, w_i - w_c). A device not trained since the last cloud aggregation holds the
    global model: its update is zero, U := 0, the top priority (as for any cosine <= 0)."""
    return 0.0 if past is None or past.step <= last_sync_step else -past.utility


def update_similarity(training: Training, model: Vector, global_model: Vector) -> float:
    """MIDDLE Eq. 8, 10, 11: U(w_c, w_i - w_c) = max(cos, 0) of the update towards the global model."""
    del training
    return max(cosine(global_model, model - global_model), 0.0)


def most_useful(past: PastTraining | None, last_sync_step: int) -> float:
    """Oort's statistical utility of the last local training; who never trained comes first (ours)."""
    del last_sync_step
    return math.inf if past is None else past.utility


def statistical_utility(training: Training, model: Vector, global_model: Vector) -> float:
    """Oort (Lai et al., OSDI 2021), section 4.2: n sqrt(mean(loss^2)) over the samples trained on."""
    del model, global_model
    return training.samples * math.sqrt(training.mean_squared_loss)


# ---- eligibility ---------------------------------------------------------------------------


def trained_one_step_ago(trained_step: int, step: int, last_sync_step: int) -> bool:
    """HierFAVG, MACFL: trained at t-1 and present at t; one who is absent at t is never asked again."""
    del last_sync_step
    return trained_step == step - 1


def trained_since_sync(trained_step: int, step: int, last_sync_step: int) -> bool:
    """MOHAWK: trained since the last cloud aggregation, which comes before the training of the same step."""
    return last_sync_step <= trained_step < step


def trained_this_step(trained_step: int, step: int, last_sync_step: int) -> bool:
    """The MIDDLE family: selected devices upload in the same step."""
    del last_sync_step
    return trained_step == step


# ---- weights -------------------------------------------------------------------------------


#: n_i / Σ n over the models that arrived.
edge_data_size = FoldedEdge(share=float)


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


def cloud_participating_data(cloud: CloudInput) -> tuple[Vector, Weights]:
    """MIDDLE Eq. 7: the samples behind what each AP aggregated since the last cloud aggregation."""
    weights = data_size_weights(cloud.aggregated_samples)
    return weighted_mean(cloud.models, weights), weights


def cloud_mean(cloud: CloudInput) -> tuple[Vector, Weights]:
    """Every AP counts the same."""
    weights = equal_weights(len(cloud.models))
    return weighted_mean(cloud.models, weights), weights


def edge_self_attention(
    share: float, sigma: float, cosine: str, shapes: Sequence[tuple[int, ...]]
) -> EdgeRule:
    """HeurFedAMP (Huang et al., AAAI 2021) at an AP: `share` of the AP's model, the rest by exp(+sigma cos).

    The opposite sign of Eq. 5: what resembles the AP's model weighs more. The weights returned are those of
    the models that arrived; they add up to 1 among themselves.
    """

    def weigh(edge: EdgeInput) -> tuple[Vector, Weights]:
        others, weights = attention_mean(edge.reference, edge.models, -sigma, cosine, shapes)
        return weighted_mean([edge.reference, others], np.array([share, 1.0 - share])), weights

    return weigh
