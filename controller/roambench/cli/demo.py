"""`roambench demo`: a first run, of an experiment that comes with the package."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from roambench.cli.bench_choice import fleet_option
from roambench.cli.common_options import JsonOption
from roambench.cli.report import FullOption
from roambench.cli.run import FreshOption, RunsDirOption, WatchOption, run
from roambench.runner.ready import DEMO
from roambench.runner.torch_build import torch_advice


def demo(
    open_page: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the report, where there is a desktop.")
    ] = True,
    runs_dir: RunsDirOption = Path("runs"),
    fleet: Annotated[
        str,
        fleet_option("local", "simulated", "rehearsal"),
    ] = "local",
    fresh: FreshOption = False,
    full: FullOption = False,
    watch: WatchOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run MOHAWK and HierFAVG on eight emulated boards: 90 s on two cores, nothing to download.

    Examples:
        roambench demo
        roambench demo --fleet simulated --watch
    """
    page = run(
        file=DEMO, fleet=fleet, runs_dir=runs_dir, fresh=fresh, full=full, watch=watch, as_json=as_json
    )
    if advice := torch_advice():
        typer.echo(advice, err=as_json)
    if open_page and page is not None and _has_desktop():
        webbrowser.open(page.resolve().as_uri())


def _has_desktop() -> bool:
    """Return True where the machine has a desktop that shows a browser."""
    if os.environ.get("CI"):
        return False
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
