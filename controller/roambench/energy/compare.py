"""Measured against modelled communication energy: each transfer, and sums by board, link and direction.

Measured is the net energy (idle subtracted): a phone's radio power stands beside what the transfer added to
a board's draw. Modelled is Eq. 1 on the bytes that really went over the link, on up to three bases.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal, TypeVar

from roambench.contract.phases import Phase, PhaseSpan
from roambench.energy.attribute import RESOLVED_PERIODS
from roambench.energy.energy_value import Energy
from roambench.energy.ledger import LedgerRow, total, totals_by
from roambench.energy.link_model import megabits
from roambench.energy.link_models import ANY, KnownLink, LinkModel
from roambench.energy.radio_work import PAPER, Modelled, RadioWork, energy_of
from roambench.energy.verdict import Verdict, verdict_of

#: Which way a transfer goes; an exchange between devices goes both ways at once.
Way = Literal["up", "down", "exchange"]
WAYS: Final[Mapping[Phase, Way]] = {
    Phase.DOWNLOAD: "down",
    Phase.UPLOAD: "up",
    Phase.EXCHANGE: "exchange",
}
#: A transfer counts in the sums when at least this share of it was measured.
MIN_COVERAGE: Final = 0.99
#: A power that readings determined is known to this share at least; one held by the fit's prior to about 1.
READ_SHARE: Final = 0.25
Key = TypeVar("Key", bound=Hashable)


class Basis(StrEnum):
    """What Eq. 1 was given."""

    ACTUAL = "actual"  # the paper's parameters, the throughput that really was
    PLACEMENT = "placement"  # the paper's parameters, Eq. 2's throughput at the placement's distance
    NAMED = "named"  # a named link model's parameters, the throughput that really was


@dataclass(frozen=True, slots=True)
class LinkUse:
    """What the placement gave an order: the link's name and its throughput by Eq. 2 (0: none).

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
    modelled: Mapping[Basis, Modelled]
    work: Mapping[Basis, RadioWork]
    resolved: bool
    row_indices: tuple[int, ...]

    @property
    def achieved_mbit_s(self) -> float:
        """Throughput that really was; inf for a transfer that took no time."""
        return _rate(float(megabits(self.transferred_bytes)), self.duration_s)

    @property
    def seen(self) -> bool:
        """Whether the meter saw (nearly) all of it: half a transfer compares with nothing."""
        return self.covered_s >= MIN_COVERAGE * self.duration_s and self.covered_s > 0.0

    def residual_u(self, basis: Basis) -> float:
        """(measured - modelled) / u of the difference; NaN where the basis says nothing."""
        return _residual(self.net, self.modelled.get(basis))


@dataclass(frozen=True, slots=True)
class ComparisonTotal:
    """A sum over transfers that the meter saw in full.

    `left_out` more had unmeasured time. `resolved_s` of `duration_s` was in transfers that the meter
    resolves by themselves (R7). `u_linear_j` is the boards' uncertainties of `net` added up as if they were
    one error. `modelled` lacks a basis that does not speak of every transfer in the sum.
    """

    transfers: int
    left_out: int
    transferred_bytes: int
    duration_s: float
    resolved_s: float
    period_s: float
    gross: Energy
    net: Energy
    u_linear_j: float
    naive_gross_j: float
    modelled: Mapping[Basis, Modelled]

    @property
    def resolved(self) -> bool:
        """R7 for a sum: half of its time is in resolved transfers, or it is long enough as a whole.

        Ten periods spread over boards that hardly saw a transfer each are not enough: there the power was
        guessed, not read, and a guess would be the same on every board. Then `u_linear_j` is large.
        """
        if 2.0 * self.resolved_s >= self.duration_s:
            return True
        long = self.duration_s >= RESOLVED_PERIODS * self.period_s
        return long and self.u_linear_j <= READ_SHARE * abs(self.net.joules)

    @property
    def achieved_mbit_s(self) -> float:
        return _rate(float(megabits(self.transferred_bytes)), self.duration_s)

    def modelled_j(self, basis: Basis) -> float:
        """NaN where the basis says nothing."""
        found = self.modelled.get(basis)
        return math.nan if found is None else found.joules

    def ratio(self, basis: Basis) -> float:
        """Measured over modelled; NaN where there is nothing to divide by."""
        modelled_j = self.modelled_j(basis)
        return self.net.joules / modelled_j if self.transfers and modelled_j > 0.0 else math.nan

    def u_ratio(self, basis: Basis) -> float:
        """Standard uncertainty of `ratio`, the meter's and the model's."""
        found = self.modelled.get(basis)
        if found is None or not self.transfers or found.joules <= 0.0:
            return math.nan
        return math.hypot(self.net.u_joules, self.ratio(basis) * found.u_joules) / found.joules

    def residual_u(self, basis: Basis) -> float:
        return _residual(self.net, self.modelled.get(basis)) if self.transfers else math.nan

    def verdict(self, basis: Basis) -> Verdict:
        """What may honestly be said of the model on this basis."""
        return verdict_of(
            ratio=self.ratio(basis),
            u_ratio=self.u_ratio(basis),
            transfers=self.transfers,
            left_out=self.left_out,
            mean_s=self.duration_s / self.transfers if self.transfers else 0.0,
            period_s=self.period_s,
            resolved=self.resolved,
        )


