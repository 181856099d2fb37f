"""`roambench trace`: make traces, import recorded movement, look at either, and export it
(docs/traces.md)."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roambench.cli.common_options import JsonOption, keep_inputs
from roambench.cli.traces.importing import import_
from roambench.cli.traces.options import OutOption, SeedOption, written
from roambench.contract.counts import count
from roambench.contract.errors import ConfigError, TraceError

if TYPE_CHECKING:
    from roambench.mobility.trace import Trace

trace_app = typer.Typer(
    name="trace", help="Mobility traces: generate, import, look at.", no_args_is_help=True
)


class ExportFormat(StrEnum):
    """The formats that traces are exported to."""

    ONE = "one"
    BONNMOTION = "bonnmotion"
    CSV = "csv"
    PARQUET = "parquet"


class AbsentDevices(StrEnum):
    """Treatment of devices while they are absent, by an export."""

    STAND = "stand"
    OMIT = "omit"


@trace_app.command()
def generate(
    generator: Annotated[str, typer.Argument(help="A name of `roambench list generators`.")],
    output: OutOption,
    seed: SeedOption = 42,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="A parameter of the generator, or preset=NAME; repeatable."
        ),
    ] = None,
    stats: Annotated[
        bool, typer.Option("--stats", help="Also print what `trace stats` prints of it.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Generate a synthetic trace and write it.

    Examples:
        roambench trace generate city -o city.parquet --seed 3
        roambench trace generate city -o city.parquet --set devices=20 --stats
    """
    from roambench.experiment import catalogue
    from roambench.experiment.overrides import parse_overrides
    from roambench.experiment.parameters import generator_mistakes
    from roambench.written.mistakes import did_you_mean

    changes, problems = parse_overrides(set_ or [])
    parameters = {".".join(change.path): change.value for change in changes}
    known = catalogue.table("generators").names()
    if generator not in known:
        hint = did_you_mean(generator, known)
        raise ConfigError(
            [*problems, f'generator: expected one of {", ".join(known)}, got "{generator}"{hint}']
        )
    row = catalogue.table("generators").load(generator)
    problems += [f"--set {mistake}" for mistake in generator_mistakes(row, parameters)]
    if problems:
        raise ConfigError(problems)

    from roambench.mobility.files import write_trace

    trace = row.generate(seed, parameters)
    found_hash = write_trace(trace, output)
    if not stats:
        written(output, trace, found_hash, as_json=as_json)
        return
    if not as_json:
        written(output, trace, found_hash, as_json=False)
    _print_statistics(trace, seed, None, as_json)


trace_app.command("import")(import_)


@trace_app.command()
def plot(
    file: Annotated[Path, typer.Argument(metavar="TRACE", help="A trace file.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FOLDER", help="Where trace.html goes; made if missing.")
    ],
    png: Annotated[
        bool, typer.Option("--png", help="Also each figure as a PNG file (needs a Chromium-based browser).")
    ] = False,
    seed: SeedOption = 42,
) -> None:
    """Draw the trace on one HTML page, with Fig. 2, Fig. 3 and Table 5 of MOHAWK made of it.

    Examples:
        roambench trace plot city.parquet -o plots
        roambench trace plot city.parquet -o plots --png
    """
    from roambench.contract.whole_file import write_whole
    from roambench.mobility.files import content_hash, read_trace
    from roambench.mobility.statistics import trace_statistics
    from roambench.report.traces.figures import trace_figures
    from roambench.report.traces.page import trace_page
    from roambench.report.traces.pictures import browser, write_pictures

    target = output / "trace.html"
    keep_inputs(target, file)
    if png:
        browser()
    trace = read_trace(file)
    found = trace_statistics(trace, seed=seed)
    figures = trace_figures(trace, seed)
    page = trace_page(file.stem, trace, found, figures, content_hash(trace))
    try:
        output.mkdir(parents=True, exist_ok=True)
        write_whole(target, page, synced=False)
        typer.echo(f"page: {target}")
        for picture in write_pictures(figures, output) if png else []:
            typer.echo(f"picture: {picture}")
    except OSError as error:
        raise TraceError(f"{output}: cannot be written ({error.strerror or error})") from None


