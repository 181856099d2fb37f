"""`roambench data`: which data sets are at hand, and how an experiment's partition deals one out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from roambench.cli.common_options import JsonOption, keep_inputs
from roambench.cli.run import SetOption
from roambench.contract.errors import DataError

data_app = typer.Typer(name="data", help="Data sets: which are at hand, who gets what.", no_args_is_help=True)


@data_app.command("list")
def list_(as_json: JsonOption = False) -> None:
    """List the data sets: offline, here, or missing, and where their files are looked for.

    Examples:
        roambench data list
        roambench data list --json
    """
    from rich.table import Table

    from roambench.runner.screen import print_json, say, screen

    rows = _datasets()
    if as_json:
        print_json([dict(zip(("name", "state", "folder"), row, strict=True)) for row in rows])
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("data set", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("files", overflow="fold")
    reasons = {"offline": "needs none", "?": "of another package, which knows"}
    for name, state, folder in rows:
        table.add_row(name, state, folder or reasons[state], style="dim" if state == "missing" else None)
    console = screen()
    console.print(table)
    say(
        console,
        "\nFiles are looked for in learning.data_path, else in the folder shown: $ROAMBENCH_DATA/<name>, "
        "else the cache. learning.download = true fetches those that are published. See docs/data.md.",
    )


def _datasets() -> list[tuple[str, str, str | None]]:
    """Name, state and folder of each data set; "?" is one of another package."""
    from roambench.learning.datasets.catalogue import DATASETS, availability

    rows: list[tuple[str, str, str | None]] = []
    for name in DATASETS.names():
        found = availability(name)
        if found is None or found.place is None:
            rows.append((name, "?" if found is None else "offline", None))
        else:
            rows.append((name, "missing" if found.missing else "here", str(found.place)))
    return rows


@data_app.command()
def show(
    file: Annotated[Path, typer.Argument(metavar="EXPERIMENT", help="Experiment file (TOML).")],
    set_: SetOption = None,
    devices: Annotated[int, typer.Option(min=0, help="Devices to print; the totals are of all.")] = 20,
    html: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Also write the plots as a self-contained page."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show who gets which training data in EXPERIMENT: exactly what a run of it would deal out.

    Examples:
        roambench data show my.toml
        roambench data show my.toml --devices 5 -o data.html
    """
    import numpy as np

    from roambench.experiment.load import load_experiment
    from roambench.runner.screen import print_json, say, screen

    experiment = load_experiment(file, list(set_ or []))
    keep_inputs(html, file, experiment.trace.file)

    from roambench.cli import data_tables
    from roambench.contract.whole_file import write_whole
    from roambench.report.pages.data import data_page
    from roambench.report.summaries.data_shares import ap_distances, shares_of
    from roambench.runner.world import learning_task_of, movement_of

    trace = movement_of(experiment).trace
    count = experiment.fleet.agents_of(len(trace.device_names))
    learning_task = learning_task_of(experiment, count)
    names = [f"pi-{number:02d}" for number in range(1, count + 1)]
    groups = learning_task.dataset.groups
    if groups is None:
        raise DataError(f"{file}: labels are no classes, by which this could show who gets what")
    shares = shares_of(names, groups, learning_task.parts, learning_task.dataset.group_count)
    learning = experiment.learning
    title = f"{learning.dataset}, {learning.partition}, {count} devices, seed {experiment.seed}"
    at_aps = None if trace.ap is None else ap_distances(shares, trace)
    used = f"{shares.distinct} of {int(shares.held.sum())} training images are held by some device"
    if as_json:
        facts: dict[str, Any] = {
            "dataset": learning.dataset,
            "partition": learning.partition,
            "alpha": learning.alpha,
            "seed": experiment.seed,
            "test_images": len(learning_task.dataset.test_labels),
        }
        if at_aps is not None:
            facts["distance_of_aps"] = [None if np.isnan(each) else each for each in at_aps.tolist()]
        print_json(facts | data_tables.shares_document(shares))
    else:
        console = screen()
        console.print(title, style="bold", markup=False, soft_wrap=True)
        console.print(data_tables.class_table(shares, devices, console.width))
        console.print()
        console.print(data_tables.spread_table(shares))
        say(console, f"{used}.")
        if at_aps is not None:
            say(console, data_tables.aps_sentence(at_aps))
    if html is not None:
        lines = [
            f"{used}; the test set has {len(learning_task.dataset.test_labels)}.",
            _rule(learning.partition, learning.alpha),
            *([] if at_aps is None else [data_tables.aps_sentence(at_aps)]),
        ]
        try:
            html.parent.mkdir(parents=True, exist_ok=True)
            write_whole(html, data_page(title, lines, shares), synced=False)
        except OSError as error:
            raise DataError(f"{html}: cannot be written ({error})") from None
        if not as_json:
            typer.echo(f"page: {html}")


def _rule(partition: str, alpha: float) -> str:
    return f"Partition {partition}" + (f", alpha = {alpha:g}." if partition.startswith("dirichlet") else ".")
