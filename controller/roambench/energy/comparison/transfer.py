"""One measured transfer beside what Eq. 1 says of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

from roambench.contract.phases import Phase
from roambench.energy.energy_value import Energy
from roambench.energy.links.radio_work import Modelled, RadioWork
from roambench.energy.links.throughput import megabits

#: Which way a transfer goes; an exchange between devices goes both ways at once.
Way = Literal["up", "down", "exchange"]
WAYS: Final[Mapping[Phase, Way]] = {
    Phase.DOWNLOAD: "down",
    Phase.UPLOAD: "up",
    Phase.EXCHANGE: "exchange",
}
#: A transfer counts in the sums when at least this share of it was measured.
MIN_COVERAGE: Final = 0.99


class ModelBasis(StrEnum):
    """Parameters and rate that Eq. 1 was given."""

    ACTUAL = "actual"  # the paper's parameters, the throughput that really was
    PLACEMENT = "placement"  # the paper's parameters, Eq. 2's throughput at the placement's distance
    NAMED = "named"  # a named link model's parameters, the throughput that really was


@dataclass(frozen=True, slots=True)
class LinkUse:
    """The link that the placement gave an order: the link's name and its throughput by Eq. 2 (0: none).

    `sent_bytes` of what an exchange moved were the device's own.
    """

    link: str
    throughput_mbit_s: float
    sent_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Transfer:
    """One transfer of one order, whole even where its phase was recorded in pieces.

    `net` is the measured energy without idle, `gross` with it. `modelled` holds the bases that have
    something to say. `row_indices` are its ledger rows.
    """

    device: str
    link: str
    direction: Way
    order_id: str
    train_order_id: str
    transferred_bytes: int
    duration_s: float
    covered_s: float
    placement_mbit_s: float
    gross: Energy
    net: Energy
    naive_gross_j: float
    modelled: Mapping[ModelBasis, Modelled]
    work: Mapping[ModelBasis, RadioWork]
    row_indices: tuple[int, ...]

    @property
    def achieved_mbit_s(self) -> float:
        """Throughput that really was; inf for a transfer that took no time."""
        return rate_of(float(megabits(self.transferred_bytes)), self.duration_s)

    @property
    def seen(self) -> bool:
        """Whether the meter saw (nearly) all of it: half a transfer compares with nothing."""
        return self.covered_s >= MIN_COVERAGE * self.duration_s and self.covered_s > 0.0

    def residual_u(self, basis: ModelBasis) -> float:
        """(measured - modelled) / u of the difference; NaN where the basis says nothing."""
        return residual_of(self.net, self.modelled.get(basis))


def rate_of(size_mbit: float, duration_s: float) -> float:
    """Mbit/s; inf for what took no time, NaN for nothing in no time."""
    if duration_s > 0.0:
        return size_mbit / duration_s
    return math.inf if size_mbit else math.nan


def residual_of(net: Energy, modelled: Modelled | None) -> float:
    """(measured - modelled) / u of the difference; NaN where nothing is modelled or there is no u."""
    if modelled is None:
        return math.nan
    u = math.hypot(net.u_joules, modelled.u_joules)
    return (net.joules - modelled.joules) / u if u > 0.0 else math.nan
