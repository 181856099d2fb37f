"""Tables about transfers: what the meters saw of them, and measured beside modelled joules."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from roambench.energy.comparison.comparison import ComparisonTotal, TransferComparison
from roambench.energy.comparison.transfer import ModelBasis, Transfer
from roambench.energy.comparison.verdict import ratio_text
from roambench.energy.energy_value import Energy
from roambench.energy.links.radio_work import Modelled
from roambench.energy.links.throughput import Direction
from roambench.report import numbers
from roambench.report.numbers import NONE
from roambench.report.summaries.run import RunSummary, boards_left_out
from roambench.report.table import ReportTable
from roambench.report.tables.phases import TRUTH_MEANING

#: More transfers than this are for the JSON document.
MOST_TRANSFERS: Final = 2000


def communication_tables(runs: Sequence[RunSummary]) -> list[ReportTable]:
    """Tables of the transfers as measured, and beside Eq. 1, by link and direction; [] if there are none."""
    tables = []
    if any(True for _ in _compared(runs)):
        tables += [_measured_table(runs), _against_model_table(runs)]
    logged = [
        run
        for run in runs
        if run.comparison is None and run.modelled is None and any(run.modelled_from_log_j.values())
    ]
    if logged:
        tables.append(_logged_table(logged))
    return tables


def device_comparison_table(run: RunSummary) -> ReportTable | None:
    """Measured beside modelled for every board, link and direction; None without transfers."""
    comparison = run.comparison
    if comparison is None:
        return None
    basis = leading_basis(comparison)
    rows = [
        (
            device,
            f"{link} {direction}",
            _count(part),
            numbers.seconds(part.duration_s),
            numbers.number(part.achieved_mbit_s, 1),
            *_against(part, basis),
            part.verdict(basis).remark,
        )
        for (device, link, direction), part in comparison.by_device().items()
    ]
    return ReportTable(
        f"compare-devices-{run.label}",
        f"{run.label}: transfers by board",
        f"Net of idle, ± k = 2. Modelled: {basis_name(basis, run)}. z-score: measured minus modelled "
        "in standard uncertainties of the difference.",
        ("board", "link", "transfers", "time", "Mbit/s", *_AGAINST_HEAD, "verdict"),
        tuple(rows),
        numeric_from=2,
        text_from=9,
    )


def transfer_table(run: RunSummary) -> ReportTable | None:
    """Every single transfer; None without any."""
    comparison = run.comparison
    if comparison is None:
        return None
    bases = comparison.bases
    rows = [
        (
            item.device,
            item.order_id,
            f"{item.link} {item.direction}",
            _megabytes(item.transferred_bytes),
            f"{item.duration_s:.2f} s",
            numbers.number(item.achieved_mbit_s, 2),
            numbers.energy(item.net, zero="0 J"),
            *(_modelled(item.modelled.get(basis)) for basis in bases),
            _residual(item.residual_u(bases[-1] if ModelBasis.NAMED in bases else ModelBasis.ACTUAL)),
            _doubt(item),
        )
        for item in comparison.transfers[:MOST_TRANSFERS]
    ]
    left = len(comparison.transfers) - len(rows)
    return ReportTable(
        f"compare-transfers-{run.label}",
        f"{run.label}: every transfer",
        "Net of idle, ± k = 2. The transfers of a board share the errors of its gain and of its idle power; "
        "the sums above know that." + (f" {left:,} more transfers are in the JSON document." if left else ""),
        (
            "board",
            "order",
            "link",
            "MB",
            "time",
            "Mbit/s",
            "measured (net)",
            *(basis_name(basis, run) for basis in bases),
            "z-score",
            "doubt",
        ),
        tuple(rows),
        numeric_from=3,
        text_from=8 + len(bases),
    )


def leading_basis(comparison: TransferComparison) -> ModelBasis:
    """The basis that single boards and figures are held against first: the named model, else Eq. 1 at the
    real rate."""
    return ModelBasis.NAMED if ModelBasis.NAMED in comparison.bases else ModelBasis.ACTUAL


def basis_name(basis: ModelBasis, run: RunSummary) -> str:
    """The heading of a basis of comparison."""
    match basis:
        case ModelBasis.ACTUAL:
            return "Eq. 1, real rate"
        case ModelBasis.PLACEMENT:
            return "Eq. 1, Eq. 2's rate"
        case ModelBasis.NAMED:
            return f"{run.link_model}, real rate"


_DIRECTION: Final[dict[Direction, str]] = {"down": "download", "up": "upload"}
_AGAINST_HEAD = ("measured (net)", "modelled", "measured ÷ modelled", "z-score")


def classes_and_total(comparison: TransferComparison) -> Iterator[tuple[str, ComparisonTotal]]:
    """Name and sum of every class ("lte down"), then of everything where there are several classes."""
    classes = comparison.by_class()
    for (link, direction), part in classes.items():
        yield f"{link} {direction}", part
    if len(classes) > 1:
        yield "all", comparison.total


def _compared(runs: Sequence[RunSummary]) -> Iterator[tuple[RunSummary, TransferComparison]]:
    for run in runs:
        if run.comparison is not None:
            yield run, run.comparison


def _measured_table(runs: Sequence[RunSummary]) -> ReportTable:
    rows = []
    known = any(comparison.true_net_j is not None for _, comparison in _compared(runs))
    for run, comparison in _compared(runs):
        for name, part in classes_and_total(comparison):
            idle = Energy(part.gross.joules - part.net.joules, 0.0, part.net.covered_s)
            rows.append(
                (
                    run.label,
                    name,
                    _count(part),
                    _megabytes(part.transferred_bytes),
                    numbers.seconds(part.duration_s),
                    numbers.number(part.achieved_mbit_s, 1),
                    numbers.energy(part.gross, zero="0 J"),
                    numbers.joules(idle.joules),
                    numbers.energy(part.net, zero="0 J"),
                    numbers.joules(part.naive_gross_j),
                    *_truth(part, known),
                )
            )
    return ReportTable(
        "transfers",
        "Transfers as the meters saw them",
        "Sums over all boards of the transfers seen in full. Gross is idle plus net, ± k = 2. Uncorrected: "
        "the trapezoid cut at the borders of phases, biased; for comparison only. Mbit/s: all bits by all "
        "seconds. What a radio draws after its last byte (its tail) counts to the transfer."
        + (f" {TRUTH_MEANING}" if known else "")
        + boards_left_out(runs),
        (
            "run",
            "link",
            "transfers",
            "MB",
            "time",
            "Mbit/s",
            "gross",
            "idle",
            "net",
            "uncorrected (gross)",
            *(("true net", "against truth") if known else ()),
        ),
        tuple(rows),
        numeric_from=2,
    )


def _truth(part: ComparisonTotal, known: bool) -> tuple[str, ...]:
    """The true net energy of a sum and how far the measured one is from it; () where no run knows it."""
    if not known:
        return ()
    if not math.isfinite(part.true_net_j):
        return NONE, NONE
    u_j = part.net.u_joules
    return numbers.joules(part.true_net_j), numbers.against_truth(part.net.joules, u_j, part.true_net_j)


def _against_model_table(runs: Sequence[RunSummary]) -> ReportTable:
    rows = [
        (
            run.label,
            name,
            basis_name(basis, run),
            *_against(part, basis),
            part.verdict(basis).remark,
        )
        for run, comparison in _compared(runs)
        for name, part in classes_and_total(comparison)
        for basis in comparison.bases or (ModelBasis.ACTUAL,)
    ]
    return ReportTable(
        "communication",
        "Communication energy: measured against modelled",
        "Measured: net of idle, ± k = 2. Modelled: Eq. 1 on the bytes really sent, with the parameters of a "
        "phone's LTE or Wi-Fi (Huang et al. 2012, granted the 6 % error they state), at the throughput that "
        "really was and at the one Eq. 2 gives the placement's distance. z-score: measured minus modelled "
        "in standard uncertainties of the difference. A board's radio is not a phone's: the ratio is the "
        "finding." + boards_left_out(runs),
        ("run", "link", "model", *_AGAINST_HEAD, "verdict"),
        tuple(rows),
        numeric_from=3,
        text_from=7,
    )


def _logged_table(runs: Sequence[RunSummary]) -> ReportTable:
    rows = [
        (run.label, name, numbers.joules(run.modelled_from_log_j[direction]))
        for run in runs
        for direction, name in _DIRECTION.items()
    ]
    return ReportTable(
        "modelled",
        "Modelled communication energy of runs that no meter saw",
        "Eq. 1 with Eq. 2's throughput over every transfer that the event log says was done.",
        ("run", "direction", "modelled"),
        tuple(rows),
        numeric_from=2,
    )


def _against(part: ComparisonTotal, basis: ModelBasis) -> tuple[str, str, str, str]:
    """Measured, modelled, ratio and residual as they read."""
    ratio = part.ratio(basis)
    return (
        numbers.energy(part.net, zero="0 J"),
        _modelled(part.modelled.get(basis)),
        ratio_text(ratio, part.u_ratio(basis)) if math.isfinite(ratio) else NONE,
        _residual(part.residual_u(basis)),
    )


def _modelled(value: Modelled | None) -> str:
    if value is None:
        return NONE
    return numbers.energy(Energy(value.joules, value.u_joules, 1.0))


def _residual(value: float) -> str:
    if not math.isfinite(value):
        return NONE
    # Beyond this it only says how sure the model claims to be.
    return f"{value:+.1f} u" if abs(value) < 100.0 else f"beyond {math.copysign(100.0, value):+.0f} u"


def _count(part: ComparisonTotal) -> str:
    return f"{part.transfers:,}" + (f" (+{part.left_out:,} not seen in full)" if part.left_out else "")


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.2f}"


def _doubt(item: Transfer) -> str:
    doubts: Iterable[str] = (*(() if item.seen else ("not seen in full",)),)
    return ", ".join(doubts)
