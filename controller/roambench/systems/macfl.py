"""MACFL (Feng et al., IEEE TWC 2022) as MOHAWK's section 4.1 runs it as a baseline."""

from __future__ import annotations

from roambench.systems import choices
from roambench.systems.options import SystemOptions
from roambench.systems.system import Participants, StartModel, SyncRule, System, UploadRule


def macfl(options: SystemOptions) -> System:
    """HierFAVG whose devices wander along a ring of APs, with cosine attention at the edge and in the cloud.

    Where a device really is plays no part. The cloud aggregates all APs, also those that aggregated nothing.
    """
    cloud = choices.cloud_attention(options.sigma, options.cosine, options.shapes)
    return System(
        name="macfl",
        training=options.training,
        k2=options.k2,
        association=choices.ring_walk_ap,
        selection=choices.ALL_AVAILABLE,
        start_model=StartModel(),
        upload=UploadRule.NEXT_STEP,
        eligible=choices.trained_one_step_ago,
        edge_weights=choices.edge_attention(options.sigma, options.cosine, options.shapes),
        cloud_participants=Participants.ALL,
        cloud_weights=cloud if options.macfl_cloud == "attention" else choices.cloud_mean,
        sync=SyncRule.APS,
        lookahead=options.lookahead,
        empty_sync_clears=options.empty_sync_clears,
    )
