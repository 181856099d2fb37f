"""`roambench trace import`: recorded or simulated movement into a trace; see docs/traces.md."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roambench.cli.common_options import JsonOption, keep_inputs
from roambench.cli.traces import import_texts as texts
from roambench.cli.traces.options import SeedOption, written
from roambench.contract.errors import ConfigError, TraceError

if TYPE_CHECKING:
    from roambench.mobility.importing import Imported

_HARDLY_ANYBODY_DEG = 70.0  # north of the last towns, and Antarctica


def import_(
    context: typer.Context,
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="[FORMAT] PATH...",
            help="A name of `roambench list readers` (left out with --detect), then files or directories; "
            ".gz, .xz, .bz2, .zip and .tar too.",
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Trace file to write (Parquet).")
    ] = None,
    detect: Annotated[
        bool, typer.Option("--detect", help="Guess the format and say why; import with it if -o is given.")
    ] = False,
    box: Annotated[
        str | None,
        typer.Option(
            metavar="LAT,LON,SIDE_M | X,Y,WIDTH,HEIGHT",
            help="Keep a square around this centre, or a rectangle from this corner of a plane in metres. "
            "Default: 17,500 m around the median fix, or the whole plane.",
        ),
    ] = None,
    box_corners: Annotated[
        str | None,
        typer.Option(
            metavar="SOUTH,WEST,NORTH,EAST",
            help="Keep a rectangle in degrees, borders included; instead of --box.",
        ),
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="TIME",
            help="First step: ISO 8601 (in --time-zone if it names no zone) or seconds. Default: the "
            "densest midnight or second 0.",
        ),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Number of steps. Default: 744; a simulation's end.")
    ] = None,
    step_s: Annotated[int, typer.Option("--step-s", help="Length of a step in seconds.")] = 3600,
    reduce: Annotated[
        str,
        typer.Option(
            metavar="first | last | mode",
            help="Which of several fixes in a step counts; mode: the first at the place with most of them.",
        ),
    ] = "first",
    presence: Annotated[
        str,
        typer.Option(
            metavar="event | hold:STEPS | interval | always",
            help="When a device is there: in the steps of its fixes, also for this many steps after each, as "
            "interval data say, or from the first step to the last.",
        ),
    ] = "event",
    outage: Annotated[
        str,
        typer.Option(
            metavar="keep | drop | mark",
            help="Steps in which the recording has a hole: replay them empty, leave them out, or mark them.",
        ),
    ] = "keep",
    metric: Annotated[
        str,
        typer.Option(metavar="metres | degrees", help="degrees: distances as MOHAWK's code measures them."),
    ] = "metres",
    ap_draw: Annotated[
        str,
        typer.Option(
            metavar="pcg64 | pcg64_text | mohawk",
            help="mohawk: access points as its code draws them; pcg64_text: from ids sorted as text.",
        ),
    ] = "pcg64",
    top: Annotated[int, typer.Option(help="Keep this many busiest devices; 0: all.")] = 1000,
    aps: Annotated[
        int | None,
        typer.Option(
            metavar="INTEGER",
            parser=texts.number_of_aps,
            help="Access points, drawn from the places. Default: 100, or all places if fewer.",
        ),
    ] = None,
    ap_source: Annotated[
        str,
        typer.Option(
            metavar="draw | places | stations | FILE",
            help="Access points: drawn, every place, those the source names, or a CSV of ap and lat,lon or "
            "x,y. Default: those the source names, else drawn.",
        ),
    ] = "auto",
    ap_columns: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD=COLUMN,...", help="Columns of the file of --ap-source: ap, lat and lon or x and y."
        ),
    ] = None,
    ap_hosts: Annotated[
        str | None,
        typer.Option(metavar="HOST,...", help="Hosts of a contact log that are access points: 0-9,45."),
    ] = None,
    seed: SeedOption = 42,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD=COLUMN,...",
            help="Columns where their names are unusual: device, time, lat, lon, place, ...",
        ),
    ] = None,
    time_format: Annotated[
        str,
        typer.Option(
            metavar="NAME | PATTERN",
            help="How times are written: auto, iso, unix, unix_ms, foursquare, or a pattern such as "
            "%d.%m.%Y %H:%M.",
        ),
    ] = "auto",
    time_zone: Annotated[
        str,
        typer.Option(metavar="ZONE", help="Of times that name none: Europe/Berlin, +02:00. Default: UTC."),
    ] = "",
    utc_offset_h: Annotated[
        float | None, typer.Option(help="Of local times in the source. Default: the format's own.")
    ] = None,
    globe: Annotated[
        bool | None, typer.Option("--globe/--plane", help="SUMO: degrees or metres. Default: as it says.")
    ] = None,
    strict: Annotated[bool, typer.Option(help="Refuse a file with malformed rows.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Make a trace of recorded or simulated movement: who was where, when.

    Examples:
        roambench trace import csv bikes.csv -o bikes.parquet
        roambench trace import --detect bikes.csv
    """
    from roambench.mobility.files import write_trace
    from roambench.mobility.importing import import_trace
    from roambench.mobility.readers.opening import SourceOptions
    from roambench.mobility.recipe import Recipe

    problems: list[str] = []
    column_map = texts.column_map(columns, problems)
    reader, paths = "", arguments
    if not detect:
        reader, paths = arguments[0], arguments[1:]
        problems = [*_reader_problems(reader, paths), *problems]
        if output is None:
            problems.append("-o: missing, the trace file to write")
    elif len(arguments) > 1 and not _reader_problems(arguments[0], arguments[1:]):
        paths = arguments if Path(arguments[0]).exists() else arguments[1:]
    ap_map = texts.column_map(ap_columns, problems, "--ap-columns")
    area = texts.area(box, box_corners, problems)
    start_utc_s = texts.utc_s(from_, time_zone, problems)
    hosts = texts.hosts(ap_hosts, problems)
    source, aps_file = texts.ap_source(ap_source, problems)
    policies = texts.policies(
        problems,
        steps=steps,
        step_s=step_s,
        aps=aps,
        devices=top or None,
        reduce=reduce,
        presence=presence,
        outage=outage,
        metric=metric,
        ap_draw=ap_draw,
    )
    offset_is_wrong = utc_offset_h is not None and not -24.0 <= utc_offset_h <= 24.0
    if offset_is_wrong:
        problems.append(f"--utc-offset-h {utc_offset_h}: expected hours, -24 to 24")
    if time_zone and utc_offset_h is not None:
        problems.append("--time-zone: not together with --utc-offset-h")
    more = ""
    if detect:
        if problems:
            raise ConfigError(problems)
        more = _given(context, "detect", "output", "columns", "time_format", "ap_source")
        reader, paths, ap_list = _detected(
            [Path(path) for path in paths], column_map, output, time_format, more
        )
        if not reader:
            return
        if ap_list is not None and ap_source == "auto":
            source, aps_file = texts.ap_source(str(ap_list), problems)
    if ap_map and aps_file is None:
        problems.append("--ap-columns: expected --ap-source FILE beside it")
    problems += [] if utc_offset_h is None or offset_is_wrong else _offset_problems(reader)
    tables = {"--columns": columns, "--time-zone": time_zone}
    tables["--time-format"] = "" if time_format == "auto" else time_format
    problems += _column_problems(reader, [option for option, given in tables.items() if given])
    if problems:
        raise ConfigError(problems)
    if output is None:
        shown = {name: tables[name] for name in ("--columns", "--time-format")}
        shown["--ap-source"] = str(aps_file or ("" if ap_source == "auto" else ap_source))
        words = [word for name, value in shown.items() if value for word in (name, value)]
        command = ["roambench", "trace", "import", reader, *paths, "-o", "t.parquet", *words]
        typer.echo(f"{shlex.join(command)}{more}")
        return
    recipe = Recipe(
        box=area,
        start_utc_s=start_utc_s,
        **policies,
        seed=seed,
        ap_source=source,
    )
    options = SourceOptions(
        columns=column_map,
        time_format=time_format,
        time_zone=time_zone,
        utc_offset_h=utc_offset_h,
        ap_hosts=hosts,
        globe=globe,
    )
    keep_inputs(output, *paths, aps_file, ending=".parquet")
    found = import_trace(reader, [Path(path) for path in paths], recipe, options, aps_file, ap_map)
    _print_rows(found, strict)
    _print_times(found, time_zone or ("UTC" if utc_offset_h is None else ""))
    _print_aps(found, drawn=aps is None)
    _print_presence(found)
    _print_holes(found)
    trace = found.trace
    written(output, trace, write_trace(trace, output), as_json=as_json)


