"""Measured against modelled communication of runs, as `roambench compare` shows it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from roambench.contract.errors import RunError
from roambench.contract.json_values import without_nan
from roambench.energy.links.models import LinkModel
from roambench.report.console import print_table
from roambench.report.documents import comparison as comparison_document
from roambench.report.figures.communication import ratio_figure, scatter_figures
from roambench.report.figures.per_megabyte import per_megabyte_charts
from roambench.report.figures.plotly_charts import page_figure
from roambench.report.half_runs import read_folders
from roambench.report.pages.page import Parts, document, folded, footer_of, warnings
from roambench.report.summaries.run import RunSummary, summarise, world_flags
from roambench.report.table import ReportTable
from roambench.report.tables.communication import (
    basis_name,
    classes_and_total,
    communication_tables,
    device_comparison_table,
    leading_basis,
    stated_exact,
    transfer_table,
)
from roambench.runs.records import OpenRecords

#: Raised when a key changes its meaning or disappears; new keys do not raise it.
SCHEMA: Final = "roambench.compare/1"


@dataclass(frozen=True)
class RunComparisons:
    """Runs with at least one comparable transfer among them; `missing` tells why others have none."""

    summaries: tuple[RunSummary, ...]
    missing: tuple[str, ...]
    named: LinkModel | None

    @property
    def comparable(self) -> tuple[RunSummary, ...]:
        """The runs that have a comparison."""
        return tuple(run for run in self.summaries if run.comparison is not None)

    def json(self) -> str:
        """The comparison as a JSON document."""
        text = json.dumps(without_nan(self._document()), indent=2, ensure_ascii=False, allow_nan=False)
        return text + "\n"

    def html(self) -> str:
        """One self-contained page."""
        runs = self.comparable
        figures = [ratio_figure(runs), *map(page_figure, per_megabyte_charts(runs)), *scatter_figures(runs)]
        parts = Parts(communication_tables(runs), figures)
        boards = [table for run in runs if (table := device_comparison_table(run)) is not None]
        single = [table for run in runs if (table := transfer_table(run)) is not None]
        names = ", ".join(run.label for run in runs)
        first = [("verdicts", self.verdicts()), *warnings(runs, (*world_flags(runs), *self.missing))]
        by_link = parts.at("communication", "ratios") + parts.like("per-mb-") + parts.at("transfers")
        sections = [
            ("Verdicts", "verdicts", first),
            ("By link and direction", "classes", by_link),
            ("Transfer by transfer", "transfers", parts.like("compare-")),
            ("Boards", "boards", folded(boards)),
            ("Every transfer", "all", folded(single)),
        ]
        lead = f"Communication energy of {names}: what the meters saw above idle, beside Eq. 1."
        title, heading = f"roambench compare: {names}", "Measured against modelled"
        return document(title, heading, sections, lead=lead, footer=footer_of(runs))

    def verdicts(self) -> list[str]:
        """One line per run, link and direction, on the leading basis (see `leading_basis`)."""
        lines = []
        for run in self.comparable:
            assert run.comparison is not None
            basis = leading_basis(run.comparison)
            scope = run.measured.scope_text if run.measured else ""
            left_out = f", {scope}" if scope else ""
            for kind, part in classes_and_total(run.comparison):
                model = basis_name(basis, run) + ", stated without an error" * stated_exact(run, basis)
                lines.append(f"{run.label}: {kind} ({model}){left_out}: {part.verdict(basis).sentence}")
        return lines

    def _document(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "link_model": None if self.named is None else self.named.name,
            "runs": [_run(run) for run in self.comparable],
            "missing": list(self.missing),
            "flags": list(world_flags(self.comparable)),
        }


def compare_runs(
    paths: Sequence[Path | str],
    named: LinkModel | None = None,
    open_records: OpenRecords | None = None,
) -> RunComparisons:
    """Read the runs and compare their transfers, also held against the link model `named`.

    `open_records` gives the readings from elsewhere than the folders. RunError for what is no run folder,
    and when no run has anything to compare: it says why for each.
    """
    runs, halves = read_folders(paths, open_records)
    summaries = tuple(summarise(run, named) for run in runs)
    missing = tuple(f"{run.label}: {why}" for run in summaries if (why := _why_not(run)) is not None)
    missing += tuple(f"{half.label}: {half.problem}" for half in halves)
    made = RunComparisons(summaries, missing, named)
    if not made.comparable:
        raise RunError("\n".join(missing))
    return made


def print_comparison(made: RunComparisons, console: Console) -> None:
    """Tables by class and by board, what is missing, and the verdicts last: there they are read."""
    tables: list[ReportTable | None] = [*communication_tables(made.comparable)]
    tables += [device_comparison_table(run) for run in made.comparable]
    for table in tables:
        if table is not None:
            print_table(table, console)
    for run in made.comparable:
        for flag in run.flags:
            _warn(f"{run.label}: {flag}", console)
    for line in (*world_flags(made.comparable), *made.missing):
        _warn(line, console)
    for line in made.verdicts():
        console.print(Text(line), soft_wrap=not console.is_terminal)


def _warn(line: str, console: Console) -> None:
    console.print(Text.assemble(("! ", "yellow"), line), soft_wrap=not console.is_terminal)


def _why_not(run: RunSummary) -> str | None:
    """The reason why a run has nothing to compare, or None."""
    if run.comparison is not None:
        return None
    if run.lost:
        return run.lost
    if not run.info.kind.trains:
        return "a rehearsal moves no bytes and has no meters: there is nothing to compare"
    if run.measured is None:
        modelled = run.modelled_from_log_j
        known = (
            f" (Eq. 1 and 2 say {modelled['down']:.2f} J down, {modelled['up']:.2f} J up)"
            if any(modelled.values())
            else ""
        )
        return f"no meter readings: nothing was measured that a model could be held against{known}"
    return f"no transfer was finished (the run is {run.info.state.value}): there is nothing to compare"


def _run(run: RunSummary) -> dict[str, Any]:
    comparison = run.comparison
    assert comparison is not None
    return {
        "name": run.label,
        "run_id": run.info.run_id,
        "system": run.info.system,
        "fleet": run.info.fleet,
        "state": run.info.state.value,
        "flags": list(run.flags),
        "without": dict(run.measured.without) if run.measured else {},
        "total": comparison_document.compared(comparison.total),
        "download": comparison_document.compared(comparison.download),
        "upload": comparison_document.compared(comparison.upload),
        "classes": comparison_document.classes(comparison),
        "devices": comparison_document.devices(comparison),
        "transfers": [comparison_document.transfer(item) for item in comparison.transfers],
    }
