"""Modelled joules of work that no meter saw: Eq. 1 for transfers, assumed power times seconds for training.

Modelled rows are a type of their own, so that they can never get into a ledger of measured ones. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from roambench.contract.phases import Outcome, Phase
from roambench.energy.device_power import DevicePower
from roambench.energy.energy_value import Energy, Part, Term
from roambench.energy.energy_value import total as sum_of
from roambench.energy.ledger import Kind
from roambench.energy.link_models import KnownLink, LinkModel
from roambench.energy.radio_work import RadioWork


@dataclass(frozen=True, slots=True)
class ModelledRow:
    """Modelled energy of one device in one phase of one order.

    `step` is the round of the training served, as in the measured ledger; `at_step` is the round in which
    the work was done. `net_j` is the radio's (Eq. 1) or the training's part above idle, `idle_j` what the
    device draws anyway in `duration_s`. `terms` is what the link model leaves open, common to all rows of
    the model; assumed powers have no uncertainty that could be told.
    """

    device: str
    step: int
    at_step: int
    phase: Phase
    outcome: Outcome | None  # None: a transfer that serves no training
    order_id: str
    train_order_id: str
    duration_s: float
    idle_j: float
    net_j: float
    transferred_bytes: int = 0
    mbit_s: float = 0.0
    link: str = ""
    distance_m: float = 0.0
    terms: tuple[Term, ...] = ()

    @property
    def gross_j(self) -> float:
        """Idle plus net energy, J."""
        return self.idle_j + self.net_j

    @property
    def u_j(self) -> float:
        """Standard uncertainty of the link model's part; 0 where the model tells none."""
        return math.hypot(*(u for _, _, u in self.terms))

    def energy(self, kind: Kind = "gross") -> Energy:
        """As an energy that adds up with other modelled rows: the model's errors add linearly."""
        return Energy(self.gross_j if kind == "gross" else self.net_j, 0.0, self.duration_s, 0.0, self.terms)


@dataclass(frozen=True, slots=True)
class Served:
    """Which device did what for whom: the part of a row that no model decides."""

    number: int  # of the device, for what is drawn per device
    device: str
    step: int
    at_step: int
    outcome: Outcome | None
    order_id: str
    train_order_id: str


class EnergyModel:
    """A link model and a power model together: rows for transfers and trainings.

    `overhead_bytes` is Eq. 1's Delta: what protocols add to every transfer's own bytes.
    """

    def __init__(self, links: LinkModel, power: DevicePower, overhead_bytes: int = 0) -> None:
        self.links = links
        self.overhead_bytes = overhead_bytes
        self.power = power
        self._powers: dict[int, DevicePower] = {}
        self._roots: dict[tuple[str, str], tuple[KnownLink, np.ndarray]] = {}

    def transfer(
        self,
        served: Served,
        phase: Phase,
        transferred_bytes: int,
        mbit_s: float,
        link: str,
        distance_m: float,
    ) -> ModelledRow:
        """Eq. 1 for `transferred_bytes` and the overhead at `mbit_s` (positive) over link class `link`."""
        size_mbit = (transferred_bytes + self.overhead_bytes) * 8e-6
        work = RadioWork.of(size_mbit, mbit_s, "up" if phase is Phase.UPLOAD else "down")
        known, root = self.known(link, served.device)
        # Written out: a BLAS may fuse or reorder the three products, and then figures depend on the machine.
        net_j = 1e-3 * _dot(known.values, work)
        *axes, gain = self.sources(link, served.device)
        # E is linear in the three parameters: their joint error is that of three independent directions.
        terms: list[Term] = [
            (Part.MODEL, source, u)
            for source, parameters in zip(axes, root.T, strict=True)
            if (u := 1e-3 * _dot(parameters, work))
        ]
        if known.u_gain:
            terms.append((Part.MODEL, gain, known.u_gain * net_j))
        return ModelledRow(
            served.device, served.step, served.at_step, phase, served.outcome, served.order_id,
            served.train_order_id, work.active_s, self.power_of(served.number).idle_w * work.active_s, net_j,
            transferred_bytes, mbit_s, link, distance_m, tuple(terms),
        )  # fmt: skip

    def training(self, served: Served, train_s: float) -> ModelledRow:
        """The device's own power over `train_s` modelled seconds."""
        power = self.power_of(served.number)
        return ModelledRow(
            served.device, served.step, served.at_step, Phase.TRAIN, served.outcome, served.order_id,
            served.train_order_id, train_s, power.idle_w * train_s, power.train_w * train_s,
        )  # fmt: skip

    def power_of(self, number: int) -> DevicePower:
        """The device's own power."""
        if number not in self._powers:
            self._powers[number] = self.power.of(number)
        return self._powers[number]

    def sources(self, link: str, device: str) -> tuple[str, str, str, str]:
        """Sources of a transfer's errors: the three directions of its parameters' error, and the gain."""
        own = device in self.links.devices
        source, gain = (device, device) if own else (f"{self.links.name} {link}", self.links.name)
        return f"{source} 0", f"{source} 1", f"{source} 2", f"{gain} gain"

    def known(self, link: str, device: str) -> tuple[KnownLink, np.ndarray]:
        """The parameters for a link and a matrix R with R R' = their covariance."""
        key = (link, device if device in self.links.devices else "")
        if key not in self._roots:
            known = self.links.of(link, device)
            values, vectors = np.linalg.eigh(np.array(known.covariance))
            self._roots[key] = known, vectors * np.sqrt(np.maximum(values, 0.0))
        return self._roots[key]


def _dot(parameters: np.ndarray, work: RadioWork) -> float:
    """Sum of parameters (alpha_up, alpha_down, beta) times amounts, from the first to the last."""
    up, down, beta = parameters.tolist()
    return float(up * work.up_mbit + down * work.down_mbit + beta * work.active_s)


def modelled_total(rows: Iterable[ModelledRow], kind: Kind = "gross") -> Energy:
    """Sum of rows; what the link model leaves open is common to them and adds linearly."""
    return sum_of(row.energy(kind) for row in rows)