def _detected(
    paths: Sequence[Path], columns: Mapping[str, str], output: Path | None, time_format: str, more: str
) -> tuple[str, list[str], Path | None]:
    """Return the best guess, its files and the list of access points among them, and print all guesses; ""
    after a proposal, whose columns a user has to look at; `more` are options behind its command.

    TraceError when nothing is recognised, or a file was to be written of what is proposed only.
    """
    from roambench.mobility.readers.detecting import UnknownFormat, detect, without_ap_list

    paths, ap_list = without_ap_list(paths)
    if ap_list is not None:
        typer.echo(f"looks like a list of access points, no movement: {ap_list} (--ap-source)", err=True)
    try:
        guesses = detect(paths, columns, ap_list, time_format)
    except UnknownFormat as error:
        for line in error.advice:
            typer.echo(f"{line}{more}" if line == error.advice[0] else line)
        if not error.advice or "=..." in error.advice[0]:
            raise
        if output is not None:
            raise TraceError(f"{error.assumption}, and type it; {output} was not written") from None
        typer.echo(error.assumption, err=True)
        return "", [], ap_list
    for guess in guesses:
        typer.echo(f"looks like {guess}", err=True)
    return guesses[0].reader, [*map(str, paths)], ap_list


def _given(context: typer.Context, *but: str) -> str:
    """The options of the command line but for these, as they go behind a command."""
    words: list[str] = []
    for option in context.command.params:
        value, name = context.params.get(option.name or ""), option.name or ""
        source = context.get_parameter_source(name)
        if option.param_type_name == "option" and name not in but and source and source.name == "COMMANDLINE":
            spelling = option.secondary_opts[0] if value is False else option.opts[0]
            words += [spelling] if isinstance(value, bool) else [spelling, str(value)]
    return "".join(f" {shlex.quote(word)}" for word in words)


