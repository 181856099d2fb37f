"""HierFAVG (Liu et al., ICC 2020) as MOHAWK's section 4.1 runs it as a baseline: everything is fixed."""

from __future__ import annotations

from roambench.systems import choices
from roambench.systems.options import SystemOptions
from roambench.systems.system import Participants, StartModel, SyncRule, System, UploadRule


def hierfavg(options: SystemOptions) -> System:
    """Every device has its one AP, at any distance; data sizes weigh at the edge and in the cloud.

    A model trained at t-1 is only wanted at t: if its device is away then, it is wasted. The cloud averages
    all APs, also those that aggregated nothing.
    """
    return System(
        name="hierfavg",
        training=options.training,
        k2=options.k2,
        association=choices.fixed_ap,
        selection=choices.ALL_AVAILABLE,
        start_model=StartModel(),
        upload=UploadRule.NEXT_STEP,
        eligible=choices.trained_one_step_ago,
        edge_weights=choices.edge_data_size,
        cloud_participants=Participants.ALL,
        cloud_weights=choices.cloud_assigned_data,
        sync=SyncRule.APS,
        lookahead=options.lookahead,
        empty_sync_clears=options.empty_sync_clears,
    )
