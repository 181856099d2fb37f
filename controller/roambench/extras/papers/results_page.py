"""A page of results in Markdown: who made it, what was run beside what a paper ran, tables and curves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roambench.contract.counts import count
from roambench.extras.papers.finished_runs import FinishedRun
from roambench.report import numbers
from roambench.report.figures.chart import Chart, ChartAxis, ChartLevel, Series, run_colour
from roambench.report.figures.print_charts import small_multiples_svg
from roambench.report.markdown import markdown_table
from roambench.report.paper_figures import STYLES
from roambench.report.table import ReportTable
from roambench.study.sweep.session_notes import SessionNotes, read_notes

#: Rows of what was run: a name, and what it was in a run.
Says = Sequence[tuple[str, Callable[[FinishedRun], object]]]


#: Its panel, its name, and (rounds played, accuracy 0..1) in the order of the rounds.
Curve = tuple[str, str, Sequence[tuple[int, float]]]


def accuracy_charts(curves: Iterable[Curve], x: str, threshold: float | None = None) -> tuple[Chart, ...]:
    """Accuracy over `x` ("rounds"): a chart for each panel, a colour for each name, in the order in which
    they first come."""
    panels: dict[str, list[Series]] = {}
    places: dict[str, int] = {}
    for panel, name, points in curves:
        series = panels.setdefault(panel, [])
        colour = run_colour(places.setdefault(name, len(places)))
        values = [100.0 * accuracy for _, accuracy in points]
        series.append(Series(str(len(series)), name, [at for at, _ in points], values, colour))
    levels = (
        [] if threshold is None else [ChartLevel(100.0 * threshold, f"threshold {100.0 * threshold:g} %")]
    )
    y = ChartAxis("accuracy", "%", limits=(0.0, 100.0))
    return tuple(
        Chart(f"panel-{number}", panel, "", ChartAxis(x), y, series, levels=levels)
        for number, (panel, series) in enumerate(panels.items())
    )


@dataclass(frozen=True, slots=True)
class ResultsPage:
    """`charts`: () where nothing was scored. `figures` of every run by its sweep's metrics, whose names have
    the units."""

    text: str
    scale: ReportTable
    tables: tuple[ReportTable, ...]
    charts: tuple[Chart, ...]
    figures: tuple[dict[str, Any], ...]

    @property
    def curves(self) -> str:
        """The charts as one SVG, "" for none. RunError where matplotlib is not installed."""
        return small_multiples_svg(self.charts, STYLES["ieee-wide"]) if self.charts else ""

    def document(self) -> dict[str, Any]:
        """The tables, their cells as they are printed, and the figures of every run as numbers."""
        return {
            "schema": "roambench.results/1",
            "tables": [
                {
                    "key": table.key,
                    "title": table.title,
                    "caption": table.caption,
                    "rows": [dict(zip(table.head, row, strict=True)) for row in table.rows],
                }
                for table in self.tables
            ],
            "runs": list(self.figures),
        }


@dataclass(frozen=True, slots=True)
class CurvesOf:
    """Curves of a page under their heading; () where nothing was scored."""

    heading: str
    charts: tuple[Chart, ...]
    caption: str = ""


def results_page(
    folders: Sequence[Path],
    runs: Sequence[FinishedRun],
    *,
    title: str,
    scale: ReportTable,
    tables: Sequence[ReportTable],
    points: ReportTable,
    curves: CurvesOf,
    curves_name: str,
    foreword: Sequence[str] = (),
) -> ResultsPage:
    """The page of `runs`, which are those in `folders`: a foreword (paragraphs), what was run
    (`scale_table`), the tables, the curves, and every run."""
    parts = [
        f"# {title}",
        "",
        *(line for paragraph in foreword for line in (paragraph, "")),
        *made_by([read_notes(folder) for folder in folders], runs),
        markdown_table(scale),
        *(markdown_table(table) for table in tables),
    ]
    if curves.charts:
        parts += [f"## {curves.heading}", "", f"![{curves.heading}]({curves_name})", ""]
        parts += [curves.caption, ""] if curves.caption else []
    parts.append(markdown_table(points))
    figures = tuple(
        {"system": run.system, "seed": run.experiment.seed, "fleet": run.fleet, **run.outcome.figures}
        for run in runs
    )
    return ResultsPage("\n".join(parts).rstrip("\n") + "\n", scale, (*tables, points), curves.charts, figures)


def scale_table(
    runs: Sequence[FinishedRun],
    says: Says,
    paper_says: Mapping[str, str],
    more: Sequence[tuple[str, str, str]] = (),
) -> ReportTable:
    """The table of what was run, each with the value that all share or those there are, and the paper's if it
    says any; then the rows of `more`."""
    rows = [
        (name, ", ".join(dict.fromkeys(str(say(run)) for run in runs)), paper_says.get(name, ""))
        for name, say in says
    ]
    head = ("what", "ours", "paper")
    wide = len(head) if paper_says else 2
    shown = tuple(row[:wide] for row in (*rows, *more))
    return ReportTable("scale", "What was run", "", head[:wide], shown, numeric_from=wide)


def part_of(images: int) -> str:
    """The part of the images that `learning.train_images` or `test_images` asks for, in words."""
    return f"{images:,}, drawn by class" if images else "all"


def made_by(notes: Sequence[SessionNotes], runs: Sequence[FinishedRun]) -> list[str]:
    """The commands of the sweeps, and how long these runs took on what."""
    known = [note for note in notes if note.command]
    if not known:
        return []
    lines = ["```console", *(f"$ {note.command}" for note in known), "```", ""]
    where = "; ".join(dict.fromkeys(note.machine for note in known))
    walls_s = [run.outcome.wall_s for run in runs]
    took = f": {numbers.seconds(math.fsum(walls_s))} of wall time, added up over them" if all(walls_s) else ""
    return [*lines, f"{count(len(runs), 'run')} on {where}{took}.", ""]