def _reader_problems(reader: str, paths: Sequence[str]) -> list[str]:
    from roambench.experiment import catalogue
    from roambench.written.mistakes import did_you_mean

    known = catalogue.table("readers").names()
    if reader not in known:
        hint = "; it is a file: --detect guesses its format" if Path(reader).exists() else ""
        hint = hint or did_you_mean(reader, known)
        return [f'reader: expected one of {", ".join(known)}, got "{reader}"{hint}']
    return [] if paths else ["PATH: missing, the files or directories to import"]


def _offset_problems(reader: str) -> list[str]:
    """An offset that would be passed over in silence."""
    from roambench.mobility.readers import READERS

    if not READERS.is_ours(reader) or READERS.load(reader).utc_offset_h is not None:
        return []
    return [
        f"--utc-offset-h: times of {reader} are UTC, or say their own offset, or --time-zone says it; for "
        "local hours in statistics give it to `trace stats`"
    ]


def _column_problems(reader: str, given: Sequence[str]) -> list[str]:
    """Options of tables that another format would pass over in silence."""
    from roambench.mobility.readers import READERS

    if not given or not READERS.is_ours(reader) or READERS.load(reader).takes_columns:
        return []
    return [f"{', '.join(given)}: {reader} has its own columns and times; tables are csv or intervals"]


def _print_times(found: Imported, zone: str) -> None:
    """Print the zone of times that name none, and which of them mean two times or none."""
    from roambench.mobility.readers.zones import REPEATED, SKIPPED, WITHOUT_ZONE

    doubts = found.time_doubts
    if zone and doubts.get(WITHOUT_ZONE):
        more = " (--time-zone gives another)" if zone == "UTC" else ""
        typer.echo(f"times: {doubts[WITHOUT_ZONE]} without a zone, taken as {zone}{more}", err=True)
    if doubts.get(REPEATED):
        typer.echo(
            f"times: {doubts[REPEATED]} lie in an hour that clocks of {zone} show twice, taken as the first; "
            "write them in UTC or with an offset",
            err=True,
        )
    if doubts.get(SKIPPED):
        typer.echo(f"times: {doubts[SKIPPED]} lie in an hour that clocks of {zone} skip", err=True)


