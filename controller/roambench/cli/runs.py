"""`roambench runs`: which runs there are, with their figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roambench.cli.common_options import JsonOption


def runs(
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="Folder or crate whose runs are listed, sweeps' too."),
    ] = Path("runs"),
    where: Annotated[
        str,
        typer.Option(metavar="FILTER", help='"accuracy > 0.9 and system = mohawk": only such runs.'),
    ] = "",
    sort: Annotated[
        str, typer.Option(metavar="COLUMN", help="Sort by this column, the greatest first.")
    ] = "when",
    ascending: Annotated[bool, typer.Option("--ascending", help="The smallest first.")] = False,
    columns: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help="Columns to print, with commas: system,accuracy; a wrong name prints all names.",
        ),
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """List the runs below FOLDER: when, system, fleet, state, accuracy, joules for learning, joules wasted.

    A FILTER is COLUMN OPERATOR VALUE, joined by and, or, not and parentheses; operators: = != < <= > >= and ~
    (contains); values: numbers (90% is 0.9), dates, texts. Every figure of a report is a column, too.

    Examples:
        roambench runs
        roambench runs --where 'accuracy > 0.9' --columns system,accuracy
    """
    from roambench.report.run_columns import sorted_by
    from roambench.report.run_filter import run_filter
    from roambench.report.run_list import chosen_columns, documents, lines, listed_runs, meaning_of
    from roambench.runner.screen import print_json, say, screen
    from roambench.runs.crates import unpacked

    fulfils = run_filter(where) if where else None
    names = [name.strip() for name in columns.split(",") if name.strip()]
    chosen_columns(names)  # a wrong name is said before folders are read
    (by,) = chosen_columns([sort])
    found = [run for run in listed_runs(unpacked(folder)) if fulfils is None or fulfils(run)]
    found = sorted_by(by, found, descending=not ascending)
    if as_json:
        print_json(documents(found))
        return
    console, shown = screen(), chosen_columns(names, found)
    if not found:
        say(console, f"no run in {folder}" + (f" with {where}" if where else ""))
        return
    for line in lines(found, shown, console.width):
        say(console, line)
    if meaning := meaning_of(found, shown):
        say(console, meaning)