@trace_app.command()
def export(
    file: Annotated[Path, typer.Argument(metavar="TRACE", help="A trace file.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="File to write.")],
    form: Annotated[
        ExportFormat,
        typer.Option(
            "--format",
            help="one: The ONE's ExternalMovement. bonnmotion: .movements and .params. csv: a table, and one "
            "of the access points. parquet: our own.",
        ),
    ],
    absent: Annotated[
        AbsentDevices | None,
        typer.Option(
            help="Devices that are away: stand where they were, or left out. Default: stand for one and "
            "bonnmotion, whose programs know no absence."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write a trace for another program.

    Examples:
        roambench trace export city.parquet -o city.csv --format csv
        roambench trace export city.parquet -o city.one --format one
    """
    from roambench.mobility.exporting import export_trace
    from roambench.mobility.files import read_trace
    from roambench.mobility.trace import MADE_UP

    keep_inputs(output, file)
    trace = read_trace(file)
    done = export_trace(trace, output, form.value, None if absent is None else absent.value)
    for note in (*([MADE_UP] if trace.made_up else []), *done.notes):
        typer.echo(note, err=True)
    counts = {"steps": trace.steps, "devices": len(trace.device_names), "fixes": len(trace.step)}
    if as_json:
        from roambench.runner.screen import print_json

        print_json({"files": list(done.paths), **counts})
        return
    typer.echo(
        f"{', '.join(str(path) for path in done.paths)}: {count(trace.steps, 'step')}, "
        f"{count(len(trace.device_names), 'device')}, {len(trace.step)} fixes"
    )


@trace_app.command()
def stats(
    file: Annotated[Path, typer.Argument(metavar="TRACE", help="A trace file.")],
    seed: SeedOption = 42,
    utc_offset_h: Annotated[
        float | None, typer.Option(help="Local time of the hour profile. Default: the trace's own.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print what the trace is like, beside MOHAWK's published figures and those of New York's check-ins.

    Examples:
        roambench trace stats city.parquet
        roambench trace stats city.parquet --utc-offset-h -4
    """
    from roambench.mobility.files import content_hash, read_trace

    trace = read_trace(file)
    _print_statistics(trace, seed, utc_offset_h, as_json)
    if not as_json:
        typer.echo(f"content hash {content_hash(trace)}")


def _print_statistics(trace: Trace, seed: int, utc_offset_h: float | None, as_json: bool) -> None:
    from roambench.cli.trace_tables import statistics_document, statistics_tables
    from roambench.mobility.files import content_hash
    from roambench.mobility.statistics import trace_statistics
    from roambench.report.console import print_table
    from roambench.runner.screen import print_json, screen

    found = trace_statistics(trace, seed=seed, utc_offset_h=utc_offset_h)
    if as_json:
        print_json(statistics_document(found, content_hash(trace)))
        return
    console = screen()
    for table in statistics_tables(found):
        print_table(table, console, caption=True)


@trace_app.command()
def show(
    file: Annotated[Path, typer.Argument(metavar="TRACE", help="A trace file.")],
    step: Annotated[int | None, typer.Option(min=0, help="Show who is where at this step.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Print where a trace comes from and how many are present, or one step in full.

    Examples:
        roambench trace show city.parquet
        roambench trace show city.parquet --step 12
    """
    from roambench.cli.trace_tables import (
        overview_document,
        overview_table,
        step_document,
        step_table,
    )
    from roambench.mobility.association import NearestAp, RecordedAp
    from roambench.mobility.files import content_hash, read_trace
    from roambench.report.console import print_table
    from roambench.runner.screen import print_json, screen

    trace = read_trace(file)
    if step is not None and step >= trace.steps:
        raise TraceError(f"--step {step}: expected 0..{trace.steps - 1}, the steps of {file}")
    if step is None and as_json:
        print_json(overview_document(trace, content_hash(trace)))
    elif step is None:
        print_table(overview_table(trace, content_hash(trace)), screen(), most_rows=None)
    else:
        rule = NearestAp(trace) if trace.ap is None else RecordedAp(trace)
        placement = rule.placement(step)
        if as_json:
            print_json(step_document(trace, placement))
        else:
            print_table(step_table(trace, placement), screen(), most_rows=None)
