"""Tables about joules: Table 10, whole runs, phases, boards."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from roambench.energy.energy_value import Energy, told_from_zero
from roambench.energy.ledger import Kind
from roambench.report import numbers
from roambench.report.joule_names import BOARDS_IDLING_TOO, LEARNING, WASTED, in_all
from roambench.report.numbers import NONE
from roambench.report.summaries.energy import EnergySummary
from roambench.report.summaries.run import RunSummary, boards_left_out, reference_of, scope_of
from roambench.report.table import ReportTable
from roambench.report.table10 import TITLES, Table10, basis_of, factors_between

Row = tuple[str, ...]


def table10_rows(runs: Sequence[tuple[str, Table10 | None]], reference: str) -> tuple[Row, list[Row]]:
    """Head and rows of Table 10 of runs by label, None where one has none, with a factor column behind every
    run that is not the `reference`. ValueError for measured runs beside modelled ones."""
    basis = basis_of([table for _, table in runs if table is not None])
    base = dict(runs)[reference]
    factors = {
        label: factors_between(table, base)
        for label, table in runs
        if table is not None and base is not None and label != reference
    }

    def row(name: str, cell: Callable[[Table10], str], key: str = "") -> Row:
        cells = [name]
        for label, table in runs:
            cells.append(NONE if table is None else cell(table))
            if label in factors:
                cells.append(numbers.factor(factors[label][key]) if key else "")
        return tuple(cells)

    head = [""]
    for label, _ in runs:
        head += [label, f"ratio to {reference}"] if label in factors else [label]
    board = "board" if basis == "measured" else "device"
    failed = any(table is not None and table.cumulative_failed.joules for _, table in runs)
    names = [name for name in TITLES if failed or name != "cumulative_failed"]
    rows = [
        *(
            row(
                TITLES[name].format(board=board),
                partial(_cell, name),
                "" if name == "cumulative_failed" else f"{name}_j",
            )
            for name in names
        ),
        row("wasted share", lambda t: numbers.percent(_share(t))),
    ]
    if basis == "measured":
        rows.append(row("rounds without a training", lambda t: str(t.empty_rounds)))
    return tuple(head), rows


def table10_table(runs: Sequence[RunSummary], kind: Kind) -> ReportTable:
    """MOHAWK's Table 10 of measured runs."""
    tables = [(run.label, None if run.measured is None else _of_kind(run.measured, kind)) for run in runs]
    head, rows = table10_rows(tables, reference_of(runs).label)
    meaning = (
        "Gross: all the board drew during download, training and upload, its idle power included."
        if kind == "gross"
        else "Net: what download, training and upload drew above the board's own idle power."
    )
    scope = scope_of(runs)
    of = f" of the {scope}" if scope else ""
    return ReportTable(
        f"table10-{kind}",
        f"Energy{of} wasted and used for learning, {kind} (the rows of MOHAWK's Table 10)",
        f"{meaning} MOHAWK says consumed. ± is 2 u; the others are means, with their standard deviation "
        "(sd). Idling, absence and waiting are not part of it; rounds without a training are left out."
        + boards_left_out(runs),
        head,
        tuple(rows),
    )


