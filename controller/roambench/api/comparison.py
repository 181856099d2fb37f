"""Runs side by side from Python: the report's finding, tables and figures."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from roambench.api.columns import Columns
from roambench.api.recorded_run import Run
from roambench.api.run_set import RunSet, opened
from roambench.report.pages.report import report_figures
from roambench.report.report import report, write_text
from roambench.report.summaries.finding import finding_of
from roambench.report.summaries.report_flags import report_flags, sentence_of
from roambench.report.table import ReportTable
from roambench.report.tables.report import board_tables, comparison_tables, detail_tables

if TYPE_CHECKING:
    import plotly.graph_objects as go


class Comparison:
    """Runs as `roambench report` compares them."""

    def __init__(self, runs: RunSet) -> None:
        self.runs = runs
        self._report = report([run.path for run in runs])

    @property
    def finding(self) -> str:
        """The finding in a sentence or two; the reason why there is none, where they should not be
        compared."""
        return finding_of(self._report.summaries)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Doubts about the figures, the gravest first."""
        return tuple(sentence_of(said) for said in report_flags(self._report.summaries))

    @property
    def table(self) -> Columns:
        """A row for each run: settings that differ and final figures (`RunSet.table`)."""
        return self.runs.table

    @property
    def tables(self) -> Mapping[str, ReportTable]:
        """The report's tables by their key ("runs", "table10-gross"), with numbers as people read them."""
        summaries = self._report.summaries
        found = [*comparison_tables(summaries), *board_tables(summaries), *detail_tables(summaries)]
        return {table.key: table for table in found}

    @property
    def figures(self) -> Mapping[str, go.Figure]:
        """The report's figures by their key ("accuracy", "energy"), as Plotly's."""
        import plotly.graph_objects as go

        from roambench.report.figures.look import LOOK, painted

        return {
            figure.key: go.Figure(
                data=painted(figure.data),
                layout=painted({**figure.layout, "template": LOOK, "title": figure.title}),
            )
            for figure in report_figures(self._report.evidence, self._report.summaries)
        }

    def html(self, path: str | Path | None = None) -> str:
        """The report as one self-contained page, written to `path` if there is one; RunError if it cannot."""
        text = self._report.html()
        if path is not None:
            write_text(Path(path), text)
        return text

    def json(self) -> str:
        """The report as a JSON document."""
        return self._report.json()

    def to_csv(self, path: str | Path | None = None) -> str:
        """`table` as CSV."""
        return self.table.to_csv(path)

    def to_latex(self, path: str | Path | None = None, *, columns: Sequence[str] | None = None) -> str:
        """`table`, or these columns of it, for a paper, energies ± k = 2."""
        return self.table.to_latex(path, columns=columns)

    def __repr__(self) -> str:
        return f"<comparison of {', '.join(self.runs.names)}: {self.finding}>"

    def _repr_html_(self) -> str:
        """The finding, the warnings and a line for each run, for a notebook."""
        warnings = "".join(f"<li>{html.escape(text)}</li>" for text in self.warnings)
        return f"<p><b>{html.escape(self.finding)}</b></p><ul>{warnings}</ul>{self.table._repr_html_()}"


def compared(runs: Sequence[str | Path | Run | RunSet]) -> Comparison:
    """Return what `roambench.compare` gives."""
    return Comparison(RunSet(run for each in runs for run in opened(each)))
