"""`roambench reproduce`: the five papers' tables and figures, each by one command."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from roambench.cli.common_options import JsonOption, with_progress
from roambench.cli.run import SetOption
from roambench.contract.errors import ConfigError, RunError
from roambench.extras.reproduce.scale import CATALOGUE, KEPT, PAGES, RUNS, Scale


def register(app: typer.Typer) -> None:
    """Add the command of this file to `app`."""
    app.command(rich_help_panel="Run")(with_progress(reproduce))


def reproduce(
    studies: Annotated[
        list[str] | None,
        typer.Argument(metavar="STUDY...", help="Names in `--list`; default: all that have this scale."),
    ] = None,
    list_: Annotated[
        bool,
        typer.Option("--list", help="Only list every table and figure: what ran, where, and what came out."),
    ] = False,
    as_json: JsonOption = False,
    scale: Annotated[
        Scale, typer.Option(help="small: minutes on two cores; medium: hours; full: the paper's.")
    ] = Scale.SMALL,
    jobs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Runs at a time; default: one per core.")
    ] = None,
    out: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Where runs go.")] = RUNS,
    pages: Annotated[Path, typer.Option(metavar="DIR", help="Where pages go.")] = PAGES,
    verdicts: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Renew the verdicts and CSV files there, such as docs/results."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="With --verdicts: change nothing, fail if a figure differs.")
    ] = False,
    finished: Annotated[
        bool, typer.Option("--finished", help="Run nothing: pages of the runs that have finished.")
    ] = False,
    trace: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Trace file to use instead of the experiment's.")
    ] = None,
    set_: SetOption = None,
    catalogue: Annotated[
        Path, typer.Option(metavar="FILE", help="The catalogue; run this in a checkout's root.")
    ] = CATALOGUE,
) -> None:
    """Reproduce tables and figures of the five papers: run STUDY's sweep and write its page.

    A page has a line for each claim of the paper: reproduced, reversed, undecided, not tested or not tried.
    --verdicts puts the figures of the chosen studies into the files that a checkout keeps; --check compares.
    Interrupted or killed, the same command goes on from what is there.

    Examples:
        roambench reproduce --list
        roambench reproduce mohawk --scale medium --trace nyc.parquet --finished
    """
    from roambench.extras.reproduce import studies as found
    from roambench.extras.reproduce.catalogue import read_catalogue
    from roambench.extras.reproduce.listing import list_document, list_text, wrapped
    from roambench.runner.screen import print_json, progress_screen, say, screen

    known = read_catalogue(catalogue)
    if list_:
        given = {
            "--scale": scale is not Scale.SMALL,
            "--jobs": jobs is not None,
            "--output": out != RUNS,
            "--pages": pages != PAGES,
            "--check": check,
            "--finished": finished,
            "--trace": trace is not None,
            "--set": bool(set_),
        }
        problems = [
            f"--list: {option}: expected none: it lists what the folder of --verdicts keeps, at every scale"
            for option, is_given in given.items()
            if is_given
        ]
        if verdicts is not None and not verdicts.is_dir():
            problems.append(f"--verdicts {verdicts}: expected a folder of kept figures, such as {KEPT}")
        if problems:
            raise ConfigError(problems)
        known = known.only(studies) if studies else known
        if as_json:
            print_json(list_document(known, verdicts or KEPT))
        else:
            console, text = screen(), list_text(known, verdicts or KEPT)
            say(console, wrapped(text, console.width) if console.is_terminal else text)
        return
    choice = found.Reproduction(
        known, catalogue, scale, out, pages, tuple(set_ or ()), trace, verdicts, check, finished
    )
    console = progress_screen(stderr=as_json)
    pages_made, failed = found.reproduce(
        choice, studies or [], jobs=jobs or os.cpu_count() or 1, console=console
    )
    if as_json:
        print_json([{"study": name, "scale": scale, "page": page} for name, page in pages_made.items()])
    if failed:
        raise RunError("\n".join(failed))
