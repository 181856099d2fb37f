"""MOHAWK's Table 6: communication energy per client until the global model is good enough; pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from roambench.contract.phases import Phase
from roambench.energy.modelled import ModelledRow
from roambench.energy.modelled_ledger import ModelledLedger


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
    ledger = ModelledLedger.of(rows)
    work = ledger.work
    chosen = ledger.of_phase(Phase.DOWNLOAD, Phase.UPLOAD, Phase.EXCHANGE) & (work.at_step <= last)
    # A device that communicates twice in a round takes part in it once.
    at_step, device = work.at_step[chosen], work.device[chosen]
    rounds, of_round = np.unique(at_step, return_inverse=True)
    pairs, of_pair = np.unique(of_round * max(1, len(work.names)) + device, return_inverse=True)
    used = np.bincount(of_pair, ledger.net_j[chosen], len(pairs))
    first = np.searchsorted(pairs // max(1, len(work.names)), np.arange(len(rounds) + 1))
    means = [
        math.fsum(used[start:end].tolist()) / (end - start)
        for start, end in zip(first[:-1].tolist(), first[1:].tolist(), strict=True)
    ]
    distances = work.distance_m[chosen].tolist()
    return CommunicationToThreshold(
        reached=threshold_step is not None,
        rounds=last + 1,
        joules_per_client=math.fsum(means),
        total_j=math.fsum(used.tolist()),
        transfers=len(distances),
        mean_distance_m=math.fsum(distances) / len(distances) if distances else math.nan,
    )
