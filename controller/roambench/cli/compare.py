"""`roambench compare`: measured against modelled communication energy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roambench.cli.common_options import JsonOption, RunsArgument, keep_inputs
from roambench.runner.readings_source import (
    InfluxDbOption,
    InfluxTokenFileOption,
    InfluxUrlOption,
    ReadingsOption,
    ReadingsSource,
    open_records,
)

if TYPE_CHECKING:
    from roambench.energy.links.models import LinkModel


def compare(
    runs: RunsArgument,
    html: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Also write one self-contained HTML page."),
    ] = None,
    as_json: JsonOption = False,
    link_model: Annotated[
        str | None,
        typer.Option(
            "--link-model",
            metavar="NAME",
            help="One more model to hold the transfers against: a file or name that `roambench calibrate` "
            "made, or Huang et al.'s lte, wifi or 3g for every link.",
        ),
    ] = None,
    readings: ReadingsOption = ReadingsSource.FOLDER,
    influx_url: InfluxUrlOption = "",
    influx_db: InfluxDbOption = "",
    influx_token_file: InfluxTokenFileOption = None,
) -> None:
    """Set every transfer's measured net energy beside Eq. 1, and say what that decides.

    Examples:
        roambench compare runs/demo/latest
        roambench compare runs/demo/latest --link-model lte -o compare.html
    """
    from roambench.report.comparison import compare_runs, print_comparison
    from roambench.report.report import write_text
    from roambench.runner.screen import print_json, say, screen

    keep_inputs(html, *runs, link_model)
    source = open_records(readings, influx_url, influx_db, influx_token_file)
    made = compare_runs(runs, None if link_model is None else _model(link_model), source)
    if html is not None:
        write_text(html, made.html())
    if as_json:
        print_json(json.loads(made.json()))
        return
    console = screen()
    print_comparison(made, console)
    if html is not None:
        say(console, f"page: {html}")


def _model(name: str) -> LinkModel:
    from roambench.energy.links.radio_work import PAPER, paper_radio
    from roambench.experiment.link_model_file import load_link_model

    return paper_radio(name) if name in PAPER.links else load_link_model(name)
