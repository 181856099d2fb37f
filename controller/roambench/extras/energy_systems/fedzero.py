"""FedZero (Wiesner et al., "FedZero: Leveraging Renewable Excess Energy in Federated Learning", e-Energy
2024, arXiv 2305.15092): trainings run on excess energy alone, by forecasts of energy and of devices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy

from roambench.contract.draws import generator
from roambench.extras.energy_systems.counts import TrainingCosts, per_device
from roambench.systems import choices
from roambench.systems.availability import PresenceForecast
from roambench.systems.fedavg import fedavg
from roambench.systems.options import SystemOptions
from roambench.systems.own_numbers import check_numbers
from roambench.systems.system import Candidates, Selected, Selection, System

_BLOCKED = "blocked"


@dataclass(frozen=True)
class FedZeroParameters:
    """n devices per round, alpha of releases, the longest round in steps; the excess energy of an AP in its
    best step, its day and its clouds; joules of a training before any is known."""

    clients: int = 10
    alpha: float = 1.0
    longest_steps: int = 4
    excess_j: float = 400.0
    clouds: float = 0.5
    period_steps: int = 24
    midnight_step: int = 0
    training_j: float = 40.0

    def __post_init__(self) -> None:
        check_numbers(
            self,
            shares=("clouds",),
            positive=("excess_j", "training_j"),
            least={"clients": 1, "longest_steps": 1, "period_steps": 1, "alpha": 0},
        )

    def clear_j(self, step: int) -> float:
        """Excess energy of an AP in a step under a clear sky: 0 at night, `excess_j` at noon."""
        day = (step - self.midnight_step) / self.period_steps
        # Rounded: at sunrise the cosine is 0, up to 1e-15 to either side.
        return self.excess_j * max(0.0, round(-math.cos(2.0 * math.pi * day), 9))

    def clearness(self, seed: int, ap: int, step: int) -> float:
        """The share of it that clouds leave an AP in this step, drawn."""
        return 1.0 - self.clouds * float(generator(seed, "fedzero clouds", ap, step).random())


@dataclass(frozen=True, slots=True)
class Client:
    """A candidate of the mixed-integer program: its power domain is its AP."""

    device: int
    ap: int
    utility: float  # sigma_c
    training_j: float  # delta_c times the batches of a training
    spare: tuple[float, ...]  # of a training, in each step from now on: the forecast of its presence


def fedzero(options: SystemOptions, own: FedZeroParameters) -> System:
    """FedZero (arXiv 2305.15092): FedAvg with the n most useful devices that APs' excess energy can carry.

    max sum_c b_c sigma_c sum_t m_ct, for the shortest round of d steps that has a solution, with
    m_min <= sum_t m_ct <= m_max where b_c = 1, sum over a domain's clients of delta_c m_ct <= r_pt,
    m_ct <= spare capacity, sum_c b_c = n. sigma_c = |B_c| sqrt(mean loss^2) is Oort's; a device that never
    trained has the largest of the others (1 where there are none). Without a solution no device trains.
    A selected device is blocked, and at each step released with P(c) = min(1, (p(c) - omega)^-alpha) for
    p(c) > omega, else 1; p(c) are the trainings ordered of it, omega their mean over the devices that were
    seen.

    Deviations: a power domain is an AP. Its excess energy is that of a panel, excess_j max(0, -cos(2 pi
    time of day)) times drawn clouds, and its forecast today's clearness, kept (no look-ahead). A training is
    whole (m_min = m_max = 1) and ends in its step: energy of a round's later steps is lent to it. Spare
    capacity is the chance that the device is there (`PresenceForecast`). n is at most the devices that could
    train if no other did. delta_c is the mean of the device's trainings with their transfers.
    Nothing holds the bench's joules to the excess energy.

    The authors' code (github.com/dos-group/fedzero): `FedZeroSelectionStrategy` in
    `fedzero/selection_strategy.py`. As there, an AP without excess energy now has no candidates. Its
    `_update_excluded_clients` releases with min(1, alpha / (p - omega)), which is this with the default alpha
    of 1, takes omega over a day and blocks the less useful of the last round's, by a factor; utilities that
    `StatUtilityJudge` scales to 0..1 select the same devices.
    """

    def choose(offered: Candidates) -> Selected:
        available = PresenceForecast.at(offered, own.period_steps)
        costs, blocked = TrainingCosts(offered), per_device(offered, _BLOCKED)
        met = available.present.any(axis=1)
        mean = float(costs.ordered[met].mean()) if met.any() else 0.0
        for device in np.flatnonzero(blocked).tolist():
            more = float(costs.ordered[device]) - mean
            released = 1.0 if more <= 1.0 else more**-own.alpha
            if generator(offered.seed, "fedzero release", device, offered.step).random() < released:
                blocked[device] = 0.0
        known = [offered.past[device].utility for device in offered.devices if device in offered.past]
        unknown = max(known, default=1.0)
        excess_j = {ap: _forecast_j(own, offered.seed, ap, offered.step) for ap in set(offered.aps)}
        clients = [
            Client(
                device,
                ap,
                offered.past[device].utility if device in offered.past else unknown,
                costs.of(device, own.training_j),
                (
                    1.0,
                    *(available.chance(device, offered.step + t) for t in range(1, own.longest_steps)),
                ),
            )
            for device, ap in zip(offered.devices, offered.aps, strict=True)
            if not blocked[device] and excess_j[ap][0] > 0.0
        ]
        wanted = min(own.clients, len(_able(clients, excess_j, own.longest_steps)))
        chosen = select(clients, excess_j, wanted, own.longest_steps)
        blocked[chosen] = 1.0
        return Selected(chosen, {**available.memory, **costs.kept_with(chosen), _BLOCKED: blocked})

    selection = Selection(choose, choices.statistical_utility, sees_energy=True)
    return replace(fedavg(options), name="fedzero", selection=selection)


def _forecast_j(own: FedZeroParameters, seed: int, ap: int, step: int) -> list[float]:
    """The excess energy of an AP now and in the steps behind, which keep the clearness of now."""
    clearness = own.clearness(seed, ap, step)
    return [own.clear_j(later) * clearness for later in range(step, step + own.longest_steps)]


def select(
    clients: Sequence[Client], excess_j: dict[int, list[float]], wanted: int, longest_steps: int
) -> list[int]:
    """The devices of the shortest round in which `wanted` of the clients can train; none where no round of
    at most `longest_steps` has a solution."""
    for steps in range(1, longest_steps + 1):
        able = _able(clients, excess_j, steps)
        if 0 < wanted <= len(able) and (chosen := _optimal(able, excess_j, wanted, steps)):
            return chosen
    return []


def _able(clients: Sequence[Client], excess_j: dict[int, list[float]], steps: int) -> list[Client]:
    """The clients that could train within this number of steps if no other did."""
    return [
        client
        for client in clients
        if math.fsum(
            min(spare, joules / client.training_j)
            for spare, joules in zip(client.spare[:steps], excess_j[client.ap], strict=False)
        )
        >= 1.0
    ]


def _optimal(
    clients: Sequence[Client], excess_j: dict[int, list[float]], wanted: int, steps: int
) -> list[int]:
    """The mixed-integer program over b_c and the shares m_ct of trainings; empty without a solution."""
    count = len(clients)
    choice = np.eye(count)
    share = np.kron(np.eye(count), np.ones(steps))  # column c * steps + t
    whole = np.hstack((-choice, share))  # sum_t m_ct = b_c
    number = np.hstack((np.ones(count), np.zeros(count * steps)))
    domains = sorted({client.ap for client in clients})
    energy = np.zeros((len(domains) * steps, count * (1 + steps)))
    limits = np.zeros(len(domains) * steps)
    for place, ap in enumerate(domains):
        for t in range(steps):
            limits[place * steps + t] = excess_j[ap][t]
            for c, client in enumerate(clients):
                if client.ap == ap:
                    energy[place * steps + t, count + c * steps + t] = client.training_j
    utilities = np.array([client.utility for client in clients])
    largest = float(utilities.max()) or 1.0
    found = scipy.optimize.milp(
        np.concatenate((-utilities / largest, np.zeros(count * steps))),
        integrality=np.concatenate((np.ones(count), np.zeros(count * steps))),
        bounds=scipy.optimize.Bounds(
            0.0, np.concatenate((np.ones(count), *(client.spare[:steps] for client in clients)))
        ),
        constraints=[
            scipy.optimize.LinearConstraint(whole, 0.0, 0.0),
            scipy.optimize.LinearConstraint(number[None], wanted, wanted),
            scipy.optimize.LinearConstraint(energy, -np.inf, limits),
        ],
        options={"mip_rel_gap": 0.0},
    )
    if found.x is None:
        return []
    return [client.device for client, one in zip(clients, found.x[:count].tolist(), strict=True) if one > 0.5]
