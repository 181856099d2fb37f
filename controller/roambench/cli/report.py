"""`roambench report`: compare finished runs."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roambench.cli.common_options import JsonOption, RunsArgument, keep_inputs
from roambench.contract.errors import RunError
from roambench.runner.readings_source import (
    InfluxDbOption,
    InfluxTokenFileOption,
    InfluxUrlOption,
    ReadingsOption,
    ReadingsSource,
    open_records,
)

if TYPE_CHECKING:
    from rich.console import Console

    from roambench.report.report import Report
    from roambench.runs.records import OpenRecords


FullOption = Annotated[bool, typer.Option("--full", help="Print all tables, not only what matters most.")]


def report(
    runs: RunsArgument,
    html: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Also write one self-contained HTML page."),
    ] = None,
    as_json: JsonOption = False,
    full: FullOption = False,
    readings: ReadingsOption = ReadingsSource.FOLDER,
    influx_url: InfluxUrlOption = "",
    influx_db: InfluxDbOption = "",
    influx_token_file: InfluxTokenFileOption = None,
) -> None:
    """Compare runs: accuracy, devices aggregated, energy used and wasted, measured and modelled.

    Of a sweep, or of runs repeated with other seeds: means over the seeds, and the best setting.

    Examples:
        roambench report runs/demo/latest -o report.html
        roambench report runs/demo/latest --full
    """
    from roambench.runner.screen import screen

    keep_inputs(html, *runs)
    source = open_records(readings, influx_url, influx_db, influx_token_file)
    show(runs, html=html, as_json=as_json, console=screen(stderr=as_json), source=source, full=full)


def show(
    runs: Sequence[Path],
    *,
    html: Path | None,
    as_json: bool,
    console: Console,
    source: OpenRecords | None = None,
    full: bool = False,
) -> Report:
    """Print what matters, or all tables, or JSON and nothing else; and write the page. -q leaves what was
    found, notes, and where the page is."""
    from roambench.report import console as terminal
    from roambench.report.report import report as made_of
    from roambench.runner.screen import in_any_case, print_json, say, tells_little
    from roambench.runs.crates import source_of
    from roambench.runs.groups import runs_at

    made = made_of(runs, html=html, open_records=source)
    if as_json:
        print_json(json.loads(made.json()))
        if html is not None:
            say(console, f"report: {html}")
        _require_one(made)
        return made
    with in_any_case(console):
        terminal.print_half_runs(made.halves, console)
        _require_one(made)
        if full:
            terminal.print_report(made.summaries, console)
        elif made.settings.repeated:
            terminal.print_settings(made.settings, console, table=not tells_little())
        else:
            terminal.print_brief(made.summaries, console, table=not tells_little())
    if not full:
        shown = list(dict.fromkeys(map(source_of, runs)))
        if made.settings.repeated:  # the folder of all of them
            common = Path(os.path.commonpath(shown))
            common = common.parent if common.name == "points" else common
            shown = [common] if runs_at([common]) == shown else shown
        again = shlex.join(["roambench", "report", *map(str, shown), "--full"])
        say(console, f"all tables: {again}")
    if html is not None:
        with in_any_case(console):
            say(console, f"report: {html}")
    return made


def _require_one(made: Report) -> None:
    """RunError where no run could be summed up: the figures that their ends wrote are all there is."""
    if not made.summaries:
        raise RunError("no run could be summed up\n" + "\n".join(half.problem for half in made.halves))
