"""EAFL (Arouj and Abdelmoniem, "Towards Energy-Aware Federated Learning on Battery-Powered Clients", 2022,
arXiv 2208.04505): Oort's selection, whose utility is weighed against the battery that is left."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from roambench.extras.energy_systems.counts import TrainingCosts
from roambench.systems import choices
from roambench.systems.fedavg import fedavg
from roambench.systems.options import SystemOptions
from roambench.systems.own_numbers import check_numbers
from roambench.systems.system import Candidates, Selected, Selection, System

_J_PER_WH = 3600.0


@dataclass(frozen=True)
class EaflParameters:
    """`f`, Oort's exploration, and the battery that a device is taken to have without `[battery]`."""

    f: float = 0.25
    exploration: float = 0.9
    exploration_decay: float = 0.98
    least_exploration: float = 0.2
    capacity_wh: float = 10.0

    def __post_init__(self) -> None:
        shares = ("f", "exploration", "exploration_decay", "least_exploration")
        check_numbers(self, shares=shares, positive=("capacity_wh",))


def eafl(options: SystemOptions, own: EaflParameters) -> System:
    """EAFL (arXiv 2208.04505): FedAvg with Oort's K devices per AP, by f utility + (1 - f) battery left.

    reward(i) = f Util(i) + (1 - f) power(i), power(i) = battery level - what the training will use, both as
    shares of a full battery; what it will use is the mean of the device's trainings with their transfers.
    Without `[battery]` the level is what `capacity_wh` leaves of the device's joules, which on agents are
    those between orders, too.
    Util(i) is Oort's (Algorithm 1, line 11): the statistical utility, clipped at its 95 % quantile and scaled
    to 0..1 over the candidates, + sqrt(0.1 ln R / L(i)) for the round R and the round L(i) of its last
    training. Of each K, exploration x decay^step (at least the least) go to devices that never trained, whose
    reward is their power.

    Deviations: each AP selects K of those it serves; the exploring share is rounded to a whole device; Oort's
    (T / t_i)^alpha is 1, as every device may use its whole step; ties are drawn.

    The authors' code (github.com/sayed-sys-lab/EAFL) was not read. Oort's own (`OortSelector.getTopK` and
    `get_norm`, as adapted in github.com/dos-group/fedzero, `fedzero/oort.py`) clips at an entry of the sorted
    utilities, not between two, scales by the unclipped range from 0.999 of the smallest, and draws by score
    among the best.
    """
    capacity_j = _J_PER_WH * (options.capacity_wh or own.capacity_wh)

    def choose(offered: Candidates) -> Selected:
        costs, utilities = TrainingCosts(offered), _utilities(offered)

        def reward(device: int) -> float:
            if offered.charges:
                charge = offered.charges[device]
            else:
                charge = 1.0 - offered.energy[device].total.joules / capacity_j
            power = charge - costs.of(device, 0.0) / capacity_j
            return own.f * utilities.get(device, 0.0) + (1.0 - own.f) * power

        untried = [device for device in offered.devices if device not in utilities]
        explored = choices.ranked_at_aps(offered, list(utilities), reward)
        new = choices.ranked_at_aps(offered, untried, reward)
        share = max(own.least_exploration, own.exploration * own.exploration_decay**offered.step)
        chosen: list[int] = []
        for ap in sorted(explored.keys() | new.keys()):
            known, unknown = explored.get(ap, []), new.get(ap, [])
            exploring = min(len(unknown), math.floor(share * options.per_ap + 0.5))
            exploiting = known[: options.per_ap - exploring]
            chosen += [*exploiting, *unknown[: options.per_ap - len(exploiting)]]
        return Selected(chosen, costs.kept_with(chosen))

    selection = Selection(choose, choices.statistical_utility, sees_energy=True)
    return replace(fedavg(options), name="eafl", selection=selection)


def _utilities(offered: Candidates) -> dict[int, float]:
    """Oort's utility of each candidate that trained before."""
    past = {device: offered.past[device] for device in offered.devices if device in offered.past}
    if not past:
        return {}
    raw = np.array([training.utility for training in past.values()])
    raw = np.minimum(raw, np.quantile(raw, 0.95))
    low, high = float(raw.min()), float(raw.max())
    scaled = (raw - low) / (high - low) if high > low else np.ones(len(raw))
    logarithm = 0.1 * math.log(offered.step + 1)
    return {
        device: float(value) + math.sqrt(logarithm / (training.step + 1))
        for (device, training), value in zip(past.items(), scaled, strict=True)
    }
