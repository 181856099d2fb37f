"""Tables about transfers: what the meters saw of them, and measured beside modelled joules."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from roambench.energy.comparison.comparison import ComparisonTotal, TransferComparison
from roambench.energy.comparison.transfer import MeasuredAndModelled, ModelBasis
from roambench.energy.energy_value import Energy
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
        (f"{device} {link} {direction}", *_against(part, basis))
        for (device, link, direction), part in comparison.by_device().items()
    ]
    return ReportTable(
        f"compare-devices-{run.label}",
        f"{run.label}: transfers by board",
        f"Net of idle, ± k = 2. Modelled: {basis_name(basis, run)}.{_exact_note([run])} {_RULE}",
        ("board", *_AGAINST_HEAD),
        tuple(rows),
        text_from=7,
    )


def transfer_table(run: RunSummary) -> ReportTable | None:
    """Every single transfer; None without any."""
    comparison = run.comparison
    if comparison is None:
        return None
    bases, basis = comparison.bases, leading_basis(comparison)
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
            _ratio(item, basis),
            item.verdict(basis).remark,
        )
        for item in comparison.transfers[:MOST_TRANSFERS]
    ]
    left = len(comparison.transfers) - len(rows)
    return ReportTable(
        f"compare-transfers-{run.label}",
        f"{run.label}: every transfer",
        f"Net of idle, ± k = 2; the verdict is on {basis_name(basis, run)}. The transfers of a board share "
        "the errors of its gain and of its idle power; the sums above know that."
        + (f" {left:,} more transfers are in the JSON document." if left else ""),
        (
            "board",
            "order",
            "link",
            "MB",
            "time",
            "Mbit/s",
            "measured (net)",
            *(basis_name(basis, run) for basis in bases),
            "measured ÷ modelled",
            "verdict",
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
_AGAINST_HEAD: Final = (
    "transfers",
    "MB",
    "MB/s",
    "measured, J/MB",
    "modelled, J/MB",
    "measured ÷ modelled",
    "verdict",
)
_RULE: Final = (
    "The interval (95 %) behind measured ÷ modelled has the errors of meters and model in it, and it alone "
    "decides. All below 1: the model overstates. All above 1: it understates. 1 is in it, and neither 0.5 "
    "nor 2: it agrees. Otherwise nothing is resolved."
)


def are_several(runs: Sequence[RunSummary]) -> bool:
    """Say whether rows must name their run."""
    return sum(run.comparison is not None for run in runs) > 1


def row_name(run: RunSummary, kind: str, several: bool, basis: ModelBasis | None = None) -> str:
    """The name of a sum of transfers in tables and figures, beside a model or alone."""
    name = f"{run.label} {kind}" if several else kind
    return name if basis is None else f"{name}: {basis_name(basis, run)}"


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
                    row_name(run, name, are_several(runs)),
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
        (row_name(run, name, are_several(runs), basis), *_against(part, basis))
        for run, comparison in _compared(runs)
        for name, part in classes_and_total(comparison)
        for basis in comparison.bases or (ModelBasis.ACTUAL,)
    ]
    return ReportTable(
        "communication",
        "Communication energy: measured against modelled",
        "Measured: net of idle, ± k = 2. MB/s: all bytes by all seconds of transfers. Modelled: Eq. 1 on the "
        "bytes really sent, with the parameters of a phone's LTE or Wi-Fi (Huang et al. 2012, granted the "
        "6 % error they state), at the throughput that really was and at the one Eq. 2 gives the placement's "
        "distance."
        f"{_exact_note(runs)} {_RULE} A board's radio is not a phone's: the ratio is the finding."
        + boards_left_out(runs),
        ("link: model", *_AGAINST_HEAD),
        tuple(rows),
        text_from=7,
    )


def stated_exact(run: RunSummary, basis: ModelBasis) -> bool:
    """Say whether a model has no uncertainty, so that intervals are those of the meters alone."""
    part = None if run.comparison is None else run.comparison.total
    return part is not None and basis in part.modelled and not part.modelled[basis].u_joules


def _exact_note(runs: Sequence[RunSummary]) -> str:
    found = {
        basis_name(basis, run)
        for run, comparison in _compared(runs)
        for basis in comparison.bases
        if stated_exact(run, basis)
    }
    if not found:
        return ""
    names = ", ".join(sorted(found))
    return f" {names}: constants stated without an error, so the interval has the meters' alone."


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


def _against(part: ComparisonTotal, basis: ModelBasis) -> tuple[str, ...]:
    """The cells of _AGAINST_HEAD."""
    rate_mb_s = part.achieved_mbit_s / 8.0
    return (
        _count(part),
        _megabytes(part.transferred_bytes),
        f"{rate_mb_s:.3g}" if math.isfinite(rate_mb_s) else NONE,
        numbers.with_u(*part.per_megabyte(part.net)),
        numbers.with_u(*part.per_megabyte(part.modelled.get(basis))),
        _ratio(part, basis),
        part.verdict(basis).remark,
    )


def _ratio(part: MeasuredAndModelled, basis: ModelBasis) -> str:
    ratio = part.ratio(basis)
    return str(ratio) if math.isfinite(ratio.value) else NONE


def _modelled(value: Energy | None) -> str:
    return NONE if value is None else numbers.energy(value, zero="0 J")


def _count(part: ComparisonTotal) -> str:
    return f"{part.transfers:,}" + (f" (+{part.left_out:,} not seen in full)" if part.left_out else "")


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.2f}"
