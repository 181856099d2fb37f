"""MOHAWK's Table 6: communication energy per client until the global model is good enough; pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from roambench.contract.phases import Outcome, Phase
from roambench.energy.ledger import NONE, OUTCOMES, Codes, Numbers
from roambench.energy.modelled.ledger import ModelledLedger


@dataclass(frozen=True, slots=True)
class CommunicationToThreshold:
    """Sums over the rounds up to `rounds`, of the radio's net joules.

    `joules_per_client`: of each round's mean over the devices whose model was aggregated in it, each with
    all its training's transfers: the download, in whichever round it was, and the upload (an exchange, sent
    and received, of devices without access points). `joules_per_participant`: of each round's mean over all
    that sent or received anything in it. A round without such a device adds nothing. `reached` False: the
    run ended first, and the figures are for all its rounds. Distances are the mean over the transfers of
    those rounds, NaN without any.
    """

    reached: bool
    rounds: int
    joules_per_client: float
    joules_per_participant: float
    total_j: float
    transfers: int
    mean_distance_m: float


def communication_to_threshold(
    ledger: ModelledLedger, threshold_step: int | None, steps: int
) -> CommunicationToThreshold:
    """`threshold_step` is the 0-based step whose global model reached the threshold, None if none did.

    Radio energy alone, without the device's idling.
    """
    last = steps - 1 if threshold_step is None else threshold_step
    work = ledger.work
    until = work.at_step <= last
    chosen = ledger.of_phase(Phase.DOWNLOAD, Phase.UPLOAD, Phase.EXCHANGE) & until
    delivered = ledger.of_phase(Phase.UPLOAD, Phase.EXCHANGE) & until
    delivered &= (work.outcome == OUTCOMES.index(Outcome.AGGREGATED)) & (work.training != NONE)
    # A training's round is that of its last upload: an upload that broke off before was no aggregation.
    trainings, of_delivered = np.unique(work.training[delivered], return_inverse=True)
    round_of = np.full(len(trainings), -1)
    np.maximum.at(round_of, of_delivered, work.at_step[delivered])
    theirs = chosen & np.isin(work.training, trainings)
    of_training = np.searchsorted(trainings, work.training[theirs])
    distances = work.distance_m[chosen].tolist()
    return CommunicationToThreshold(
        reached=threshold_step is not None,
        rounds=last + 1,
        joules_per_client=_sum_of_means(round_of[of_training], work.training[theirs], ledger.net_j[theirs]),
        joules_per_participant=_sum_of_means(work.at_step[chosen], work.device[chosen], ledger.net_j[chosen]),
        total_j=math.fsum(ledger.net_j[chosen].tolist()),
        transfers=len(distances),
        mean_distance_m=math.fsum(distances) / len(distances) if distances else math.nan,
    )


def _sum_of_means(rounds: Codes, members: Codes, joules: Numbers) -> float:
    """Over the rounds, of the mean over a round's members; several rows of a member are one's."""
    _, of_round = np.unique(rounds, return_inverse=True)
    pairs, of_pair = np.unique(np.column_stack((of_round, members)), axis=0, return_inverse=True)
    used = np.bincount(of_pair, joules, len(pairs))
    counts = np.bincount(pairs[:, 0])
    return math.fsum((used / counts[pairs[:, 0]]).tolist())
