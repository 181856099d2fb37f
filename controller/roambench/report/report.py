"""The report of runs: read the folders, sum up, write what is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from roambench.contract.errors import RunError
from roambench.contract.whole_file import write_whole
from roambench.report.documents.report import json_text
from roambench.report.pages.report import page
from roambench.report.pages.settings import settings_page
from roambench.report.settings import Settings, settings_of
from roambench.report.summaries.evidence import RunEvidence, read_runs
from roambench.report.summaries.run import RunSummary, summarise
from roambench.runs.records import OpenRecords


@dataclass(frozen=True)
class Report:
    """Runs side by side. `console.print_report(report.summaries, console)` shows it in a terminal."""

    evidence: tuple[RunEvidence, ...]
    summaries: tuple[RunSummary, ...]

    def json(self) -> str:
        """The report as a JSON document."""
        return json_text(self.summaries)

    def html(self) -> str:
        """The report as one self-contained page, of repeated runs by their settings."""
        if self.settings.repeated:
            return settings_page(self.settings, self.summaries)
        return page(self.evidence, self.summaries)

    @cached_property
    def settings(self) -> Settings:
        """The runs by their settings, each with its seeds."""
        return settings_of(self.summaries)


def report(
    run_paths: Sequence[Path | str],
    html: Path | None = None,
    json: Path | None = None,
    open_records: OpenRecords | None = None,
) -> Report:
    """Read and sum up the runs, finished or not; write the page and the document where paths are given.

    `open_records` gives the readings from elsewhere than the folders. Raises RunError for what is no run
    folder, or for a file that cannot be written.
    """
    evidence = tuple(read_runs(run_paths, open_records))
    made = Report(evidence, tuple(summarise(run) for run in evidence))
    for path, text in ((html, made.html), (json, made.json)):
        if path is not None:
            write_text(path, text())
    return made


def write_text(path: Path, text: str) -> None:
    """Write a document, replaced as a whole, with the folders above it; RunError where that is refused."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text, synced=False)  # the runs are there to make it again
    except IsADirectoryError:
        expected = f"a folder, expected a file, for example {path / 'report.html'}"
        raise RunError(f"{path}: cannot be written: {expected}") from None
    except OSError as error:
        raise RunError(f"{path}: cannot be written: {error.strerror or error}") from None
