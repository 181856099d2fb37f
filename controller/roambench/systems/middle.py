"""MIDDLE and MIDDLE+ (IEEE TMC 2025): Algorithms 1 and 2, Eq. 5 to 12, 21 and 22.

And the baselines of its section VII-A: MIDDLE with one or two choices exchanged.
"""

from __future__ import annotations

from dataclasses import replace

from roambench.systems import choices
from roambench.systems.options import SystemOptions
from roambench.systems.system import EDGE_PAIR, Participants, StartModel, SyncRule, System, UploadRule


def middle(options: SystemOptions) -> System:
    """A device that moved mixes the new AP's model with its own by their similarity; every AP trains the K
    devices whose updates resemble the global model least. All of it in one step: train, upload, aggregate.
    """
    return System(
        name="middle",
        training=options.training,
        k2=options.k2,
        association=choices.trace_ap if options.association == "trace" else choices.nearest(options.ties),
        selection=choices.top_k(options.per_ap, choices.least_similar, choices.update_similarity),
        start_model=StartModel.of(options.stayed_model, "similarity_mix", options.fresh_uses_ap),
        upload=UploadRule.SAME_STEP,
        eligible=choices.trained_this_step,
        edge_weights=choices.edge_data_size,
        cloud_participants=Participants.AGGREGATED,
        cloud_weights=choices.cloud_participating_data,
        sync=SyncRule.APS_AND_DEVICES,
        sync_is_free=options.sync_download == "free",
        counts_sync_step=options.cloud_counts == "printed",
        empty_sync_clears=options.empty_sync_clears,
    )


def middle_plus(options: SystemOptions) -> System:
    """MIDDLE on the base of the model; the last layer stays the device's own, and proximal terms hold the
    base near where training started and near the last global one (Eq. 22)."""
    system = middle(options)
    objective = f"middle_plus:lambda1={options.lambda1!r},lambda2={options.lambda2!r}"
    return replace(
        system,
        name="middle_plus",
        start_model=StartModel.of("own_head", "base_mix", options.fresh_uses_ap, "own_head"),
        training=replace(system.training, objective=objective),
    )


def oort(options: SystemOptions) -> System:
    """The K devices of the highest statistical utility; nothing is mixed on the device."""
    by_loss = choices.top_k(options.per_ap, choices.most_useful, choices.statistical_utility)
    return replace(middle(options), name="oort", selection=by_loss, start_model=StartModel())


def fedmes(options: SystemOptions) -> System:
    """K devices at random; who moved starts half-way between the AP's model and the previous edge's."""
    return replace(
        middle(options),
        name="fedmes",
        selection=choices.random_k(options.per_ap),
        start_model=_half_way(options),
    )


def greedy(options: SystemOptions) -> System:
    """Oort's selection; who moved goes on with its own model."""
    start = StartModel.of("ap", "own", options.fresh_uses_ap)
    return replace(oort(options), name="greedy", start_model=start)


def ensemble(options: SystemOptions) -> System:
    """Oort's selection and FedMes's start model."""
    return replace(oort(options), name="ensemble", start_model=_half_way(options))


def macfl_same_step(options: SystemOptions) -> System:
    """MACFL as MIDDLE compares it: on the trace's own edges, K devices at random, attention at the edge."""
    return replace(
        middle(options),
        name="macfl_same_step",
        selection=choices.random_k(options.per_ap),
        start_model=StartModel(),
        edge_weights=choices.edge_attention(options.sigma, options.cosine, options.shapes),
    )


def _half_way(options: SystemOptions) -> StartModel:
    """1/2 (w_n + w_n'), with the device's own model for the previous edge's w_n', or with w_n' itself."""
    if options.previous_edge == "edge_pair":
        return StartModel("ap", EDGE_PAIR)
    return StartModel.of("ap", "average", options.fresh_uses_ap)
