"""The report as one self-contained page: no network, no other file; opens from a disk ten years later."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any, Final

from plotly.offline import get_plotlyjs

from roambench.contract.json_values import without_nan
from roambench.report import numbers
from roambench.report.cards import run_cards
from roambench.report.communication_figures import ratio_figure, scatter_figures
from roambench.report.energy_figures import energy_figure, whole_run_figure
from roambench.report.evidence import RunEvidence
from roambench.report.figures import (
    PHASE_COLOURS,
    Figure,
    accuracy_figure,
    accuracy_per_joule_figure,
    aggregated_figure,
)
from roambench.report.host_figures import host_figures
from roambench.report.modelled_tables import KEYS as MODELLED_KEYS
from roambench.report.movement_figures import availability_figure, map_figure
from roambench.report.peer_figures import peer_figures
from roambench.report.peer_tables import KEYS as PEER_KEYS
from roambench.report.power_data import power_data
from roambench.report.summary import RunSummary, comparison_flags
from roambench.report.table import Table
from roambench.report.tables import board_tables, comparison_tables, detail_tables
from roambench.report.uncertainty_figures import budget_figure

#: Nothing may be loaded from anywhere, whatever a run's names try.
_POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "font-src data:"
)
#: Longer tables fold away.
_OPEN_ROWS: Final = 30
#: More rows than this make a page that no browser likes to show.
MOST_ROWS: Final = 2000


def page(runs: Sequence[RunEvidence], summaries: Sequence[RunSummary]) -> str:
    """The whole document for 1 to about 6 runs; more work, but their colours repeat."""
    power = power_data(runs)
    parts = Parts(
        comparison_tables(summaries),
        [
            accuracy_figure(summaries),
            accuracy_per_joule_figure(summaries),
            aggregated_figure(summaries),
            *peer_figures(summaries),
            energy_figure(summaries),
            whole_run_figure(summaries),
            ratio_figure(summaries),
            *scatter_figures(summaries),
            budget_figure(summaries),
            *host_figures(runs),
            availability_figure(runs, summaries),
            map_figure(runs),
        ],
    )
    scatter = [key for key in parts.figures if key.startswith("compare-")]
    host = [key for key in parts.figures if key.startswith("host-")]
    sections = [
        ("Runs", "runs", run_cards(summaries) + _flags(summaries) + parts.html("runs")),
        ("Learning", "learning", parts.html("accuracy", "learning", "aggregated")),
        ("Decentralised", "decentralised", parts.html(*PEER_KEYS)),
        (
            "Energy",
            "energy",
            parts.html("energy", "table10-gross", "table10-net", "accuracy-per-joule")
            + parts.html("spent", "whole-run", "phases", "budget"),
        ),
        ("Modelled energy", "modelled-energy", parts.html(*MODELLED_KEYS)),
        (
            "Measured against modelled",
            "communication",
            parts.html("communication", "ratios", *scatter, "transfers", "modelled"),
        ),
        ("Beside the paper", "paper", parts.html("paper-ratios")),
        ("Power over time", "power", _power(power)),
        ("Movement and trainings", "movement", parts.html("availability", "trainings", "map")),
        ("Boards", "boards", parts.html(*host) + folded(board_tables(summaries))),
        ("Details", "details", folded(detail_tables(summaries))),
    ]
    title = "roambench: " + ", ".join(run.label for run in summaries)
    return document(title, _intro(summaries), sections, footer_of(summaries), parts, power)


class Parts:
    """Tables and figures by key; `html` sets those that are there in the order asked for."""

    def __init__(self, tables: Sequence[Table], figures: Sequence[Figure | None]) -> None:
        self.tables = {table.key: table for table in tables}
        self.figures = {figure.key: figure for figure in figures if figure is not None}

    def html(self, *keys: str) -> str:
        """The parts of these keys as HTML, those that there are."""
        made = []
        for key in keys:
            if key in self.figures:
                made.append(_figure(self.figures[key]))
            elif key in self.tables:
                made.append(_table(self.tables[key]))
        return "".join(made)


def folded(tables: Sequence[Table]) -> str:
    """Tables that open on a click, the long ones closed."""
    return "".join(_table(table, fold=True) for table in tables)


def document(
    title: str,
    intro: str,
    sections: Sequence[tuple[str, str, str]],
    footer: str,
    parts: Parts,
    power: dict[str, Any] | None = None,
) -> str:
    """One self-contained page: `sections` are (title, key, HTML), those without HTML are left out."""
    body = "".join(
        f'<section id="{key}"><h2>{name}</h2>{content}</section>'
        for name, key, content in sections
        if content
    )
    links = "".join(f'<a href="#{key}">{name}</a>' for name, key, content in sections if content)
    data = {
        "figures": [
            {"key": figure.key, "data": figure.data, "layout": figure.layout, "height": figure.height}
            for figure in parts.figures.values()
        ],
        "power": power,
        "phaseColours": {phase.value: colour for phase, colour in PHASE_COLOURS.items()},
    }
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{_resource('page.css')}</style></head><body>"
        f'<header><div class="bar"><span class="brand">roambench</span><nav>{links}</nav></div></header>'
        f"<main>{intro}{body}{footer}</main>"
        f'<script type="application/json" id="report-data">{_script_json(data)}</script>'
        f"<script>{get_plotlyjs()}</script><script>{_resource('page.js')}</script></body></html>\n"
    )


def _intro(runs: Sequence[RunSummary]) -> str:
    systems = list(dict.fromkeys(run.info.system for run in runs))
    names = " against ".join(systems) if len(systems) < 3 else ", ".join(systems)
    seeds = ", ".join(str(seed) for seed in dict.fromkeys(run.info.seed for run in runs))
    steps = max(len(run.learning.points) for run in runs)
    devices = max(len(run.info.device_names) for run in runs)
    fleets = ", ".join(dict.fromkeys(run.info.fleet for run in runs))
    return (
        f"<h1>{html.escape(names)}</h1>"
        f'<p class="lead">{numbers.count(devices, "device")} on the {html.escape(fleets)} fleet, '
        f"{numbers.count(steps, 'step')} of the trace, seed {seeds}.</p>"
    )


def _flags(runs: Sequence[RunSummary]) -> str:
    return warnings(runs, comparison_flags(runs))


def warnings(runs: Sequence[RunSummary], common: Sequence[str] = ()) -> str:
    """Warnings that a reader must know first: about all runs, then about each."""
    items = [f"<li>{html.escape(flag)}</li>" for flag in common]
    items += [
        f"<li><b>{html.escape(run.label)}</b>: {html.escape(flag)}</li>" for run in runs for flag in run.flags
    ]
    if not items:
        return ""
    return f'<div class="flags"><h3>Read this first</h3><ul>{"".join(items)}</ul></div>'


def _figure(figure: Figure) -> str:
    key = html.escape(figure.key)
    return (
        f'<figure><h3>{html.escape(figure.title)}</h3><div class="plot" id="plot-{key}" '
        f'style="height:{figure.height}px"></div><figcaption>{html.escape(figure.caption)}</figcaption></figure>'
    )


def _table(table: Table, *, fold: bool = False) -> str:
    def cell(tag: str, text: str, column: int) -> str:
        side = ' class="n"' if table.is_numeric(column) else ""
        indent = " style='padding-left:1.6em'" if column == 0 and text.startswith("  ") else ""
        return f"<{tag}{side}{indent}>{html.escape(text.strip())}</{tag}>"

    head = "".join(cell("th", name, column) for column, name in enumerate(table.head))
    rows = "".join(
        "<tr>" + "".join(cell("td", text, column) for column, text in enumerate(row)) + "</tr>"
        for row in table.rows[:MOST_ROWS]
    )
    left = len(table.rows) - MOST_ROWS
    caption = table.caption + (f" {left:,} more rows are in the JSON report." if left > 0 else "")
    # Names on the left and numbers at the far right would be hard to read across.
    wide = ' class="compare"' if table.numeric_from == 1 and len(table.head) <= 4 else ""
    grid = (
        f'<div class="scroll"><table{wide}><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
        f"<p class='caption'>{html.escape(caption)}</p>"
    )
    title = html.escape(table.title)
    if fold:
        opened = " open" if len(table.rows) <= _OPEN_ROWS else ""
        return f'<details class="table"{opened}><summary>{title}</summary>{grid}</details>'
    return f'<div class="table"><h3>{title}</h3>{grid}</div>'


def _power(power: dict[str, Any] | None) -> str:
    if power is None:
        return ""
    return (
        '<figure><div class="choose"><label>run <select id="power-run"></select></label>'
        '<label>board <select id="power-device"></select></label></div>'
        '<div class="plot" id="plot-power" style="height:420px"></div>'
        "<figcaption>What the meter read, with the board's phases shaded behind it: the shading is what the "
        "agent stamped, the line what the meter saw, about a quarter of a second late and here moved back by "
        "that. A break in the line is time without readings. Drag to zoom, double-click to see all."
        "</figcaption></figure>"
    )


def footer_of(runs: Sequence[RunSummary]) -> str:
    """The page's footer: the versions that the runs were made with."""
    versions = {f"{name} {version}" for run in runs for name, version in run.info.versions.items()}
    made = ", ".join(sorted(versions)) or "versions not recorded"
    when = ", ".join(dict.fromkeys(run.info.created_utc for run in runs if run.info.created_utc))
    return f"<footer>Runs of {html.escape(when or 'unknown date')}. {html.escape(made)}.</footer>"


def _script_json(value: object) -> str:
    """JSON that cannot end the script element it stands in, whatever text it holds."""
    text = json.dumps(without_nan(value), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _resource(name: str) -> str:
    return (files("roambench.report") / name).read_text(encoding="utf-8")
