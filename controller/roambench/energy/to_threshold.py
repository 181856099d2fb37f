"""MOHAWK's Table 6: communication energy per client until the global model is good enough; pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from roambench.contract.phases import Phase
from roambench.energy.modelled import ModelledRow


@dataclass(frozen=True, slots=True)
class CommunicationToThreshold:
    """`joules_per_client`: over the rounds up to `rounds`, the sum of each round's mean over those who
    communicated in it (the paper does not define its table; this reading fits its figures).

    `reached` False: the run ended first, and the figure is for all its rounds. Distances are the mean
    over the transfers of those rounds, NaN without any.
    """

    reached: bool
    rounds: int
    joules_per_client: float
    total_j: float
    transfers: int
    mean_distance_m: float


def communication_to_threshold(
    rows: Iterable[ModelledRow], threshold_step: int | None, steps: int
) -> CommunicationToThreshold:
    """`threshold_step` is the 0-based step whose global model reached the threshold, None if none did.

    A round is the step in which a transfer took place; radio energy alone, without the device's idling.
    """
    last = steps - 1 if threshold_step is None else threshold_step
    rounds: dict[int, dict[str, float]] = {}
    distances: list[float] = []
    for row in rows:
        if row.phase in (Phase.DOWNLOAD, Phase.UPLOAD) and row.at_step <= last:
            devices = rounds.setdefault(row.at_step, {})
            devices[row.device] = devices.get(row.device, 0.0) + row.net_j
            distances.append(row.distance_m)
    return CommunicationToThreshold(
        reached=threshold_step is not None,
        rounds=last + 1,
        joules_per_client=math.fsum(math.fsum(used.values()) / len(used) for used in rounds.values()),
        total_j=math.fsum(joules for used in rounds.values() for joules in used.values()),
        transfers=len(distances),
        mean_distance_m=math.fsum(distances) / len(distances) if distances else math.nan,
    )
