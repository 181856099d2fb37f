"""A table of what each device spent in each round, beside what the model was worth then."""

from __future__ import annotations

from roambench.report import numbers
from roambench.report.numbers import NONE
from roambench.report.summaries.run import RunSummary
from roambench.report.table import ReportTable


def round_tables(run: RunSummary) -> list[ReportTable]:
    """One table of an app's run; none where its rounds or its devices are too many to show."""
    rounds = () if run.spent is None else run.spent.rounds
    if not rounds:
        return []
    devices = [name for name in run.info.device_names if any(name in one.by_device for one in rounds)]
    scores = {point.step: point.score for point in run.learning.points}
    metric = run.learning.metric
    rows = [
        (
            str(number),
            NONE if (score := scores.get(one.last_step)) is None else metric.text(score),
            *(numbers.energy(one.by_device[name]) if name in one.by_device else NONE for name in devices),
            numbers.energy(one.whole),
        )
        for number, one in enumerate(rounds, 1)
    ]
    return [
        ReportTable(
            f"rounds-{run.label}",
            f"{run.label}: joules of each device in each round",
            f"Gross, {run.basis}: download, training, evaluation and upload of what was ordered in it. "
            f"± is 2 u. Beside them the model's {metric.name} after it.",
            ("round", metric.name, *devices, "all"),
            tuple(rows),
        )
    ]
