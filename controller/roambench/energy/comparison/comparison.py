"""Sums over transfers that were measured and modelled: by board, link and direction, and for a whole run."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from roambench.energy.comparison.transfer import ModelBasis, Transfer, Way, rate_of, residual_of
from roambench.energy.comparison.verdict import ModelVerdict, verdict_of
from roambench.energy.energy_value import Energy
from roambench.energy.ledger import Ledger
from roambench.energy.links.models import KnownLink, LinkModel
from roambench.energy.links.radio_work import Modelled, RadioWork, energy_of
from roambench.energy.links.throughput import megabits

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class ComparisonTotal:
    """A sum over transfers that the meter saw in full.

    `left_out` more had unmeasured time. `modelled` lacks a basis that does not speak of every transfer in the
    sum.
    """

    transfers: int
    left_out: int
    transferred_bytes: int
    duration_s: float
    gross: Energy
    net: Energy
    naive_gross_j: float
    modelled: Mapping[ModelBasis, Modelled]
    true_net_j: float  # of emulated boards; NaN where nobody knows it

    @property
    def achieved_mbit_s(self) -> float:
        """Mean rate of the transfers, Mbit/s (10^6 bit): all bytes over all their time."""
        return rate_of(float(megabits(self.transferred_bytes)), self.duration_s)

    def modelled_j(self, basis: ModelBasis) -> float:
        """NaN where the basis says nothing."""
        found = self.modelled.get(basis)
        return math.nan if found is None else found.joules

    def ratio(self, basis: ModelBasis) -> float:
        """Measured over modelled; NaN where there is nothing to divide by."""
        modelled_j = self.modelled_j(basis)
        return self.net.joules / modelled_j if self.transfers and modelled_j > 0.0 else math.nan

    def u_ratio(self, basis: ModelBasis) -> float:
        """Standard uncertainty of `ratio`, the meter's and the model's."""
        found = self.modelled.get(basis)
        if found is None or not self.transfers or found.joules <= 0.0:
            return math.nan
        return math.hypot(self.net.u_joules, self.ratio(basis) * found.u_joules) / found.joules

    def u_lasting(self, basis: ModelBasis) -> float:
        """The part of `u_ratio` that further transfers would leave as it is: gain, idle power and model."""
        found = self.modelled.get(basis)
        if found is None or not self.transfers or found.joules <= 0.0:
            return math.nan
        budget = self.net.budget
        measured_j = math.hypot(budget.gain_j, budget.offset_j, budget.baseline_j)
        return math.hypot(measured_j, self.ratio(basis) * found.u_joules) / found.joules

    def residual_u(self, basis: ModelBasis) -> float:
        """Measured minus modelled in standard uncertainties of both (`residual_of`); NaN without
        transfers."""
        return residual_of(self.net, self.modelled.get(basis)) if self.transfers else math.nan

    def verdict(self, basis: ModelBasis) -> ModelVerdict:
        """The honest verdict on the model on this basis."""
        return verdict_of(
            ratio=self.ratio(basis),
            u_ratio=self.u_ratio(basis),
            transfers=self.transfers,
            left_out=self.left_out,
            u_lasting=self.u_lasting(basis),
        )


@dataclass(frozen=True)
class TransferComparison:
    """All transfers of a run beside Eq. 1, and the ledger they are in: its rows share errors."""

    transfers: tuple[Transfer, ...]
    ledger: Ledger
    models: Mapping[ModelBasis, LinkModel]  # where Eq. 1 has its parameters from
    true_net_j: npt.NDArray[np.float64] | None = None  # of the rows of emulated boards, shape (rows,)

    @property
    def bases(self) -> tuple[ModelBasis, ...]:
        """The bases that have anything to say about this run, in order."""
        said = {basis for transfer in self.transfers for basis in transfer.modelled}
        return tuple(basis for basis in ModelBasis if basis in said)

    @property
    def download(self) -> ComparisonTotal:
        """Sum over the transfers to devices."""
        return self.sum(transfer for transfer in self.transfers if transfer.direction == "down")

    @property
    def upload(self) -> ComparisonTotal:
        """Sum over the transfers from devices."""
        return self.sum(transfer for transfer in self.transfers if transfer.direction == "up")

    @property
    def exchange(self) -> ComparisonTotal:
        """Between devices: what each sent and received, the radio's fixed part once for both."""
        return self.sum(transfer for transfer in self.transfers if transfer.direction == "exchange")

    @property
    def total(self) -> ComparisonTotal:
        """Sum over all transfers."""
        return self.sum(self.transfers)

    def by_class(self) -> dict[tuple[str, Way], ComparisonTotal]:
        """Sums over all boards by (link, direction), in order of name."""
        return self._groups(lambda transfer: (transfer.link, transfer.direction))

    def by_device(self) -> dict[tuple[str, str, Way], ComparisonTotal]:
        """Sums by (device, link, direction), in order of name."""
        return self._groups(lambda transfer: (transfer.device, transfer.link, transfer.direction))

    def sum(self, transfers: Iterable[Transfer]) -> ComparisonTotal:
        """Add up transfers of this comparison (R9).

        Measured: gain and fitted power of one board add linearly, boards in quadrature. Modelled: the
        errors of a set of parameters are the same in all its transfers, so they add linearly
        (`radio_work.energy_of` for several sets).
        """
        chosen = list(transfers)
        seen = [transfer for transfer in chosen if transfer.seen]
        rows = np.array([index for transfer in seen for index in transfer.row_indices], np.int64)
        return ComparisonTotal(
            len(seen),
            len(chosen) - len(seen),
            sum(transfer.transferred_bytes for transfer in seen),
            math.fsum(transfer.duration_s for transfer in seen),
            self.ledger.total("gross", rows),
            self.ledger.total("net", rows),
            math.fsum(transfer.naive_gross_j for transfer in seen),
            self._modelled(seen),
            self._true_net_j(seen),
        )

    def _true_net_j(self, transfers: Sequence[Transfer]) -> float:
        if self.true_net_j is None:
            return math.nan
        return float(self.true_net_j[[index for item in transfers for index in item.row_indices]].sum())

    def _modelled(self, transfers: Sequence[Transfer]) -> dict[ModelBasis, Modelled]:
        found = {}
        for basis in ModelBasis:
            if not all(basis in transfer.work for transfer in transfers):
                continue
            work: dict[tuple[KnownLink, str], RadioWork] = {}
            for transfer in transfers:
                model = self.models[basis]
                own = transfer.device if transfer.device in model.devices else ""
                key = (model.of(transfer.link, transfer.device), own)
                work[key] = work.get(key, RadioWork()) + transfer.work[basis]
            found[basis] = energy_of(work)
        return found

    def _groups(self, key: Callable[[Transfer], Key]) -> dict[Key, ComparisonTotal]:
        groups: dict[Key, list[Transfer]] = {}
        for transfer in self.transfers:
            groups.setdefault(key(transfer), []).append(transfer)
        return {name: self.sum(groups[name]) for name in sorted(groups)}  # type: ignore[type-var]
