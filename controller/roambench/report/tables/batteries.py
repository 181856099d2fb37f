"""Tables of batteries: charge by step, and devices that went off."""

from __future__ import annotations

from roambench.report import numbers
from roambench.report.numbers import NONE
from roambench.report.summaries.batteries import BatterySummary, Death
from roambench.report.summaries.run import RunSummary
from roambench.report.table import ReportTable

_ROWS = 10  # of the charge over time


def battery_tables(run: RunSummary) -> list[ReportTable]:
    """Charge over time, and each device that went off; nothing where the run had no batteries."""
    found = run.batteries
    if found is None:
        return []
    tables = [_charge_table(run.label, found)]
    if found.deaths:
        tables.append(
            ReportTable(
                f"deaths-{run.label}",
                f"{run.label}: devices without charge",
                "Absent from the step on, until it is back. Model: what became of one that it held.",
                ("step", "device", "back at", "model"),
                tuple(
                    (
                        str(one.step),
                        one.device,
                        NONE if one.back_step is None else str(one.back_step),
                        _model(one),
                    )
                    for one in found.deaths
                ),
                numeric_from=99,
            )
        )
    return tables


def _model(death: Death) -> str:
    if not death.held:
        return NONE
    return "wasted" if death.lost else "kept"


def _charge_table(label: str, found: BatterySummary) -> ReportTable:
    steps = len(found.mean_charges)
    shown = sorted({round(row * (steps - 1) / (_ROWS - 1)) for row in range(_ROWS)})
    return ReportTable(
        f"charge-{label}",
        f"{label}: charge of the batteries",
        "At the beginning of a step, as a share of a full battery.",
        ("step", "mean", "lowest"),
        tuple(
            (
                str(step),
                numbers.percent(found.mean_charges[step]),
                numbers.percent(found.lowest_charges[step]),
            )
            for step in shown
        ),
    )
