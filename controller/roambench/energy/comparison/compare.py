"""Measured against modelled communication energy: each transfer, and sums by board, link and direction.

Measured is the net energy (idle subtracted): a phone's radio power stands beside what the transfer added to
a board's draw. Modelled is Eq. 1 on the bytes that really went over the link, on up to three bases.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from roambench.contract.phases import Phase, PhaseSpan
from roambench.energy.comparison.comparison import TransferComparison
from roambench.energy.comparison.transfer import WAYS, LinkUse, ModelBasis, Transfer, Way, rate_of
from roambench.energy.energy_value import Energy, UncertaintyPart
from roambench.energy.ledger import Ledger, LedgerRow
from roambench.energy.links.models import ANY, LinkModel
from roambench.energy.links.radio_work import PAPER, RadioWork
from roambench.energy.links.throughput import megabits


def compare_transfers(
    rows: Sequence[LedgerRow],
    spans: Sequence[PhaseSpan],
    link_of_order: Mapping[str, LinkUse],
    *,
    named: LinkModel | None = None,
    paper: LinkModel = PAPER,
    meters: Mapping[str, str] | None = None,
    true_net_j: npt.NDArray[np.float64] | None = None,
) -> TransferComparison:
    """Compare ledger `rows` with Eq. 1; `rows` and `spans` are parallel (as `account_device` makes them).

    Spans of several devices may be concatenated. Orders missing from `link_of_order` are not compared, nor
    are transfers that moved no byte. `paper` has the parameters of each link class; `named` is one more
    model. A transfer whose link class a model does not know is measured all the same. `meters` names the
    meter and calibration of devices: where a model was fitted with the same, both have one error of gain.
    `true_net_j`, shape (rows,), is the truth of emulated boards.
    """
    if len(rows) != len(spans):
        raise ValueError(f"{len(rows)} ledger rows for {len(spans)} spans")
    pieces: dict[tuple[str, str, Phase], list[int]] = {}
    for index, span in enumerate(spans):
        if span.phase in WAYS and span.order_id in link_of_order:
            pieces.setdefault((span.device, span.order_id, span.phase), []).append(index)
    models = {ModelBasis.ACTUAL: paper, ModelBasis.PLACEMENT: paper}
    if named is not None:
        models[ModelBasis.NAMED] = named
    ledger = Ledger.of(rows)
    transfers = tuple(
        _transfer(rows, spans, ledger, indices, link_of_order, models, meters or {})
        for indices in pieces.values()
        if any(spans[i].transferred_bytes for i in indices)
    )
    return TransferComparison(transfers, ledger, models, true_net_j)


def _transfer(
    all_rows: Sequence[LedgerRow],
    all_spans: Sequence[PhaseSpan],
    ledger: Ledger,
    indices: Sequence[int],
    link_of_order: Mapping[str, LinkUse],
    models: Mapping[ModelBasis, LinkModel],
    meters: Mapping[str, str],
) -> Transfer:
    rows, spans = [all_rows[i] for i in indices], [all_spans[i] for i in indices]
    first, at = spans[0], np.array(indices)
    use = link_of_order[first.order_id]
    way = WAYS[first.phase]
    moved = sum(span.transferred_bytes for span in spans)
    size = float(megabits(moved))
    duration_s = math.fsum(row.duration_s for row in rows)
    rates = {basis: rate_of(size, duration_s) for basis in models}
    rates[ModelBasis.PLACEMENT] = use.throughput_mbit_s
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
        ledger.total("gross", at),
        ledger.total("net", at),
        math.fsum(row.naive_j for row in rows),
        {
            basis: _modelled(done, models[basis], use.link, rows[0], meters.get(first.device, ""))
            for basis, done in work.items()
        },
        tuple(indices),
    )


def _work(way: Way, size_mbit: float, mbit_s: float, sent_mbit: float) -> RadioWork:
    """An exchange's radio is on once for both directions; `mbit_s` is of both together."""
    if way == "exchange":
        return RadioWork(sent_mbit, size_mbit - sent_mbit, size_mbit / mbit_s)
    return RadioWork.of(size_mbit, mbit_s, way)


def _modelled(work: RadioWork, model: LinkModel, link: str, row: LedgerRow, meter: str) -> Energy:
    """Eq. 1 with the errors of its parameters. A set fitted on one board is independent of the others; one
    error of gain is in all link classes of a model, or is that of the meter that measured `row`."""
    known, own = model.of(link, row.device), row.device in model.devices
    fitted_on = row.device if own else link if link in model.links else ANY
    energy = work.energy(known, f"{model.name}, {fitted_on}")
    if meter and known.meter == meter:
        return energy.with_terms(*row.gain_terms(energy.joules))
    source = f"gain of {model.name}" + f", {row.device}" * own
    return energy.with_terms((UncertaintyPart.MODEL, source, known.u_gain * energy.joules))


def _knows(model: LinkModel, link: str, device: str) -> bool:
    return link in model.links or ANY in model.links or device in model.devices
