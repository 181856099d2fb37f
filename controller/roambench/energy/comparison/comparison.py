"""Sums over transfers that were measured and modelled: by board, link and direction, and for a whole run."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from roambench.energy.comparison.transfer import MeasuredAndModelled, ModelBasis, Transfer, Way
from roambench.energy.comparison.verdict import ModelVerdict, verdict_of
from roambench.energy.energy_value import Energy, total
from roambench.energy.ledger import Ledger
from roambench.energy.links.models import LinkModel

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class ComparisonTotal(MeasuredAndModelled):
    """A sum over transfers that the meter saw in full; `left_out` more had unmeasured time."""

    transfers: int
    left_out: int
    transferred_bytes: int
    duration_s: float
    gross: Energy
    net: Energy
    naive_gross_j: float
    modelled: Mapping[ModelBasis, Energy]
    true_net_j: float  # of emulated boards; NaN where unknown

    def verdict(self, basis: ModelBasis) -> ModelVerdict:
        """Return what the sum decides about the model on this basis."""
        return verdict_of(self.ratio(basis), transfers=self.transfers, left_out=self.left_out)


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

        Measured: gain and idle power of one board add linearly, boards in quadrature. Modelled: the errors
        of one set of parameters are the same in all its transfers, those of several fits are independent.
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
            {
                basis: total(transfer.modelled[basis] for transfer in seen)
                for basis in ModelBasis
                if all(basis in transfer.modelled for transfer in seen)
            },
            math.nan if self.true_net_j is None else float(self.true_net_j[rows].sum()),
        )

    def _groups(self, key: Callable[[Transfer], Key]) -> dict[Key, ComparisonTotal]:
        groups: dict[Key, list[Transfer]] = {}
        for transfer in self.transfers:
            groups.setdefault(key(transfer), []).append(transfer)
        return {name: self.sum(groups[name]) for name in sorted(groups)}  # type: ignore[type-var]
