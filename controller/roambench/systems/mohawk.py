"""MOHAWK (Farcas et al., IoTDI 2023): Algorithm 1, Eq. 4, 5 and 6."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from roambench.contract.draws import generator
from roambench.systems import choices
from roambench.systems.availability import PresenceForecast
from roambench.systems.options import SystemOptions
from roambench.systems.own_numbers import check_numbers
from roambench.systems.system import (
    Candidates,
    Participants,
    Selected,
    Selection,
    StartModel,
    SyncRule,
    System,
    UploadRule,
)


@dataclass(frozen=True)
class MohawkParameters:
    """Ours, off by default: the least chance that an AP will take its model, and the least charge, at which a
    device trains; the share of these that is drawn; the steps after which presence is taken to repeat."""

    least_chance: float = 0.0
    least_charge: float = 0.0
    share: float = 1.0
    period_steps: int = 24

    def __post_init__(self) -> None:
        check_numbers(self, shares=("least_chance", "least_charge", "share"), least={"period_steps": 1})


_AS_PRINTED: Final = MohawkParameters()


def mohawk(options: SystemOptions, own: MohawkParameters = _AS_PRINTED) -> System:
    """Dynamic community selection, dynamic edge aggregation, selective global aggregation.

    A model waits on its device until the device is seen again; any AP takes it, as long as no cloud
    aggregation came between (Tr is emptied there: what was outstanding is wasted).
    """
    return System(
        name="mohawk",
        training=options.training,
        k2=options.k2,
        association=choices.nearest(options.ties),
        selection=_worthwhile(options.k2, own) if own != _AS_PRINTED else choices.ALL_AVAILABLE,
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


def _worthwhile(k2: int, own: MohawkParameters) -> Selection:
    """The devices that will be seen again, with `least_chance` or more, no later than at the next cloud
    aggregation, which takes what was uploaded in its step. The chance is learned from the steps before. Of
    devices with batteries those of `least_charge` or more; of all these a share, drawn by seed and step."""

    def choose(offered: Candidates) -> Selected:
        available = PresenceForecast.at(offered, own.period_steps)
        left = k2 - offered.step % k2
        lots = generator(offered.seed, "mohawk share", offered.step).random(len(offered.devices))
        chosen = [
            device
            for device, lot in zip(offered.devices, lots, strict=True)
            if lot < own.share
            and available.chance_within(device, offered.step, left) >= own.least_chance
            and offered.charges.get(device, 1.0) >= own.least_charge
        ]
        return Selected(chosen, available.memory)

    return Selection(choose)