def whole_run_table(runs: Sequence[RunSummary]) -> ReportTable:
    """Everything the meters saw, and how near it is to the truth where that is known."""

    def cell(value: Callable[[EnergySummary], str]) -> tuple[str, ...]:
        return tuple(NONE if run.measured is None else value(run.measured) for run in runs)

    def truth(energy: EnergySummary, kind: str) -> str:
        if energy.truth is None:
            return NONE
        return (
            numbers.joules(energy.truth.true_j) if kind == "j" else numbers.signed_percent(energy.truth.error)
        )

    scope = scope_of(runs)
    rows = [
        (f"{in_all(BOARDS_IDLING_TOO, scope)} (gross)", *cell(lambda e: numbers.energy(e.whole_run))),
        ("of it idle", *cell(lambda e: numbers.joules(e.whole_run.joules - e.whole_run_net.joules))),
        ("net of idle", *cell(lambda e: numbers.energy(e.whole_run_net, zero="0 J"))),
        ("mean power per board", *cell(lambda e: f"{e.whole_run.mean_w:.3f} W")),
        ("measured time", *cell(lambda e: numbers.seconds(e.whole_run.covered_s))),
        ("not measured", *cell(lambda e: numbers.seconds(e.whole_run.gap_s))),
        ("coverage", *cell(lambda e: numbers.percent(e.whole_run.coverage, 2))),
    ]
    if any(run.measured and run.measured.truth for run in runs):
        rows.append(("true energy of the emulated boards", *cell(lambda e: truth(e, "j"))))
        rows.append(("measured against true", *cell(lambda e: truth(e, "%"))))
    costs = dict.fromkeys(run.instrument.sentence for run in runs if run.instrument is not None)
    return ReportTable(
        "whole-run",
        f"Energy of the {scope} in all" if scope else "Energy of boards in all",
        "Trapezoid over all readings of all boards, idle time included; ± is 2 u of meters and "
        "sampling. Time without readings counts no energy. Board-seconds of device time. The "
        "truth of emulated boards never passes through a sensor and is taken over the same measured time."
        + "".join(f" Of each board's power {cost}." for cost in costs)
        + _own_reading(runs)
        + boards_left_out(runs),
        ("", *(run.label for run in runs)),
        tuple(rows),
    )


def _own_reading(runs: Sequence[RunSummary]) -> str:
    """The cost that boards which measure themselves pay for it."""
    costs = [(run.label, run.measured.reading_w) for run in runs if run.measured and run.measured.reading_w]
    return "".join(
        f" {label}: boards read their own sensors, which costs each about {1e3 * watts:.1f} mW."
        for label, watts in costs
    )


def board_table(run: RunSummary) -> ReportTable:
    """One line per board."""
    boards = run.energy.boards if run.energy else ()
    sited = any(board.site for board in boards)
    rows = [
        (
            board.device,
            *([board.site or "whole board"] if sited else []),
            numbers.energy(board.whole_run),
            numbers.joules(board.whole_run.joules - board.net.joules) if board.whole_run.covered_s else NONE,
            numbers.energy(board.net),
            numbers.percent(board.whole_run.coverage, 2),
            numbers.seconds(board.whole_run.gap_s),
            numbers.seconds(board.lost_s),
            f"{board.idle_w:.3f} W" if board.idle_w is not None else NONE,
            numbers.joules(board.consumed.joules) if board.whole_run.covered_s else NONE,
            numbers.joules(board.wasted.joules) if board.whole_run.covered_s else NONE,
            f"{board.readings:,}",
            str(board.inconsistent),
            numbers.signed_percent(board.truth.error if board.truth else None),
        )
        for board in boards
    ]
    return ReportTable(
        f"boards-{run.label}",
        f"{run.label}: boards",
        "± is 2 u; gross is idle plus net. Used for learning and wasted are of download, training and upload "
        "(gross). Lost: time in which the agent was down and did not stamp what the board did.",
        (
            "board",
            *(["measured"] if sited else []),
            "gross",
            "idle",
            "net",
            "coverage",
            "gap",
            "lost",
            "idle power",
            LEARNING,
            WASTED,
            "readings",
            "inconsistent",
            "against truth",
        ),
        tuple(rows),
    )


def _of_kind(energy: EnergySummary, kind: Kind) -> Table10:
    return energy.gross if kind == "gross" else energy.net


def _cell(name: str, table: Table10) -> str:
    found = table.rows()[name]
    return numbers.energy(found, zero="0 J") if isinstance(found, Energy) else numbers.mean_sd(found)


def _share(table: Table10) -> float:
    wasted, consumed = table.cumulative_wasted, table.cumulative_consumed
    known = consumed.joules > 0.0 and told_from_zero(consumed.joules, consumed.u_joules, wasted.joules)
    return wasted.joules / consumed.joules if known else math.nan
