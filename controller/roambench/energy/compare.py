"""Measured against modelled communication energy: each transfer, and totals, on net measured joules."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from roambench.contract.phases import Phase, PhaseSpan
from roambench.energy.ledger import LedgerRow, total
from roambench.energy.link_model import LINKS, Direction, megabits, transfer_energy_j

DIRECTIONS: Mapping[Phase, Direction] = {Phase.DOWNLOAD: "down", Phase.UPLOAD: "up"}


@dataclass(frozen=True, slots=True)
class LinkUse:
    """What the placement gave an order: the link's name and its throughput by Eq. 2."""

    link: str  # "lte" or "wifi"
    throughput_mbit_s: float


@dataclass(frozen=True, slots=True)
class TransferComparison:
    """One transfer: its net measured energy beside Eq. 1 at the placement's and at the real throughput."""

    device: str
    train_order_id: str
    order_id: str
    phase: Phase
    link: str
    size_mbit: float
    modelled_mbit_s: float
    measured_mbit_s: float
    duration_s: float
    covered_s: float
    measured_net_j: float
    u_measured_net_j: float
    modelled_j: float
    modelled_at_measured_j: float  # Eq. 1 with the throughput that really was
    resolved: bool


@dataclass(frozen=True, slots=True)
class ComparisonTotal:
    """Sums over transfers that the meter saw in full; `ratio` is measured over modelled."""

    transfers: int
    left_out: int  # transfers with unmeasured time: a sum over half of one compares with nothing
    measured_net_j: float
    u_measured_net_j: float
    modelled_j: float

    @property
    def ratio(self) -> float:
        return self.measured_net_j / self.modelled_j if self.modelled_j > 0.0 else math.nan

    @property
    def u_ratio(self) -> float:
        return self.u_measured_net_j / self.modelled_j if self.modelled_j > 0.0 else math.nan


@dataclass(frozen=True, slots=True)
class Comparison:
    transfers: list[TransferComparison]
    download: ComparisonTotal
    upload: ComparisonTotal
    total: ComparisonTotal


#: A transfer counts in the totals when at least this share of it was measured.
MIN_COVERAGE = 0.99


def compare_transfers(
    rows: Sequence[LedgerRow], spans: Sequence[PhaseSpan], link_of_order: Mapping[str, LinkUse]
) -> Comparison:
    """Compare ledger `rows` with Eq. 1; `rows` and `spans` are parallel (as `build_ledger` makes them).

    Spans of several devices may be concatenated. Orders missing from `link_of_order` are not compared.
    """
    if len(rows) != len(spans):
        raise ValueError(f"{len(rows)} ledger rows for {len(spans)} spans")
    transfers: list[TransferComparison] = []
    kept: list[LedgerRow] = []
    for row, span in zip(rows, spans, strict=True):
        direction = DIRECTIONS.get(span.phase)
        use = link_of_order.get(span.order_id)
        if direction is None or use is None or not span.transferred_bytes:
            continue
        size = float(megabits(span.transferred_bytes))
        real_mbit_s = size / row.duration_s if row.duration_s > 0.0 else math.inf
        link = LINKS[use.link]
        transfers.append(
            TransferComparison(
                row.device,
                span.train_order_id,
                span.order_id,
                span.phase,
                use.link,
                size,
                use.throughput_mbit_s,
                real_mbit_s,
                row.duration_s,
                row.covered_s,
                row.net_j,
                row.u_net_j,
                float(transfer_energy_j(size, link, use.throughput_mbit_s, direction)),
                float(transfer_energy_j(size, link, real_mbit_s, direction))
                if math.isfinite(real_mbit_s)
                else math.nan,
                row.resolved,
            )
        )
        kept.append(row)
    return Comparison(
        transfers,
        _total(transfers, kept, {Phase.DOWNLOAD}),
        _total(transfers, kept, {Phase.UPLOAD}),
        _total(transfers, kept, set(DIRECTIONS)),
    )


def _total(
    transfers: Sequence[TransferComparison], rows: Sequence[LedgerRow], phases: set[Phase]
) -> ComparisonTotal:
    chosen = [(t, r) for t, r in zip(transfers, rows, strict=True) if t.phase in phases]
    seen = [(t, r) for t, r in chosen if t.covered_s >= MIN_COVERAGE * t.duration_s]
    measured = total((row for _, row in seen), "net")
    return ComparisonTotal(
        len(seen),
        len(chosen) - len(seen),
        measured.joules,
        measured.u_joules,
        math.fsum(t.modelled_j for t, _ in seen),
    )
