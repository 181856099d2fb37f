"""MIDDLE and MIDDLE+ (IEEE TMC 2025): Algorithms 1 and 2, Eq. 5 to 12, 21 and 22."""

from __future__ import annotations

from dataclasses import replace

from roambench.systems import choices
from roambench.systems.options import SystemOptions
from roambench.systems.system import Participants, StartModel, SyncRule, System, UploadRule


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
