"""The page of a sweep, or of other repeated runs: settings beside each other, means over their seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from roambench.contract.counts import count
from roambench.report.figures.plotly_charts import page_figure
from roambench.report.figures.settings import settings_charts
from roambench.report.half_runs import HalfRun
from roambench.report.pages.page import Parts, document, folded, footer_of, half_runs, warnings
from roambench.report.settings import Settings
from roambench.report.summaries.run import RunSummary
from roambench.report.tables.brief import brief_table
from roambench.report.tables.settings import pairs_table, settings_table


def settings_page(found: Settings, runs: Sequence[RunSummary], halves: Sequence[HalfRun] = ()) -> str:
    """The document; nothing in it is loaded from elsewhere."""
    pairs = pairs_table(found)
    figures = [page_figure(chart) for chart in settings_charts(found)]
    parts = Parts([settings_table(found)], figures)
    best = [one.sentence for one in found.best] or ["No two settings have a seed in common."]
    half = half_runs(halves)
    sections = [
        ("Best setting", "best", [*half[:1], ("verdicts", best), *parts.at("settings")]),
        ("Figures", "figures", [("figure", figure) for figure in figures]),
        ("Paired by seed", "paired", folded([pairs] if pairs is not None else [])),
        ("Every run", "every-run", folded([replace(brief_table(runs), title="Figures of each run")])),
        ("Notes", "notes", [*half[1:], *warnings(runs, found.notes)]),
    ]
    seeds = count(len({run.info.seed for run in runs}), "seed")
    lead = f"{count(len(runs), 'run')}: {count(len(found.rows), 'setting')}, {seeds}."
    heading = heading_of(found)
    return document(f"{heading} roambench", heading, sections, lead=lead, footer=footer_of(runs))


def heading_of(found: Settings) -> str:
    """The best setting by what the runs are judged by, and how sure that is; else how many there are."""
    first = next((one.sentence for one in found.best if one.quantity is found.quantities[0]), "")
    runs = sum(row.runs_in_all for row in found.rows)
    return first or f"{count(len(found.rows), 'setting')} over {count(runs, 'run')}."
