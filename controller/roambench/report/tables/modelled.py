"""Tables of modelled joules, for runs that no meter saw. Never beside measured ones in one table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final

from roambench.energy.ledger import Kind
from roambench.report import numbers
from roambench.report.numbers import NONE
from roambench.report.summaries.modelled import ModelledSummary
from roambench.report.summaries.run import RunSummary, reference_of
from roambench.report.table import ReportTable
from roambench.report.tables.energy import table10_rows

#: Keys of the tables in reading order.
KEYS: Final = ("modelled-threshold", "modelled-table10-gross", "modelled-table10-net", "modelled-phases")


def modelled_tables(runs: Sequence[RunSummary]) -> list[ReportTable]:
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


Found = Sequence[tuple[RunSummary, ModelledSummary]]


def _threshold_table(found: Found) -> ReportTable:
    reference = reference_of([run for run, _ in found])
    base = next(modelled for run, modelled in found if run is reference).to_threshold.joules_per_client
    rows = []
    for run, modelled in found:
        until = modelled.to_threshold
        ratio = until.joules_per_client / base if base > 0.0 else math.nan
        rows.append(
            (
                run.label,
                NONE if (wanted := run.learning.threshold) is None else run.learning.metric.wanted(wanted),
                f"{until.rounds:,}" if until.reached else f"not in {until.rounds:,}",
                numbers.joules(until.joules_per_client),
                numbers.factor(ratio),
                numbers.joules(until.joules_per_participant),
                numbers.joules(until.total_j),
                f"{until.transfers:,}",
                numbers.number(run.learning.aggregated_per_step),
                NONE if run.made_up_places else numbers.number(until.mean_distance_m / 1000.0, 2),
            )
        )
    return ReportTable(
        "modelled-threshold",
        "Modelled communication energy to the threshold (the quantity of MOHAWK's Table 6)",
        "Modelled, not measured. Eq. 1 on the radio's part alone. Per client: sum over the rounds of each "
        "round's mean over the devices whose model was aggregated in it, the download of that training and "
        "the upload. Per participant: the mean over all that sent or received anything in the round, those "
        "too that only downloaded. A run that did not reach the threshold tells all its rounds. "
        f"Ratios to {reference.label}. Aggregated: devices per step over the whole run; km: mean "
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


def _table10_table(found: Found, kind: Kind) -> ReportTable:
    tables = [(run.label, modelled.gross if kind == "gross" else modelled.net) for run, modelled in found]
    head, rows = table10_rows(tables, reference_of([run for run, _ in found]).label)
    meaning = (
        "Gross: with the assumed idle power of the devices during download, training and upload."
        if kind == "gross"
        else "Net: the radio's energy by Eq. 1 and what training is assumed to draw above idle."
    )
    return ReportTable(
        f"modelled-table10-{kind}",
        f"Modelled energy wasted and used for learning, {kind} (the rows of MOHAWK's Table 10)",
        f"Modelled, not measured. {meaning} MOHAWK says consumed. Means over trainings, devices or rounds "
        "have their standard deviation (sd); ± is 2 u of the link model, where it tells one. "
        + _assumptions(found),
        head,
        tuple(rows),
    )


def _phase_table(found: Found) -> ReportTable:
    rows = [
        (
            run.label,
            item.phase.value,
            f"{item.count:,}",
            numbers.seconds(item.duration_s),
            f"{item.transferred_bytes / 1e6:,.2f}" if item.transferred_bytes else NONE,
            numbers.energy(item.gross, zero="0 J"),
            numbers.joules(item.idle_j),
            numbers.energy(item.net, zero="0 J"),
        )
        for run, modelled in found
        for item in modelled.phases
    ]
    return ReportTable(
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
        by_watts = [(f"{number} ", watts) for watts, number in Counter(power.watts).items()]
        draws = ", ".join(
            f"{number}devices draw {idle_w:g} W idle and {train_w:g} W more in training"
            for number, (idle_w, train_w) in by_watts or [("", (power.idle_w, power.train_w))]
        )
        texts.append(
            f"Link model {modelled.link_model} at {rate}; {draws}, each within {power.spread:.0%} of that."
        )
    return " ".join(dict.fromkeys(texts))
