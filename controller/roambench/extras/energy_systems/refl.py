"""REFL (Abdelmoniem et al., "REFL: Resource-Efficient Federated Learning", EuroSys 2023, arXiv 2111.01108):
Intelligent Participant Selection and Staleness-Aware Aggregation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from roambench.aggregation import data_size_weights
from roambench.contract.orders import Vector
from roambench.extras.energy_systems.counts import per_device
from roambench.systems import choices
from roambench.systems.availability import PresenceForecast
from roambench.systems.mohawk import mohawk
from roambench.systems.options import SystemOptions
from roambench.systems.own_numbers import check_numbers
from roambench.systems.system import Candidates, CloudInput, EdgeInput, Selected, Selection, System
from roambench.vectors import Weights, norm, weighted_mean

_CHOSEN = "steps chosen"


@dataclass(frozen=True)
class ReflParameters:
    """`beta` of the weights, and what the exponential is divided by; the steps for which a selected device is
    left alone; the oldest update that is taken (0: any); the steps after which availability is taken to
    repeat."""

    beta: float = 0.35
    scale: float = 1.0
    hold_off_steps: int = 5
    stale_steps: int = 0
    period_steps: int = 24

    def __post_init__(self) -> None:
        check_numbers(
            self,
            shares=("beta",),
            least={"scale": 1.0, "hold_off_steps": 0, "stale_steps": 0, "period_steps": 1},
        )


def refl(options: SystemOptions, own: ReflParameters) -> System:
    """REFL (arXiv 2111.01108): the K least available devices per AP; late updates count by age and novelty.

    Selection (IPS): of the devices that were not selected in the last `hold_off_steps` steps the
    K with the smallest chance of being available in the window [mu, 2 mu] from now, ties drawn. mu, the
    moving average of round times, is the step: the window is the next one. The chance is that of
    `PresenceForecast`.

    Aggregation (SAA): an update that comes tau steps after the next step is stale for tau > 0. It weighs
    w_s = (1 - beta) / (tau_s + 1) + beta (1 - exp(-Lambda_s / Lambda_max) / scale), a fresh one 1, over their
    sum.
    Lambda_s = |u_F - (u_s + n_F u_F) / (n_F + 1)|^2 / |u_F|^2, u_F the mean of the n_F fresh updates.

    Deviations: each AP is the paper's server of the models that reach it, and the cloud weighs APs by how
    many these were; an update is the model's difference to the AP's model of now, not to the one that its
    training began from; without fresh updates Lambda is 0; devices do not forecast themselves (the paper's do
    by Prophet) and there is no adaptive number of participants.

    The authors' code (github.com/ahmedcs/REFL): IPS is `clientManager.getPriority` and `resampleClients` in
    `core/client_manager.py`, which knows the next two windows and draws: first of the devices that will be
    there in the first and not in the second. SAA is `Aggregator.update_importance` and `normalize_importance`
    in `core/aggregator.py`, whose `scale_coff` is 10 where the paper has 1. Its `prohibit_reselect` of 5
    leaves a device alone for four rounds.
    """

    def choose(offered: Candidates) -> Selected:
        available = PresenceForecast.at(offered, own.period_steps)
        chosen_at = per_device(offered, _CHOSEN)  # step + 1; 0: never
        free = [
            device
            for device in offered.devices
            if not chosen_at[device] or offered.step + 1 - chosen_at[device] > own.hold_off_steps
        ]
        ranked = choices.ranked_at_aps(
            offered, free, lambda device: -available.chance(device, offered.step + 1)
        )
        chosen = [device for devices in ranked.values() for device in devices[: options.per_ap]]
        chosen_at[chosen] = offered.step + 1
        return Selected(chosen, {**available.memory, _CHOSEN: chosen_at})

    def eligible(trained_step: int, step: int, last_sync_step: int) -> bool:
        del last_sync_step
        late = step - 1 - trained_step
        return late >= 0 and (late <= own.stale_steps or not own.stale_steps)

    def at_edge(edge: EdgeInput) -> tuple[Vector, Weights]:
        late = [edge.step - 1 - training.step for training in edge.trainings]
        raw = np.ones(len(late))
        stale = [index for index, steps in enumerate(late) if steps > 0]
        for index, boost in zip(stale, _boosts(edge, late, stale, own.scale), strict=True):
            raw[index] = (1.0 - own.beta) / (late[index] + 1) + own.beta * boost
        # With beta = 1 and no boost nothing would count.
        weights = data_size_weights(raw) if raw.any() else data_size_weights(np.ones(len(late)))
        return weighted_mean(edge.models, weights), weights

    return replace(
        mohawk(options),
        name="refl",
        selection=Selection(choose),
        eligible=eligible,
        edge_weights=at_edge,
        cloud_weights=_by_models,
    )


def _boosts(edge: EdgeInput, late: Sequence[int], stale: Sequence[int], scale: float) -> Weights:
    """1 - exp(-Lambda_s / Lambda_max) / scale of each stale update."""
    part = slice(edge.trained or None)
    fresh = [model[part] for model, steps in zip(edge.models, late, strict=True) if steps == 0]
    if not fresh or not stale:
        return np.zeros(len(stale))
    mean = weighted_mean(fresh, np.full(len(fresh), 1.0 / len(fresh)))
    length = norm(np.subtract(mean, edge.reference[part], dtype=np.float64))
    if not length:
        return np.zeros(len(stale))
    # Lambda's numerator is |u_F - u_s|^2 / (n_F + 1)^2, in which the AP's model cancels.
    apart = [norm(np.subtract(mean, edge.models[index][part], dtype=np.float64)) for index in stale]
    deviations = (np.array(apart) / (len(fresh) + 1) / length) ** 2
    largest = float(deviations.max())
    return 1.0 - np.exp(-deviations / largest) / scale if largest else np.zeros(len(stale))


def _by_models(cloud: CloudInput) -> tuple[Vector, Weights]:
    """Every AP weighs as many as the models it aggregated since the last sync."""
    weights = data_size_weights([work.models for work in cloud.work])
    return weighted_mean(cloud.models, weights), weights
