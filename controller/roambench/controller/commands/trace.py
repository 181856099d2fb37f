"""`roambench trace`: make traces, import recorded movement, and look at either."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roambench.contract.errors import ConfigError, TraceError
from roambench.controller.commands.trace_export import export
from roambench.controller.commands.trace_import import import_
from roambench.controller.commands.trace_options import OutOption, SeedOption, written
from roambench.controller.commands.trace_plot import plot

trace_app = typer.Typer(
    name="trace", help="Mobility traces: generate, import, look at.", no_args_is_help=True
)


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
) -> None:
    """Generate a synthetic trace and write it."""
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
    written(output, write_trace(trace, output), trace.steps, len(trace.device_names), len(trace.step))
    if stats:
        from rich.console import Console

        from roambench.controller.trace_tables import statistics_tables
        from roambench.mobility.statistics import trace_statistics

        for table in statistics_tables(trace_statistics(trace, seed=seed)):
            Console().print(table)


trace_app.command("import")(import_)
trace_app.command()(plot)
trace_app.command("export")(export)


@trace_app.command()
def stats(
    file: Annotated[Path, typer.Argument(metavar="TRACE", help="A trace file.")],
    seed: SeedOption = 42,
    utc_offset_h: Annotated[
        float | None, typer.Option(help="Local time of the hour profile. Default: the trace's own.")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Print what the trace is like, beside MOHAWK's published figures and those of New York's check-ins."""
    from rich.console import Console

    from roambench.controller.trace_tables import statistics_document, statistics_tables
    from roambench.mobility.files import content_hash, read_trace
    from roambench.mobility.statistics import trace_statistics

    trace = read_trace(file)
    found = trace_statistics(trace, seed=seed, utc_offset_h=utc_offset_h)
    if json_:
        typer.echo(statistics_document(found, content_hash(trace)))
        return
    console = Console()
    for table in statistics_tables(found):
        console.print(table)
        console.print()
    console.print(f"content hash {content_hash(trace)}", soft_wrap=True)


@trace_app.command()
def show(
    file: Annotated[Path, typer.Argument(metavar="TRACE", help="A trace file.")],
    step: Annotated[int | None, typer.Option(min=0, help="Show who is where at this step.")] = None,
) -> None:
    """Print where a trace comes from and how many are present, or one step in full."""
    from rich.console import Console

    from roambench.controller.trace_tables import overview_table, step_table
    from roambench.mobility.association import NearestAp
    from roambench.mobility.files import content_hash, read_trace

    trace = read_trace(file)
    if step is not None and step >= trace.steps:
        raise TraceError(f"--step {step}: expected 0..{trace.steps - 1}, the steps of {file}")
    console = Console()
    if step is None:
        console.print(overview_table(trace, content_hash(trace)))
    else:
        console.print(step_table(trace, NearestAp(trace).placement(step)))
