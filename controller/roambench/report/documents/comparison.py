"""Measured against modelled for machines: unknown is NaN (null once written), `u_` is k = 1."""

from __future__ import annotations

from typing import Any

from roambench.energy.comparison.comparison import ComparisonTotal, TransferComparison
from roambench.energy.comparison.transfer import MeasuredAndModelled, ModelBasis, Transfer
from roambench.energy.energy_value import Energy
from roambench.report.tables.uncertainty import PARTS, part_j


def value(energy: Energy) -> dict[str, Any]:
    """`u_joules` is a standard uncertainty (k = 1), `budget_j` the parts that add up to it in quadrature."""
    return {
        "joules": energy.joules,
        "u_joules": energy.u_joules,
        "covered_s": energy.covered_s,
        "gap_s": energy.gap_s,
        "coverage": energy.coverage,
        "budget_j": {name: part_j(energy.budget, field) for name, field in PARTS},
    }


def compared(part: ComparisonTotal) -> dict[str, Any]:
    """A sum of transfers. The flat keys `modelled_j`, `ratio` and `u_ratio` are those of Eq. 1 with Eq. 2."""
    return {
        "transfers": part.transfers,
        "left_out": part.left_out,
        "bytes": part.transferred_bytes,
        "duration_s": part.duration_s,
        **_rates(part),
        "gross": value(part.gross),
        "idle_j": part.gross.joules - part.net.joules,
        "net": value(part.net),
        "naive_gross_j": part.naive_gross_j,
        "measured_net_j": part.net.joules,
        "u_measured_net_j": part.net.u_joules,
        "true_net_j": part.true_net_j,
        "modelled_j": part.modelled_j(ModelBasis.PLACEMENT),
        "ratio": part.ratio(ModelBasis.PLACEMENT).value,
        "u_ratio": part.ratio(ModelBasis.PLACEMENT).u,
        "models": {basis.value: _against(part, basis) for basis in ModelBasis if basis in part.modelled},
    }


def classes(comparison: TransferComparison) -> list[dict[str, Any]]:
    """Sums over all boards by link and direction."""
    return [
        {"link": link, "direction": direction, **compared(part)}
        for (link, direction), part in comparison.by_class().items()
    ]


def devices(comparison: TransferComparison) -> list[dict[str, Any]]:
    """Sums by board, link and direction."""
    return [
        {"device": device, "link": link, "direction": direction, **compared(part)}
        for (device, link, direction), part in comparison.by_device().items()
    ]


def transfer(item: Transfer) -> dict[str, Any]:
    """One transfer."""
    return {
        "device": item.device,
        "link": item.link,
        "direction": item.direction,
        "order_id": item.order_id,
        "train_order_id": item.train_order_id,
        "bytes": item.transferred_bytes,
        "duration_s": item.duration_s,
        "covered_s": item.covered_s,
        **_rates(item),
        "placement_mbit_s": item.placement_mbit_s,
        "in_sums": item.seen,
        "gross_j": item.gross.joules,
        "net_j": item.net.joules,
        "u_net_j": item.net.u_joules,
        "naive_gross_j": item.naive_gross_j,
        "models": {basis.value: _against(item, basis) for basis in item.modelled},
    }


def _rates(part: MeasuredAndModelled) -> dict[str, Any]:
    j_per_mb, u_j_per_mb = part.per_megabyte(part.net)
    return {
        "achieved_mbit_s": part.achieved_mbit_s,
        "achieved_mb_s": part.achieved_mbit_s / 8.0,
        "measured_j_per_mb": j_per_mb,
        "u_measured_j_per_mb": u_j_per_mb,
    }


def _against(part: ComparisonTotal | Transfer, basis: ModelBasis) -> dict[str, Any]:
    verdict, ratio, modelled = part.verdict(basis), part.ratio(basis), part.modelled[basis]
    j_per_mb, u_j_per_mb = part.per_megabyte(modelled)
    return {
        "modelled_j": modelled.joules,
        "u_modelled_j": modelled.u_joules,
        "modelled_j_per_mb": j_per_mb,
        "u_modelled_j_per_mb": u_j_per_mb,
        "ratio": ratio.value,
        "ratio_interval": [ratio.low, ratio.high],
        "u_ratio": ratio.u,
        "residual_u": ratio.residual_u,
        "verdict": verdict.finding.value,
        "sentence": verdict.sentence,
    }
