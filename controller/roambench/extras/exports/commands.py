"""The exporters below `roambench export`: arguments and options."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from roambench.cli.common_options import JsonOption, RunsArgument


def _summable(runs: list[Path]) -> list[Path]:
    from roambench.report.tracked import summable

    return summable(runs, lambda sentence: typer.echo(sentence, err=True))


def tensorboard(
    runs: RunsArgument,
    out: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="DIR", help="Log directory: a folder per run is made in it."),
    ],
) -> None:
    """Write accuracy, loss, devices and joules of every step as TensorBoard files.

    The points of a sweep are a folder each. It needs the extra `tensorboard`.

    Examples:
        roambench export tensorboard runs/demo/latest -o logs
        roambench export tensorboard runs/grid -o logs
    """
    from roambench.extras.exports.tensorboard import export_tensorboard

    for place in export_tensorboard(_summable(runs), out):
        typer.echo(place)


def mlflow(
    runs: RunsArgument,
    uri: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="URI|DIR",
            help="A tracking server or database, or a folder for mlflow.db.",
        ),
    ],
    experiment: Annotated[
        str, typer.Option(metavar="NAME", help="MLflow's experiment; else the name in the experiment file.")
    ] = "",
    artifacts: Annotated[
        float,
        typer.Option(
            metavar="MIB", min=0.0, help="Also store the report page and the tables, files up to this size."
        ),
    ] = 0.0,
    as_json: JsonOption = False,
) -> None:
    """Write runs into an MLflow store: settings, every step, and final energies with their uncertainty.

    The points of a sweep are children of a run of its name. It needs the extra `mlflow`.

    Examples:
        roambench export mlflow runs/demo/latest -o mlflow
        roambench export mlflow runs/grid -o http://localhost:5000
    """
    from roambench.extras.exports.mlflow import export_mlflow
    from roambench.runner.screen import print_json

    exported = export_mlflow(_summable(runs), uri, experiment=experiment, artifacts_mib=artifacts)
    if as_json:
        print_json([asdict(made) for made in exported])
        return
    for made in exported:
        typer.echo(f"{made.name}: run {made.mlflow_id} of experiment {made.experiment}")
        for file in made.left_out:
            typer.echo(f"{made.name}: {file} is over --artifacts and was left out", err=True)


def wandb(
    runs: RunsArgument,
    out: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="DIR", help="A folder wandb with the runs is made in it."),
    ],
    project: Annotated[
        str, typer.Option(metavar="NAME", help="Their project; else the name in the experiment file.")
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Write runs as offline runs of Weights & Biases; nothing is sent, `wandb sync` would do that.

    The points of a sweep are a group. It needs the extra `wandb`.

    Examples:
        roambench export wandb runs/demo/latest -o logs
        roambench export wandb runs/grid -o logs --project mobility
    """
    from roambench.extras.exports.wandb import export_wandb
    from roambench.runner.screen import print_json

    exported = export_wandb(_summable(runs), out, project=project)
    if as_json:
        print_json([asdict(made) for made in exported])
        return
    for made in exported:
        typer.echo(f"{made.name}: {made.folder}")


def ro_crate(
    runs: RunsArgument,
    out: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR|FILE.zip", help="A new folder, or a zip file.")
    ],
    license_: Annotated[
        str, typer.Option("--license", metavar="SPDX|URL", help="Of the data: CC-BY-4.0, for example.")
    ],
    title: Annotated[str, typer.Option(metavar="TEXT", help="The crate's name.")] = "",
    author: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="An author; as often as wanted.")
    ] = None,
) -> None:
    """Pack runs with their report, raw records, trace and truth for artifact evaluation or an archive.

    An RO-Crate of version 1.1 that `roambench check`, `report` and `compare` open. No key, log or description
    of a bench goes into it. It needs the extra `ro-crate`.

    Examples:
        roambench export ro-crate runs/demo/latest -o demo.zip --license CC0-1.0
        roambench export ro-crate runs/grid -o grid --license CC-BY-4.0
    """
    from roambench.extras.exports.ro_crate import About, export_ro_crate

    about = About(license_, title, tuple(author or ()))
    typer.echo(export_ro_crate(_summable(runs), out, about, lambda text: typer.echo(text, err=True)))
