"""Tables about joules: Table 10, whole runs, phases, boards."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from roambench.energy.fit_check import TENTHS
from roambench.energy.ledger import Kind
from roambench.energy.table10 import MeanSd, Table10
from roambench.report import numbers
from roambench.report.energy_summary import EnergySummary
from roambench.report.numbers import NONE
from roambench.report.summary import RunSummary, improvements, reference_of, without
from roambench.report.table import Table

#: Row of Table 10: its key in `Table10.headline`, its name, and how a run's cell reads.
_TABLE10: tuple[tuple[str, str, Callable[[Table10], str]], ...] = (
    ("cumulative_wasted_j", "cumulative, wasted", lambda t: numbers.energy(t.cumulative_wasted, zero="0 J")),
    (
        "cumulative_consumed_j",
        "cumulative, consumed",
        lambda t: numbers.energy(t.cumulative_consumed, zero="0 J"),
    ),
    ("per_training_wasted_j", "per device-training, wasted", lambda t: _mean(t.per_training_wasted)),
    ("per_training_consumed_j", "per device-training, consumed", lambda t: _mean(t.per_training_consumed)),
    ("per_board_wasted_j", "per board, wasted", lambda t: _mean(t.per_board_wasted)),
    ("per_board_consumed_j", "per board, consumed", lambda t: _mean(t.per_board_consumed)),
    ("per_round_wasted_j", "per round, wasted", lambda t: _mean(t.per_round_wasted)),
    ("per_round_consumed_j", "per round, consumed", lambda t: _mean(t.per_round_consumed)),
)


def table10_table(runs: Sequence[RunSummary], kind: Kind) -> Table:
    """MOHAWK's Table 10 with a factor column behind every run that is not the reference."""
    reference = reference_of(runs)
    factors = improvements(runs)
    head = [""]
    for run in runs:
        head.append(run.label)
        if run.label in factors:
            head.append(f"÷ {reference.label}")
    rows = []
    for key, name, cell in _TABLE10:
        row = [name]
        for run in runs:
            measured = run.measured
            row.append(NONE if measured is None else cell(_of_kind(measured, kind)))
            if run.label in factors:
                row.append(numbers.factor(factors[run.label][kind][key]))
        rows.append(tuple(row))
    rows.append(_single(runs, factors, "wasted share", lambda t: numbers.percent(_share(t)), kind))
    rows.append(_single(runs, factors, "rounds without a training", lambda t: str(t.empty_rounds), kind))
    meaning = (
        "Gross: all the board drew during download, training and upload, its idle power included."
        if kind == "gross"
        else "Net: what download, training and upload drew above the board's own idle power."
    )
    return Table(
        f"table10-{kind}",
        f"Wasted and consumed energy, {kind} (the rows of MOHAWK's Table 10)",
        f"{meaning} Cumulative values ± expanded uncertainty (k = 2); the others mean ± standard deviation. "
        "Idling, absence and waiting are not part of it; rounds without a training are left out."
        + without(runs),
        tuple(head),
        tuple(rows),
    )


def whole_run_table(runs: Sequence[RunSummary]) -> Table:
    """Everything the meters saw, and how near it is to the truth where that is known."""

    def cell(value: Callable[[EnergySummary], str]) -> tuple[str, ...]:
        return tuple(NONE if run.measured is None else value(run.measured) for run in runs)

    def truth(energy: EnergySummary, kind: str) -> str:
        if energy.truth is None:
            return NONE
        return (
            numbers.joules(energy.truth.true_j) if kind == "j" else numbers.signed_percent(energy.truth.error)
        )

    rows = [
        ("all boards, gross", *cell(lambda e: numbers.energy(e.whole_run))),
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
    return Table(
        "whole-run",
        "Whole-run energy",
        "Trapezoid over all readings of all boards, idle time included, ± expanded uncertainty (k = 2) of "
        "meters and sampling. Time without readings holds no joules. Board-seconds of device time. The truth "
        "of emulated boards never passes through a sensor and is taken over the same measured time."
        + "".join(f" Of each board's power {cost}." for cost in costs)
        + without(runs),
        ("", *(run.label for run in runs)),
        tuple(rows),
    )


def board_table(run: RunSummary) -> Table:
    """One line per board."""
    rows = [
        (
            board.device,
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
            (f"{board.offsets} of {TENTHS}" if board.offsets else NONE)
            + (", locked" if board.locked else ""),
            numbers.signed_percent(board.truth.error if board.truth else None),
        )
        for board in (run.energy.boards if run.energy else ())
    ]
    return Table(
        f"boards-{run.label}",
        f"{run.label}: boards",
        "Whole run ± k = 2: gross is idle plus net. Consumed and wasted are of download, training and upload "
        "(gross). Lost: time in which the agent was down and nobody stamped what the board did. Offsets: in "
        "how many tenths of the meter's period phases began, of the kind with the fewest; where one has few, "
        "the same part of it was seen again and again.",
        (
            "board",
            "gross",
            "idle",
            "net",
            "coverage",
            "gap",
            "lost",
            "idle power",
            "consumed",
            "wasted",
            "readings",
            "inconsistent",
            "offsets",
            "against truth",
        ),
        tuple(rows),
    )


def _of_kind(energy: EnergySummary, kind: Kind) -> Table10:
    return energy.gross if kind == "gross" else energy.net


def _single(
    runs: Sequence[RunSummary],
    factors: dict[str, dict[str, dict[str, float]]],
    name: str,
    cell: Callable[[Table10], str],
    kind: Kind,
) -> tuple[str, ...]:
    row = [name]
    for run in runs:
        row.append(NONE if run.measured is None else cell(_of_kind(run.measured, kind)))
        if run.label in factors:
            row.append("")
    return tuple(row)


def _share(table: Table10) -> float:
    consumed = table.cumulative_consumed.joules
    return table.cumulative_wasted.joules / consumed if consumed > 0.0 else math.nan


def _mean(value: MeanSd) -> str:
    return numbers.mean_sd(value)
