"""FedAvg (McMahan et al., AISTATS 2017) and HeurFedAMP's attention: both fall out of the same choices."""

from __future__ import annotations

from dataclasses import replace

from roambench.systems import choices
from roambench.systems.middle import middle
from roambench.systems.mohawk import mohawk
from roambench.systems.options import SystemOptions
from roambench.systems.system import StartModel, SyncRule, System


def fedavg(options: SystemOptions) -> System:
    """FedAvg over APs that only relay: K devices at each, data sizes as weights, a global model every step.

    On a trace with one AP it is FedAvg to the letter; `proximal` makes it FedProx.
    """
    return replace(
        middle(options),
        name="fedavg",
        k2=1,
        selection=choices.random_k(options.per_ap),
        start_model=StartModel(),
        sync=SyncRule.APS,
        sync_is_free=False,
        counts_sync_step=False,
    )


def heurfedamp(options: SystemOptions) -> System:
    """MOHAWK's movement with HeurFedAMP's weights at the edge (Huang et al., AAAI 2021, section 5): models
    that resemble the AP's own count more, not less."""
    return replace(
        mohawk(options),
        name="heurfedamp",
        edge_weights=choices.edge_self_attention(
            options.self_attention, options.sigma, options.cosine, options.shapes
        ),
    )
