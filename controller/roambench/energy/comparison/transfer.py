"""One measured transfer beside what Eq. 1 says of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

from roambench.contract.phases import Phase
from roambench.energy.comparison.verdict import ModelVerdict, Ratio, verdict_of
from roambench.energy.energy_value import Energy
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


class MeasuredAndModelled:
    """Net energy of one transfer or of several beside what models say; `modelled` lacks a basis that does not
    know all of them."""

    __slots__ = ()
    net: Energy
    modelled: Mapping[ModelBasis, Energy]
    transferred_bytes: int
    duration_s: float

    @property
    def achieved_mbit_s(self) -> float:
        """Mean rate that really was, Mbit/s (10^6 bit): all bytes over all the time; inf in no time."""
        return rate_of(float(megabits(self.transferred_bytes)), self.duration_s)

    def modelled_j(self, basis: ModelBasis) -> float:
        """NaN where the basis says nothing."""
        return self.modelled[basis].joules if basis in self.modelled else math.nan

    def per_megabyte(self, energy: Energy | None) -> tuple[float, float]:
        """An energy and its standard uncertainty by the bytes moved, J/MB (10^6 bytes); NaN for none."""
        if energy is None or not self.transferred_bytes:
            return math.nan, math.nan
        return 1e6 * energy.joules / self.transferred_bytes, 1e6 * energy.u_joules / self.transferred_bytes

    def ratio(self, basis: ModelBasis) -> Ratio:
        """Measured over modelled."""
        return Ratio.of(self.net, self.modelled.get(basis))


@dataclass(frozen=True, slots=True)
class Transfer(MeasuredAndModelled):
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
    modelled: Mapping[ModelBasis, Energy]
    row_indices: tuple[int, ...]

    @property
    def seen(self) -> bool:
        """True if the meter saw (nearly) all of it: half a transfer compares with nothing."""
        return self.covered_s >= MIN_COVERAGE * self.duration_s and self.covered_s > 0.0

    def verdict(self, basis: ModelBasis) -> ModelVerdict:
        """Return what this transfer decides about the model on this basis."""
        return verdict_of(self.ratio(basis), transfers=int(self.seen), left_out=int(not self.seen))


def rate_of(size_mbit: float, duration_s: float) -> float:
    """Mbit/s; inf for what took no time, NaN for nothing in no time."""
    if duration_s > 0.0:
        return size_mbit / duration_s
    return math.inf if size_mbit else math.nan
