"""The report as one self-contained page."""

from __future__ import annotations

from collections.abc import Sequence

from roambench.contract.counts import count
from roambench.report.figures.communication import ratio_figure, scatter_figures
from roambench.report.figures.energy import energy_chart, whole_run_chart
from roambench.report.figures.figure import Figure
from roambench.report.figures.hosts import host_figures
from roambench.report.figures.learning import (
    aggregated_figure,
    judged_by,
    measured_of,
    per_joule_chart,
    score_charts,
)
from roambench.report.figures.movement import availability_figure, map_figure
from roambench.report.figures.peers import mixing_charts, peer_charts
from roambench.report.figures.per_megabyte import per_megabyte_charts
from roambench.report.figures.plotly_charts import page_figure, side_by_side
from roambench.report.figures.power_data import power_data
from roambench.report.figures.uncertainty import budget_figure
from roambench.report.half_runs import HalfRun
from roambench.report.pages.cards import run_cards
from roambench.report.pages.page import Parts, document, folded, footer_of, half_runs, noted
from roambench.report.summaries.evidence import RunEvidence
from roambench.report.summaries.finding import finding_of
from roambench.report.summaries.report_flags import report_flags
from roambench.report.summaries.run import RunSummary
from roambench.report.tables.modelled import KEYS as MODELLED_KEYS
from roambench.report.tables.peers import KEYS as PEER_KEYS
from roambench.report.tables.report import board_tables, comparison_tables, detail_tables


def page(runs: Sequence[RunEvidence], summaries: Sequence[RunSummary], halves: Sequence[HalfRun] = ()) -> str:
    """The whole document for 1 to about 6 runs; more work, but their colours repeat."""
    kept = half_runs(halves)
    if not summaries:
        heading = "No run could be summed up."
        return document(f"{heading} roambench", heading, [("Runs", "runs", kept)])
    power = power_data(runs)
    parts = Parts(comparison_tables(summaries), report_figures(runs, summaries))
    first = [("cards", run_cards(summaries)), *noted(report_flags(summaries))]
    sections = [
        ("Runs", "runs", [*first, *kept, *parts.at("runs")]),
        (
            "Learning",
            "learning",
            parts.at("accuracy")
            + parts.like("metric-")
            + parts.like("rounds-")
            + parts.at("learning", "aggregated"),
        ),
        ("Decentralised", "decentralised", [block for key in PEER_KEYS for block in parts.like(key)]),
        (
            "Energy",
            "energy",
            parts.at("trust", "energy", "table10-gross", "table10-net", "accuracy-per-joule")
            + parts.like("joules-")
            + parts.at("spent", "whole-run", "phases", "budget"),
        ),
        ("Modelled energy", "modelled-energy", parts.at(*MODELLED_KEYS)),
        (
            "Measured against modelled",
            "communication",
            parts.at("communication", "ratios")
            + parts.like("per-mb-")
            + parts.like("compare-")
            + parts.at("transfers", "modelled"),
        ),
        ("Beside the paper", "paper", parts.like("paper-")),
        ("Power over time", "power", [("power", power)] if power is not None else []),
        ("Movement and trainings", "movement", parts.at("availability", "trainings", "map")),
        ("Boards", "boards", parts.like("host-") + folded(board_tables(summaries))),
        ("Details", "details", folded(detail_tables(summaries))),
    ]
    systems = list(dict.fromkeys(run.info.system for run in summaries))
    beside = " against ".join(systems) if len(systems) < 3 else ", ".join(systems)
    finding = finding_of(summaries)
    return document(
        f"{finding} roambench",
        finding,
        sections,
        lead=f"{beside}. {_lead(summaries)}",
        footer=footer_of(summaries),
    )


def report_figures(runs: Sequence[RunEvidence], summaries: Sequence[RunSummary]) -> list[Figure]:
    """All figures that the runs have, in reading order."""
    judged, measured = judged_by(summaries), measured_of(summaries)
    scores = [score_charts(metric, summaries) for metric in judged]
    per_joule = [per_joule_chart(metric, summaries, measured) for metric in judged]
    joules = (energy_chart(summaries, measured), whole_run_chart(summaries, measured))
    mixing = mixing_charts(summaries)
    found = [
        *(side_by_side(*both) for both in scores if both is not None),
        *(page_figure(chart) for chart in per_joule if chart is not None),
        aggregated_figure(summaries),
        *map(page_figure, peer_charts(summaries)),
        None if mixing is None else side_by_side(*mixing),
        *(page_figure(chart) for chart in joules if chart is not None),
        ratio_figure(summaries),
        *map(page_figure, per_megabyte_charts(summaries)),
        *scatter_figures(summaries),
        budget_figure(summaries),
        *host_figures(runs),
        availability_figure(runs, summaries),
        map_figure(runs),
    ]
    return [figure for figure in found if figure is not None]


def _lead(runs: Sequence[RunSummary]) -> str:
    seeds = ", ".join(str(seed) for seed in dict.fromkeys(run.info.seed for run in runs))
    steps = max(len(run.learning.points) for run in runs)
    devices = max(len(run.info.device_names) for run in runs)
    fleets = ", ".join(dict.fromkeys(run.info.fleet for run in runs))
    return (
        f"{count(devices, 'device')} on the {fleets} fleet, {count(steps, 'step')} of the "
        f"trace, seed {seeds}."
    )
