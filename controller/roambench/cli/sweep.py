"""`roambench sweep`: one experiment over a grid of keys and seeds, and one table at the end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Final

import typer

from roambench.cli.bench_choice import CampaignChoice, HostChoice
from roambench.cli.common_options import JsonOption, takes_options
from roambench.cli.run import FreshOption, SetOption

#: As many runs take a second to check, and are counted before.
_MANY: Final = 1_000


@takes_options
def sweep(
    *,
    file: Annotated[Path, typer.Argument(metavar="SWEEP", help="Sweep file (TOML), see docs/sweeps.md.")],
    jobs: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Runs at a time; default: one per core, on a local fleet 1."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="Where runs and tables go; default: runs/SWEEP."),
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Trace file to use instead of the experiment's.")
    ] = None,
    set_: SetOption = None,
    fresh: FreshOption = False,
    table: Annotated[
        bool, typer.Option("--table", help="Only print the table of what has finished.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Only check the file and list its runs; nothing is run.")
    ] = False,
    hosts: HostChoice,
    campaign: CampaignChoice,
    as_json: JsonOption = False,
) -> None:
    """Run every point of SWEEP that has not finished yet, then print mean ± sd over the seeds.

    Interrupted or killed, the same command goes on from what is there. Runs that failed are tried again.

    Examples:
        roambench sweep grid.toml --check
        roambench sweep grid.toml --jobs 2 -o runs/grid
    """
    from roambench.runner.screen import SWEEP_PHASES, phase, progress_screen, say

    console = progress_screen(stderr=as_json)
    if not (check or table):
        phase(console, 1, SWEEP_PHASES, f"check {file}")  # before what reads it is imported
    from roambench.contract.errors import ConfigError
    from roambench.runner.places.table import fleet_of
    from roambench.study.campaign.listeners import notifying
    from roambench.study.sweep.points import run_count
    from roambench.study.sweep.sweep_file import read_sweep
    from roambench.study.sweep.sweep_runner import check_sweep, run_sweep, show_sweep

    sweep_file = read_sweep(file, set_ or (), trace)
    if (runs := run_count(sweep_file)) >= _MANY:
        say(console, f"{file}: {runs:,} runs to check")
    folder = out or Path("runs") / file.stem
    if check:
        check_sweep(sweep_file, out=folder, console=console, as_json=as_json)
    elif table:
        show_sweep(sweep_file, out=folder, console=console, as_json=as_json)
    else:
        kind, _ = fleet_of(sweep_file.fleet)
        if kind.has_file and (jobs or 1) > 1:
            raise ConfigError([f"--jobs {jobs}: expected 1: a bench carries one run at a time"])
        usual = 1 if kind.has_agents else os.cpu_count() or 1
        with notifying(folder, campaign.notify, campaign.summary_at, console) as heard:
            run_sweep(
                sweep_file,
                jobs=jobs or usual,
                out=folder,
                console=console,
                fresh=fresh,
                campaign=campaign.campaign_options(heard, on_bench=kind.has_file),
                bench=hosts.bench_options(spares_wait=True) if kind.has_file else None,
                as_json=as_json,
            )
