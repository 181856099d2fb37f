"""The report's charts as files for papers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from roambench.contract.errors import RunError
from roambench.contract.whole_file import write_whole
from roambench.report.figures.chart import Chart
from roambench.report.figures.communication import NAMES
from roambench.report.figures.energy import energy_chart, whole_run_chart
from roambench.report.figures.half_runs import half_run_charts
from roambench.report.figures.learning import (
    Energies,
    judged_by,
    measured_of,
    outcome_chart,
    per_joule_chart,
    score_charts,
)
from roambench.report.figures.peers import mixing_charts, peer_charts
from roambench.report.figures.per_megabyte import per_megabyte_chart
from roambench.report.figures.print_charts import draw, height_in, print_look, printed
from roambench.report.figures.settings import settings_charts
from roambench.report.half_runs import read_folders
from roambench.report.settings import settings_of
from roambench.report.summaries.finding import name_of
from roambench.report.summaries.run import RunSummary, summarise
from roambench.report.tables.settings import latex, settings_csv, settings_table

FORMATS: Final = ("pdf", "svg", "png")
#: Width in inches by the name of a style: a column and a page of IEEE's journals, and a slide.
STYLES: Final[Mapping[str, float]] = {"ieee": 3.5, "ieee-wide": 7.16, "slides": 10.0}
#: How large type, lines and heights are beside those of a journal.
_SCALES: Final = {"slides": 2.25}


@dataclass(frozen=True, slots=True)
class PaperFigures:
    """The files written, and what was left out of them and why."""

    files: tuple[Path, ...]
    notes: tuple[str, ...]


def export_figures(
    runs: Sequence[Path], out: Path, *, formats: Sequence[str] = ("pdf", "svg"), style: str = "ieee"
) -> PaperFigures:
    """Write the charts that the runs have into the folder `out`: accuracy, accuracy-per-joule, energy,
    spent, outcomes, download-per-megabyte, upload-per-megabyte, and of decentralised runs those of peers,
    each in every format. Of repeated runs they are means over seeds, with a table as CSV and LaTeX. The same
    runs give the same bytes.

    RunError for what is no run, where nothing can be drawn, for a folder that cannot be written, or where
    matplotlib is not installed.
    """
    scale = _SCALES.get(style, 1.0)
    with print_look(scale) as drawing:
        whole, halves = read_folders(runs)
        summaries = [summarise(run) for run in whole]
        energies, notes = _energies(summaries)
        notes += [half.sentence for half in halves]
        notes += [f"{run.label}: {run.lost}" for run in summaries if run.lost]
        settings, files = settings_of(summaries), []
        if settings.repeated:
            notes += settings.notes
        charts = settings_charts(settings) if settings.repeated else _charts(summaries, energies)
        for chart in (*charts, *half_run_charts(halves)):
            size = (STYLES[style], scale * height_in(chart))
            figure = drawing(figsize=size, layout="constrained")
            draw(chart, figure.subplots())
            for kind in formats:
                path = out / f"{chart.key}.{kind}"
                _write(path, printed(figure, kind))
                files.append(path)
    if settings.repeated:
        tables = {"csv": settings_csv(settings), "tex": latex(settings_table(settings))}
        for kind, text in tables.items():
            _write(out / f"settings.{kind}", text.encode())
            files.append(out / f"settings.{kind}")
    if not files:
        nothing = "nothing to draw: no step was scored, no local update ordered, no energy known"
        raise RunError("\n".join([nothing, *notes]))
    return PaperFigures(tuple(files), tuple(notes))


def _energies(runs: Sequence[RunSummary]) -> tuple[Energies, list[str]]:
    """Energy by a run's place in the order given: measured where any was, else modelled, never both."""
    measured = measured_of(runs)
    modelled = {place: run.modelled for place, run in enumerate(runs) if run.modelled is not None}
    if not measured:
        return modelled, []
    notes = [
        f"{runs[place].label}: its energy is modelled and stands in no figure beside measured energy"
        for place in modelled
    ]
    notes += [
        f"{run.label}: energy {run.measured.scope_text}"
        for run in runs
        if run.measured is not None and run.measured.scope_text
    ]
    return measured, notes


def _charts(runs: Sequence[RunSummary], energies: Energies) -> Iterator[Chart]:
    """Those that the runs have, by the names of their files; runs are named after their systems."""
    named = [replace(run, label=name_of(run, runs)) for run in runs]
    for metric in judged_by(named):
        if (both := score_charts(metric, named)) is not None:
            yield replace(both[0], key=metric.key)
        if (chart := per_joule_chart(metric, named, energies)) is not None:
            yield replace(chart, key=f"{metric.key}-per-joule")
    found = [energy_chart(named, energies), whole_run_chart(named, energies), outcome_chart(named)]
    by_place = dict(enumerate(named))
    found += [per_megabyte_chart(by_place, way, f"{name}-per-megabyte") for way, name in NAMES.items()]
    found += [*peer_charts(named), *(mixing_charts(named) or ())]
    yield from (chart for chart in found if chart is not None and (chart.series or chart.rows))


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content, synced=False)
    except OSError as error:
        raise RunError(f"{path}: cannot be written: {error.strerror or error}") from None
