"""`roambench resume`: go on with a run whose controller died or was stopped."""

from __future__ import annotations

import getpass
import json
import shlex
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from roambench.cli.common_options import JsonOption, WaitOption, keep_inputs
from roambench.cli.report import FullOption, show
from roambench.contract.errors import ConfigError, RoambenchError, RunError
from roambench.study.command_process import fork_trainings

if TYPE_CHECKING:
    from rich.console import Console

    from roambench.report.report import Report

_UNIT: Final = """\
# Goes on with the runs in a folder that a reboot, a power cut or a crash of this machine ended.
[Unit]
Description=roambench goes on with the runs in {folder}
Wants=network-online.target
After=network-online.target time-sync.target

[Service]
Type=exec
User={user}
WorkingDirectory={here}
ExecStart={python} -m roambench.cli.main resume {runs}
Restart=on-abnormal
RestartSec=10
KillMode=mixed
TimeoutStopSec=180

[Install]
WantedBy=multi-user.target
"""


def resume(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", help="Folder of a run that died or was stopped; or of runs: all that died."
        ),
    ],
    html: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Where the HTML report goes.")
    ] = None,
    unit: Annotated[
        bool, typer.Option("--unit", help="Only print a systemd unit that does this at every boot.")
    ] = False,
    full: FullOption = False,
    wait: WaitOption = 0.0,
    as_json: JsonOption = False,
) -> None:
    """Go on with RUN where its controller died or was stopped, to the end that it would have had.

    Where RUN is a folder of runs, with each in it that died or was ended by the system, sweeps and
    comparisons (`ab`) among them; not after a Ctrl-C. --json: a list of reports.

    Examples:
        roambench resume runs/demo
        roambench resume runs/grid --wait 3600
    """
    keep_inputs(html, run)
    if unit:
        typer.echo(_unit(run), nl=False)
        return

    from roambench.runner.screen import print_json, progress_screen, say
    from roambench.study.campaign.interrupted import carry_on, interrupted_campaigns

    console = progress_screen(stderr=as_json)
    say(console, f"look at {run}")  # before torch is read
    from roambench.runner.resuming import ended_by_others, resume_run
    from roambench.runs.info import RunInfo

    problems: list[str] = []
    reports: list[Report] = []
    alone = (run / "run.json").is_file()
    left = [run] if alone else ended_by_others(run)
    for path in left:
        with suppress(RunError):  # its resumption reports that
            fork_trainings(RunInfo.read(path / "run.json").fleet)
    for path in left:
        try:
            resume_run(path, console, wait)
            reports.append(_show(path, html, console, full, as_json))
        except RoambenchError as error:
            if alone:
                raise
            problems.append(str(error))
    campaigns = [] if alone else interrupted_campaigns(run)
    for path in campaigns:
        say(console, f"goes on: {path}")
        try:
            carry_on(path, to_stderr=as_json)
        except RoambenchError as error:
            problems.append(str(error))
    if as_json:
        print_json([json.loads(made.json()) for made in reports])
    if not left and not campaigns:
        say(console, f"{run}: no run to go on with")
    if problems:
        raise RunError("\n".join(problems))


def _show(run: Path, html: Path | None, console: Console, full: bool, as_json: bool) -> Report:
    """The run, beside those of its group; with `as_json` only the page is made."""
    from roambench.report.report import report
    from roambench.runs.groups import REPORT, home_of, run_folders

    grouped = bool(home_of(run))
    runs = list(run_folders(run.parent, 1)) if grouped else [run]
    page = html or run.parent / (REPORT if grouped else f"{run.name}.html")
    if as_json:
        return report(runs, html=page)
    return show(runs, html=page, as_json=False, console=console, full=full)


def _unit(runs: Path) -> str:
    """The unit for the calling user, in the current folder."""
    return _UNIT.format(
        user=getpass.getuser(),
        here=_literal(Path.cwd()),
        folder=_literal(runs.resolve()),
        python=_word(sys.executable),
        runs=_word(runs.resolve()),
    )


def _literal(path: Path | str) -> str:
    """Quote as systemd reads the rest of a line."""
    if not str(path).isprintable():
        raise ConfigError([f"--unit: {path}: expected a path without line breaks and control characters"])
    return str(path).replace("%", "%%")


def _word(path: Path | str) -> str:
    """Quote as systemd reads a word of a command."""
    text = _literal(path).replace("$", "$$")
    if shlex.quote(text) == text:
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