def _print_aps(found: Imported, *, drawn: bool) -> None:
    """Fewer places than access points would be drawn, and access points of a file that are left out."""
    if found.aps_outside:
        of = found.aps_outside + len(found.trace.ap_names)
        typer.echo(
            f"access points: {found.aps_outside} of {of} lie outside the box and are left out", err=True
        )
    points, places = len(found.trace.ap_names), len(found.trace.place_x_m)
    if drawn and found.trace.ap is None and points == places < 100:
        typer.echo(f"access points: all of the {places} places, as there are not 100 to draw", err=True)


def _print_presence(found: Imported) -> None:
    """Movement for ns-2 of which nothing says when who comes and goes."""
    trace = found.trace
    if trace.provenance["reader"] == "ns2" and len(trace.step) == trace.steps * len(trace.device_names):
        typer.echo(
            "every node is there in every step, as the file does not say when it comes and goes: give SUMO's "
            "activity.tcl beside mobility.tcl, or read its FCD output",
            err=True,
        )


def _print_holes(found: Imported) -> None:
    """Steps without any device, their likely cause, and their treatment."""
    counts, recipe = (found.trace.provenance.get(key) for key in ("counts", "recipe"))
    if not isinstance(counts, dict) or not isinstance(recipe, dict):
        return
    holes, empty, runs = counts["outage_steps"], counts["quiet_steps"], counts["empty_runs"]
    if runs:
        text = f"{holes + empty} steps without any device of the source, in {runs} runs"
        become = {"keep": "kept as empty steps", "drop": "left out", "mark": "marked"}[recipe["outage"]]
        likely = f"{text}: in {empty} likely no device came; {holes} look like holes in the recording, "
        likely += f"since many devices come at these hours on other days ({become})"
        typer.echo(likely if holes else f"{text}: likely no device came", err=True)
    if counts["steps_not_covered"]:
        typer.echo(
            f"{counts['steps_not_covered']} of {recipe['steps']} steps lie before the first fix of the "
            "source or after its last",
            err=True,
        )


def _print_rows(found: Imported, strict: bool) -> None:
    """Print the account of every file and every row."""
    from roambench.mobility.candidates import centre_of

    for source in found.sources:
        if source.passed_over:
            typer.echo(
                f"passed over: {source.passed_over} files in {source.name} that are not of this format, "
                f"such as {source.such_as}",
                err=True,
            )
    if found.malformed:
        sentence = f"{found.malformed} of {found.rows} rows are malformed"
        rows = [str(row) for row in found.malformed_rows]
        if strict:
            raise TraceError("\n".join([f"{sentence}, and --strict refuses them; the first:", *rows]))
        typer.echo(f"{sentence} and were left out; the first:", err=True)
        for row in rows:
            typer.echo(f"  {row}", err=True)
    for reason, count in found.left_out.items():
        typer.echo(f"left out: {count} of {found.rows} rows, {reason}", err=True)
    for reason, count in found.fixes_left_out.items():
        typer.echo(f"left out: {count} of the {found.sampled} fixes that the rows make, {reason}", err=True)
    of = f"{found.rows} rows" if found.sampled is None else f"the {found.sampled} fixes that the rows make"
    typer.echo(f"used: {found.used} of {of}", err=True)
    if found.chosen_box is not None:
        side_m = f"{found.chosen_box.width_m:,.0f} m"
        typer.echo(
            f"box: {side_m} {centre_of(found.chosen_box)}, the median fix (--box gives another)", err=True
        )
        if abs(found.chosen_box.latitude) > _HARDLY_ANYBODY_DEG:
            typer.echo(
                "few people live there: if latitude and longitude are swapped, name their columns "
                "(--columns lat=...,lon=...)",
                err=True,
            )
    if found.trace.provenance.get("coordinates") == "synthetic":
        typer.echo("the source has no positions: its access points stand on a made-up grid", err=True)