@dataclass(frozen=True)
class Comparison:
    """All transfers of a run beside Eq. 1, with the rows they are made of (sums need their shared errors)."""

    transfers: tuple[Transfer, ...]
    rows: Sequence[LedgerRow]
    models: Mapping[Basis, LinkModel]  # where Eq. 1 has its parameters from
    period_of: Mapping[str, float]  # seconds from line to line of each board's meter; 1 if not there

    @property
    def bases(self) -> tuple[Basis, ...]:
        """The bases that have anything to say about this run, in order."""
        said = {basis for transfer in self.transfers for basis in transfer.modelled}
        return tuple(basis for basis in Basis if basis in said)

    @property
    def download(self) -> ComparisonTotal:
        return self.sum(transfer for transfer in self.transfers if transfer.direction == "down")

    @property
    def upload(self) -> ComparisonTotal:
        return self.sum(transfer for transfer in self.transfers if transfer.direction == "up")

    @property
    def exchange(self) -> ComparisonTotal:
        """Between devices: what each sent and received, the radio's fixed part once for both."""
        return self.sum(transfer for transfer in self.transfers if transfer.direction == "exchange")

    @property
    def total(self) -> ComparisonTotal:
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
        rows = [self.rows[index] for transfer in seen for index in transfer.row_indices]
        boards = totals_by(rows, lambda row: row.device, "net").values()
        return ComparisonTotal(
            len(seen),
            len(chosen) - len(seen),
            sum(transfer.transferred_bytes for transfer in seen),
            math.fsum(transfer.duration_s for transfer in seen),
            math.fsum(transfer.duration_s for transfer in seen if transfer.resolved),
            max((self.period_of.get(transfer.device, 1.0) for transfer in chosen), default=1.0),
            total(rows, "gross"),
            total(rows, "net"),
            math.fsum(board.u_joules for board in boards),
            math.fsum(transfer.naive_gross_j for transfer in seen),
            self._modelled(seen),
        )

    def _modelled(self, transfers: Sequence[Transfer]) -> dict[Basis, Modelled]:
        found = {}
        for basis in Basis:
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


def compare_transfers(
    rows: Sequence[LedgerRow],
    spans: Sequence[PhaseSpan],
    link_of_order: Mapping[str, LinkUse],
    *,
    named: LinkModel | None = None,
    paper: LinkModel = PAPER,
    period_of: Mapping[str, float] | None = None,
) -> Comparison:
    """Compare ledger `rows` with Eq. 1; `rows` and `spans` are parallel (as `build_ledger` makes them).

    Spans of several devices may be concatenated. Orders missing from `link_of_order` are not compared, nor
    are transfers that moved no byte. `paper` has the parameters of each link class; `named` is one more
    model. A transfer whose link class a model does not know is measured all the same. `period_of`: seconds
    from line to line of a board's meter, for the verdicts.
    """
    if len(rows) != len(spans):
        raise ValueError(f"{len(rows)} ledger rows for {len(spans)} spans")
    pieces: dict[tuple[str, str, Phase], list[int]] = {}
    for index, span in enumerate(spans):
        if span.phase in WAYS and span.order_id in link_of_order:
            pieces.setdefault((span.device, span.order_id, span.phase), []).append(index)
    models = {Basis.ACTUAL: paper, Basis.PLACEMENT: paper}
    if named is not None:
        models[Basis.NAMED] = named
    transfers = tuple(
        _transfer([rows[i] for i in indices], [spans[i] for i in indices], indices, link_of_order, models)
        for indices in pieces.values()
        if any(spans[i].transferred_bytes for i in indices)
    )
    return Comparison(transfers, rows, models, dict(period_of or {}))


def _transfer(
    rows: Sequence[LedgerRow],
    spans: Sequence[PhaseSpan],
    indices: Sequence[int],
    link_of_order: Mapping[str, LinkUse],
    models: Mapping[Basis, LinkModel],
) -> Transfer:
    first = spans[0]
    use = link_of_order[first.order_id]
    way = WAYS[first.phase]
    moved = sum(span.transferred_bytes for span in spans)
    size = float(megabits(moved))
    duration_s = math.fsum(row.duration_s for row in rows)
    rates = {basis: _rate(size, duration_s) for basis in models}
    rates[Basis.PLACEMENT] = use.throughput_mbit_s
    work = {
        basis: _work(way, size, rates[basis], float(megabits(min(use.sent_bytes, moved))))
        for basis, model in models.items()
        if _knows(model, use.link, first.device) and 0.0 < rates[basis] < math.inf
    }
    return Transfer(
        first.device,
        use.link,
        way,
        first.order_id,
        first.train_order_id,
        moved,
        duration_s,
        math.fsum(row.covered_s for row in rows),
        use.throughput_mbit_s,
        total(rows, "gross"),
        total(rows, "net"),
        math.fsum(row.naive_j for row in rows),
        {basis: done.energy(models[basis].of(use.link, first.device)) for basis, done in work.items()},
        work,
        all(row.resolved for row in rows),
        tuple(indices),
    )


def _work(way: Way, size_mbit: float, mbit_s: float, sent_mbit: float) -> RadioWork:
    """An exchange's radio is on once for both directions; `mbit_s` is of both together."""
    if way == "exchange":
        return RadioWork(sent_mbit, size_mbit - sent_mbit, size_mbit / mbit_s)
    return RadioWork.of(size_mbit, mbit_s, way)


def _knows(model: LinkModel, link: str, device: str) -> bool:
    return link in model.links or ANY in model.links or device in model.devices


def _rate(size_mbit: float, duration_s: float) -> float:
    if duration_s > 0.0:
        return size_mbit / duration_s
    return math.inf if size_mbit else math.nan


def _residual(net: Energy, modelled: Modelled | None) -> float:
    if modelled is None:
        return math.nan
    u = math.hypot(net.u_joules, modelled.u_joules)
    return (net.joules - modelled.joules) / u if u > 0.0 else math.nan
