"""`roambench trace`: make traces, import recorded movement, and look at either."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roambench.contract.errors import ConfigError, TraceError

if TYPE_CHECKING:
    from roambench.mobility.importing import Imported
    from roambench.mobility.projection import Box

trace_app = typer.Typer(
    name="trace", help="Mobility traces: generate, import, look at.", no_args_is_help=True
)

OutOption = Annotated[
    Path, typer.Option("-o", "--output", metavar="FILE", help="Trace file to write (Parquet).")
]
SeedOption = Annotated[int, typer.Option(min=0, help="Keys every random draw.")]


@trace_app.command()
def generate(
    generator: Annotated[str, typer.Argument(help="A name of `roambench list generators`.")],
    output: OutOption,
    seed: SeedOption = 42,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A parameter of the generator; repeatable."),
    ] = None,
) -> None:
    """Generate a synthetic trace and write it."""
    from roambench.controller import catalogue
    from roambench.controller.config.mistakes import did_you_mean
    from roambench.controller.config.overrides import parse_overrides
    from roambench.controller.config.parameters import parameter_mistakes

    changes, problems = parse_overrides(set_ or [])
    parameters = {".".join(change.path): change.value for change in changes}
    known = catalogue.names("generators")
    if generator not in known:
        hint = did_you_mean(generator, known)
        raise ConfigError(
            [*problems, f'generator: expected one of {", ".join(known)}, got "{generator}"{hint}']
        )
    row = catalogue.load("generators", generator)
    problems += [f"--set {mistake}" for mistake in parameter_mistakes(row.parameters, parameters)]
    if problems:
        raise ConfigError(problems)

    from roambench.mobility.files import write_trace

    trace = row.generate(seed, parameters)
    _written(output, write_trace(trace, output), trace.steps, len(trace.device_names), len(trace.step))


@trace_app.command("import")
def import_(
    reader: Annotated[str, typer.Argument(help="Format: a name of `roambench list readers`.")],
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Recorded movement; .gz, .xz and .bz2 too.")
    ],
    output: OutOption,
    box: Annotated[
        str | None,
        typer.Option(
            metavar="LAT,LON,SIDE_M",
            help="Keep a square around this centre. Default: 17,500 m around the median fix.",
        ),
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="TIME", help="First step, ISO 8601 (UTC). Default: the densest midnight."
        ),
    ] = None,
    steps: Annotated[int, typer.Option(help="Number of steps.")] = 744,
    step_s: Annotated[int, typer.Option("--step-s", help="Length of a step in seconds.")] = 3600,
    top: Annotated[int, typer.Option(help="Keep this many busiest devices; 0: all.")] = 1000,
    aps: Annotated[int, typer.Option(help="Access points, drawn from the places.")] = 100,
    seed: SeedOption = 42,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD=COLUMN,...",
            help="Columns of device, time, lat, lon and place where their names are unusual.",
        ),
    ] = None,
    time_format: Annotated[str, typer.Option(help="How times are written; auto looks at them.")] = "auto",
    strict: Annotated[bool, typer.Option(help="Refuse a file with malformed rows.")] = False,
) -> None:
    """Make a trace of recorded movement, for example check-ins: who was where, when."""
    from roambench.controller import catalogue
    from roambench.controller.config.mistakes import did_you_mean
    from roambench.mobility.files import write_trace
    from roambench.mobility.importing import import_trace
    from roambench.mobility.readers.opening import SourceOptions
    from roambench.mobility.recipe import Recipe

    problems: list[str] = []
    known = catalogue.names("readers")
    if reader not in known:
        hint = did_you_mean(reader, known)
        problems.append(f'reader: expected one of {", ".join(known)}, got "{reader}"{hint}')
    square = _box(box, problems)
    start_utc_s = _utc_s(from_, problems)
    column_map = _column_map(columns, problems)
    if problems:
        raise ConfigError(problems)
    recipe = Recipe(
        box=square,
        start_utc_s=start_utc_s,
        steps=steps,
        step_s=step_s,
        devices=top or None,
        aps=aps,
        seed=seed,
    )
    found = import_trace(reader, files, recipe, SourceOptions(columns=column_map, time_format=time_format))
    _tell_malformed(found, strict)
    trace = found.trace
    _written(output, write_trace(trace, output), trace.steps, len(trace.device_names), len(trace.step))


@trace_app.command()
def stats(
    file: Annotated[Path, typer.Argument(metavar="TRACE", help="A trace file.")],
    seed: SeedOption = 42,
    utc_offset_h: Annotated[
        float | None, typer.Option(help="Local time of the hour profile. Default: the trace's own.")
    ] = None,
) -> None:
    """Print what the trace is like, beside the figures MOHAWK publishes."""
    from rich.console import Console

    from roambench.controller.trace_tables import statistics_tables
    from roambench.mobility.files import content_hash, read_trace
    from roambench.mobility.statistics import trace_statistics

    trace = read_trace(file)
    found = trace_statistics(trace, seed=seed, utc_offset_h=utc_offset_h)
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


def _box(text: str | None, problems: list[str]) -> Box | None:
    from roambench.mobility.projection import Box

    if text is None:
        return None
    try:
        latitude, longitude, side_m = (float(part) for part in text.split(","))
        return Box.square(latitude, longitude, side_m)
    except TraceError as error:
        problems.append(f"--box {text}: {error}")
    except ValueError:
        problems.append(f"--box {text}: expected LAT,LON,SIDE_M, for example 40.7350,-73.9900,17500")
    return None


def _utc_s(text: str | None, problems: list[str]) -> int | None:
    if text is None:
        return None
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        problems.append(f"--from {text}: expected an ISO 8601 time, for example 2012-04-17T00:00Z")
        return None
    return round((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp())


def _column_map(text: str | None, problems: list[str]) -> dict[str, str]:
    columns: dict[str, str] = {}
    for part in text.split(",") if text else []:
        field, equals, column = part.partition("=")
        if not equals or not field.strip() or not column.strip():
            problems.append(f"--columns {part}: expected FIELD=COLUMN, for example device=user_id")
        else:
            columns[field.strip()] = column.strip()
    return columns


def _tell_malformed(found: Imported, strict: bool) -> None:
    if not found.malformed:
        return
    sentence = f"{found.malformed} of {found.rows} rows are malformed"
    rows = [str(row) for row in found.malformed_rows]
    if strict:
        raise TraceError("\n".join([f"{sentence}, and --strict refuses them; the first:", *rows]))
    typer.echo(f"{sentence} and were left out; the first:", err=True)
    for row in rows:
        typer.echo(f"  {row}", err=True)


def _written(output: Path, found_hash: str, steps: int, devices: int, fixes: int) -> None:
    typer.echo(f"{output}: {steps} steps, {devices} devices, {fixes} fixes, content hash {found_hash[:12]}")
