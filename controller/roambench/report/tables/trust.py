"""The verdict on each figure of a run, as a table."""

from __future__ import annotations

from collections.abc import Sequence

from roambench.report.numbers import NONE
from roambench.report.summaries.run import RunSummary
from roambench.report.summaries.trust import trust_of
from roambench.report.table import ReportTable


def trust_table(runs: Sequence[RunSummary]) -> ReportTable | None:
    """The figures of all measured runs; None without any."""
    found = {run.label: {item.quantity: item.text for item in trust_of(run.measured)} for run in runs}
    quantities = dict.fromkeys(quantity for texts in found.values() for quantity in texts)
    if not quantities:
        return None
    known = any(run.measured is not None and run.measured.truth is not None for run in runs)
    off = "; off: from what the emulated boards really drew" if known else ""
    return ReportTable(
        "trust",
        "Which figures hold",
        f"± is 2 u as a share of the figure, wide above 10 %{off}. Training and transfers are net, the "
        "others gross.",
        ("does it hold?", *found),
        tuple((name, *(texts.get(name, NONE) for texts in found.values())) for name in quantities),
        numeric_from=9,
    )
