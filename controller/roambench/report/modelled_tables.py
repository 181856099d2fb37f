"""Tables of modelled joules, for runs that no meter saw. Never beside measured ones in one table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from roambench.energy.energy_value import Energy
from roambench.energy.ledger import Kind
from roambench.energy.table10 import Table10, improvement
from roambench.report import numbers
from roambench.report.modelled_summary import ModelledSummary
from roambench.report.numbers import NONE
from roambench.report.summary import RunSummary
from roambench.report.table import Table

#: Keys of the tables in reading order.
KEYS: Final = ("modelled-threshold", "modelled-table10-gross", "modelled-table10-net", "modelled-phases")
_ROWS: Final[tuple[tuple[str, str, Callable[[Table10], str]], ...]] = (
    ("cumulative_wasted_j", "cumulative, wasted", lambda t: joules(t.cumulative_wasted)),
    ("cumulative_consumed_j", "cumulative, consumed", lambda t: joules(t.cumulative_consumed)),
    (
        "per_training_wasted_j",
        "per device-training, wasted",
        lambda t: numbers.mean_sd(t.per_training_wasted),
    ),
    (
        "per_training_consumed_j",
        "per device-training, consumed",
        lambda t: numbers.mean_sd(t.per_training_consumed),
    ),
    ("per_board_wasted_j", "per device, wasted", lambda t: numbers.mean_sd(t.per_board_wasted)),
    ("per_board_consumed_j", "per device, consumed", lambda t: numbers.mean_sd(t.per_board_consumed)),
    ("per_round_wasted_j", "per round, wasted", lambda t: numbers.mean_sd(t.per_round_wasted)),
    ("per_round_consumed_j", "per round, consumed", lambda t: numbers.mean_sd(t.per_round_consumed)),
)


def modelled_tables(runs: Sequence[RunSummary]) -> list[Table]:
    """All tables over the runs on virtual devices; [] if there is none."""
    found = [(run, run.modelled) for run in runs if run.modelled is not None]
    if not found:
        return []
    return [
        _threshold_table(found),
        _table10_table(found, "gross"),
        _table10_table(found, "net"),
        _phase_table(found),
    ]


def joules(value: Energy) -> str:
    """With ± (k = 2) only where the link model tells an uncertainty."""
    return numbers.energy(value, zero="0 J") if value.u_joules else numbers.joules(value.joules)


Found = Sequence[tuple[RunSummary, ModelledSummary]]


def _reference(found: Found) -> tuple[RunSummary, ModelledSummary]:
    return next((pair for pair in found if pair[0].info.system.startswith("mohawk")), found[0])


def _threshold_table(found: Found) -> Table:
    base = _reference(found)[1].to_threshold.joules_per_client
    rows = []
    for run, modelled in found:
        until = modelled.to_threshold
        ratio = until.joules_per_client / base if base > 0.0 else math.nan
        rows.append(
            (
                run.label,
                f"{100.0 * run.learning.threshold:g} %",
                f"{until.rounds:,}" if until.reached else f"not in {until.rounds:,}",
                numbers.joules(until.joules_per_client),
                numbers.factor(ratio),
                numbers.joules(until.joules_per_participant),
                numbers.joules(until.total_j),
                f"{until.transfers:,}",
                numbers.number(run.learning.aggregated_per_step),
                numbers.number(until.mean_distance_m / 1000.0, 2),
            )
        )
    return Table(
        "modelled-threshold",
        "Modelled communication energy to the threshold (the quantity of MOHAWK's Table 6)",
        "Modelled, not measured. Eq. 1 on the radio's part alone. Per client: sum over the rounds of each "
        "round's mean over the devices whose model was aggregated in it, the download of that training and "
        "the upload. Per participant: the mean over all that sent or received anything in the round, those "
        "too that only downloaded. A run that did not reach the threshold tells all its rounds. "
        f"Ratios to {_reference(found)[0].label}. Aggregated: devices per step over the whole run; km: mean "
        "length of the links used.",
        (
            "run",
            "threshold",
            "rounds",
            "J per client",
            "ratio",
            "J per participant",
            "all devices",
            "transfers",
            "aggregated per step",
            "km",
        ),
        tuple(rows),
    )


def _table10_table(found: Found, kind: Kind) -> Table:
    reference, base = _reference(found)
    head = [""]
    columns: list[tuple[Table10, dict[str, float] | None]] = []
    for run, modelled in found:
        table = _of_kind(modelled, kind)
        head.append(run.label)
        if run is reference:
            columns.append((table, None))
        else:
            head.append(f"÷ {reference.label}")
            columns.append((table, improvement(table, _of_kind(base, kind))))
    rows = []
    for key, name, cell in _ROWS:
        row = [name]
        for table, factors in columns:
            row.append(cell(table))
            if factors is not None:
                row.append(numbers.factor(factors[key]))
        rows.append(tuple(row))
    share = ["wasted share"]
    for table, factors in columns:
        consumed = table.cumulative_consumed.joules
        share.append(numbers.percent(table.cumulative_wasted.joules / consumed if consumed > 0.0 else None))
        if factors is not None:
            share.append("")
    rows.append(tuple(share))
    meaning = (
        "Gross: with the assumed idle power of the devices during download, training and upload."
        if kind == "gross"
        else "Net: the radio's energy by Eq. 1 and what training is assumed to draw above idle."
    )
    return Table(
        f"modelled-table10-{kind}",
        f"Modelled wasted and consumed energy, {kind} (the rows of MOHAWK's Table 10)",
        f"Modelled, not measured. {meaning} Mean ± standard deviation over trainings, devices or rounds; on "
        "cumulative values ± is the link model's uncertainty (k = 2), where it tells one. "
        + _assumptions(found),
        tuple(head),
        tuple(rows),
    )


def _phase_table(found: Found) -> Table:
    rows = [
        (
            run.label,
            item.phase.value,
            f"{item.count:,}",
            numbers.seconds(item.duration_s),
            f"{item.transferred_bytes / 1e6:,.2f}" if item.transferred_bytes else NONE,
            joules(item.gross),
            numbers.joules(item.idle_j),
            joules(item.net),
        )
        for run, modelled in found
        for item in modelled.phases
    ]
    return Table(
        "modelled-phases",
        "Modelled energy by phase",
        f"Modelled, not measured. Gross is idle plus net. {_assumptions(found)}",
        ("run", "phase", "count", "device time", "MB", "gross", "idle", "net"),
        tuple(rows),
        numeric_from=2,
    )


def _assumptions(found: Found) -> str:
    """With what it was modelled, once for all runs that were modelled alike."""
    texts = []
    for _, modelled in found:
        power = modelled.power
        rate = "Eq. 2's throughput" if modelled.rate == "distance" else "the simulated throughput"
        texts.append(
            f"Link model {modelled.link_model} at {rate}; devices draw {power.idle_w:g} W idle and "
            f"{power.train_w:g} W more in training, each within ± {power.spread:.0%}."
        )
    return " ".join(dict.fromkeys(texts))


def _of_kind(modelled: ModelledSummary, kind: Kind) -> Table10:
    return modelled.gross if kind == "gross" else modelled.net
