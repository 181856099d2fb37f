"""Table of the figures that the ends of runs wrote, of runs whose records are lost."""

from __future__ import annotations

from collections.abc import Sequence

from roambench.report import numbers
from roambench.report.half_runs import HalfRun
from roambench.report.quantities import QUANTITIES, Quantity
from roambench.report.run_figures import FIGURES
from roambench.report.table import ReportTable


def half_run_table(halves: Sequence[HalfRun]) -> ReportTable | None:
    """A row for each figure and a column for each run; None where no end wrote any."""
    shown = [half for half in halves if half.figures.figures]
    rows = tuple(
        (quantity.heading(), *(_cell(half, quantity) for half in shown))
        for name, quantity in QUANTITIES.items()
        if any(name in half.figures.figures for half in shown)
    )
    if not rows:
        return None
    caption = f"From {FIGURES}, of whole runs; not computed again. ±: k = 2."
    return ReportTable(
        "half-runs", "Figures as the runs' ends wrote them", caption, ("", *(it.label for it in shown)), rows
    )


def _cell(half: HalfRun, quantity: Quantity) -> str:
    found, u = half.figures.figures.get(quantity.name), half.figures.u.get(quantity.name)
    if found is None:
        return numbers.NONE
    if u:
        text = numbers.with_u(found, u)
    else:
        text = numbers.percent(found) if quantity.share else numbers.number(found, quantity.places)
    basis = f" ({half.figures.basis})" if quantity.basis == "either" and half.figures.basis else ""
    return f"{text}{basis}"
