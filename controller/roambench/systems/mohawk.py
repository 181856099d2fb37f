"""MOHAWK (Farcas et al., IoTDI 2023): Algorithm 1, Eq. 4, 5 and 6."""

from __future__ import annotations

from roambench.systems import choices
from roambench.systems.options import SystemOptions
from roambench.systems.system import Participants, StartModel, SyncRule, System, UploadRule


def mohawk(options: SystemOptions) -> System:
    """Dynamic community selection, dynamic edge aggregation, selective global aggregation.

    A model waits on its device until the device is seen again; any AP takes it, as long as no cloud
    aggregation came between (Tr is emptied there: what was outstanding is wasted).
    """
    return System(
        name="mohawk",
        training=options.training,
        k2=options.k2,
        association=choices.nearest(options.ties),
        selection=choices.ALL_AVAILABLE,
        start_model=StartModel(),
        upload=UploadRule.NEXT_STEP,
        eligible=choices.trained_since_sync,
        edge_weights=choices.edge_attention(options.sigma, options.cosine, options.shapes),
        cloud_participants=Participants.AGGREGATED,
        cloud_weights=choices.cloud_attention(options.sigma, options.cosine, options.shapes),
        sync=SyncRule.APS,
        lookahead=options.lookahead,
        empty_sync_clears=options.empty_sync_clears,
    )
