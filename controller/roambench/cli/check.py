"""`roambench check`: hold what was published of a run against its raw records and its model."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roambench.cli.common_options import JsonOption, RunsArgument
from roambench.contract.errors import ConfigError, RoambenchError

if TYPE_CHECKING:
    from rich.console import Console

    from roambench.runner.checking.findings import CheckFinding
    from roambench.runner.checking.run_check import RunCheck


def check(
    runs: RunsArgument,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Also compare a report of these runs: `report --json` printed it, or a page."
        ),
    ] = None,
    download: Annotated[
        bool, typer.Option("--download", help="Fetch a data set that is missing, to score the model.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check runs: digests of all files, the model scored again, joules from raw records, every figure.

    Exit status: 0 all is equal, 1 something differs and is named, 2 something could not be checked.

    Examples:
        roambench check runs/demo/latest
        roambench check runs/demo/latest --report report.json
    """
    from roambench.runner.checking.checks import check_runs, status_of
    from roambench.runner.screen import print_json, progress_screen

    console = progress_screen(stderr=as_json)
    try:
        checks = check_runs(runs, report=report, download=download)
    except RoambenchError as error:  # what is no run, or goes on, cannot be checked
        raise ConfigError(str(error).splitlines()) from None
    if as_json:
        print_json({"status": status_of(checks), "checks": [asdict(made) for made in checks]})
    else:
        _print(checks, console)
    raise typer.Exit(status_of(checks))


def _print(checks: list[RunCheck], console: Console) -> None:
    from roambench.runner.checking.checks import status_of
    from roambench.runner.checking.run_check import LIMITS
    from roambench.runner.screen import say

    for made in checks:
        say(console, made.name)
        if made.versions:
            say(console, f"! {made.versions}")
        width = max(len(found.what) for found in made.findings)
        for found in made.findings:
            _print_finding(found, width, console)
    say(console, "")
    text = {0: "All is equal", 1: "Something differs", 2: "Something could not be checked"}[status_of(checks)]
    say(console, f"{text}; {LIMITS}.")


def _print_finding(found: CheckFinding, width: int, console: Console) -> None:
    """A line for each difference; a terminal's width breaks none of them."""
    from rich.text import Text

    from roambench.runner.checking.findings import CheckOutcome
    from roambench.runner.screen import say

    style = {
        CheckOutcome.EQUAL: "green",
        CheckOutcome.DIFFERS: "bold red",
        CheckOutcome.NOT_CHECKED: "yellow",
    }
    head = Text.assemble(
        "  ", found.what.ljust(width), "  ", (found.outcome.value, style.get(found.outcome, "dim"))
    )
    console.print(head, soft_wrap=True)
    for text in found.texts:
        say(console, f"    {text}")
