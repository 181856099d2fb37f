"""MOHAWK (Farcas et al., IoTDI 2023): Algorithm 1, Eq. 4, 5 and 6."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from roambench.contract.draws import generator
from roambench.contract.errors import ConfigError
from roambench.systems import choices
from roambench.systems.availability import PresenceForecast
from roambench.systems.coded_uploads import costly_to_code
from roambench.systems.marginal_epochs import marginal_epochs
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
    device trains; the share of these that is drawn; the steps after which presence is taken to repeat; the
    most local epochs where each device's are chosen by marginal accuracy per joule (0: all have the same);
    whether only uploads are coded that it saves joules."""

    least_chance: float = 0.0
    least_charge: float = 0.0
    share: float = 1.0
    period_steps: int = 24
    most_epochs: int = 0
    code_by_joules: bool = False

    def __post_init__(self) -> None:
        least = {"period_steps": 1, "most_epochs": 0}
        check_numbers(self, shares=("least_chance", "least_charge", "share"), least=least)


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
        selection=_worthwhile(options, own) if own != _AS_PRINTED else choices.ALL_AVAILABLE,
        start_model=StartModel(),
        upload=UploadRule.NEXT_STEP,
        eligible=choices.trained_since_sync,
        edge_weights=choices.edge_attention(options.sigma, options.cosine, options.shapes),
        cloud_participants=Participants.AGGREGATED,
        cloud_weights=choices.cloud_attention(options.sigma, options.cosine, options.shapes),
        sync=SyncRule.APS,
        lookahead=options.lookahead,
        empty_sync_clears=options.empty_sync_clears,
        sees_energy=own.code_by_joules,
        plain_uploads=costly_to_code if own.code_by_joules else None,
    )


def _worthwhile(options: SystemOptions, own: MohawkParameters) -> Selection:
    """The devices that will be seen again, with `least_chance` or more, no later than at the next cloud
    aggregation, which takes what was uploaded in its step. The chance is learned from the steps before. Of
    devices with batteries those of `least_charge` or more; of all these a share, drawn by seed and step.
    Their epochs are those of all, or of `marginal_epochs`."""
    if own.most_epochs and options.local_steps:
        raise ConfigError(["most_epochs: expected 0 beside learning.local_steps, which trains no epochs"])

    def choose(offered: Candidates) -> Selected:
        available = PresenceForecast.at(offered, own.period_steps)
        left = options.k2 - offered.step % options.k2
        lots = generator(offered.seed, "mohawk share", offered.step).random(len(offered.devices))
        chosen = [
            device
            for device, lot in zip(offered.devices, lots, strict=True)
            if lot < own.share
            and available.chance_within(device, offered.step, left) >= own.least_chance
            and offered.charges.get(device, 1.0) >= own.least_charge
        ]
        if not own.most_epochs:
            return Selected(chosen, available.memory)
        epochs, memory = marginal_epochs(offered, chosen, options.k1, own.most_epochs)
        return Selected(chosen, {**available.memory, **memory}, epochs)

    return Selection(choose, sees_energy=own.most_epochs > 0)
