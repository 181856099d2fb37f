"""The words behind the options of `roambench trace import`, understood; mistakes are gathered, not raised."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import typer

from roambench.contract.errors import ConfigError, TraceError

if TYPE_CHECKING:
    from roambench.mobility.projection import Box, PlaneBox

ApSource = Literal["auto", "draw", "places", "stations"]


def area(text: str | None, corners: str | None, problems: list[str]) -> Box | PlaneBox | None:
    """The box that `--box` or `--box-corners` describe; None without either."""
    if corners is None:
        return box(text, problems)
    if text is not None:
        problems.append("--box-corners: not together with --box")
        return None
    from roambench.mobility.projection import Box

    try:
        south, west, north, east = [float(part) for part in corners.split(",")]
        return Box.between(south, west, north, east)
    except TraceError as error:
        problems.append(f"--box-corners {corners}: {error}")
    except ValueError:
        problems.append(
            f"--box-corners {corners}: expected SOUTH,WEST,NORTH,EAST in degrees, "
            "for example 30.1961,-97.8395,30.3511,-97.6819"
        )
    return None


def box(text: str | None, problems: list[str]) -> Box | PlaneBox | None:
    """A square on the globe of three numbers, a rectangle on a plane of four."""
    from roambench.mobility.projection import Box, PlaneBox

    if text is None:
        return None
    try:
        numbers = [float(part) for part in text.split(",")]
        if len(numbers) == 4:
            return PlaneBox(*numbers)
        latitude, longitude, side_m = numbers
        return Box.square(latitude, longitude, side_m)
    except TraceError as error:
        problems.append(f"--box {text}: {error}")
    except ValueError:
        problems.append(
            f"--box {text}: expected LAT,LON,SIDE_M, for example 40.7350,-73.9900,17500, "
            "or X,Y,WIDTH,HEIGHT in metres"
        )
    return None


def utc_s(text: str | None, zone: str, problems: list[str]) -> int | None:
    """Seconds since 1970 of an ISO 8601 time, which is in `zone` where it names none ("": UTC); mistakes are
    added to `problems`."""
    from roambench.mobility.readers.zones import zone_of

    where = zone_of(zone, problems, "--time-zone")
    if text is None:
        return None
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        if re.fullmatch(r"-?\d{1,12}", text, re.ASCII):
            return int(text)
        problems.append(
            f"--from {text}: expected an ISO 8601 time, for example 2012-04-17T00:00Z, or seconds"
        )
        return None
    return round((when if when.tzinfo else when.replace(tzinfo=where)).timestamp())


def column_map(text: str | None, problems: list[str], option: str = "--columns") -> dict[str, str]:
    """Field -> column of "FIELD=COLUMN,..."; mistakes are added to `problems`."""
    columns: dict[str, str] = {}
    for part in text.split(",") if text else []:
        field, equals, column = part.partition("=")
        if not equals or not field.strip() or not column.strip():
            problems.append(f"{option} {part}: expected FIELD=COLUMN, for example device=user_id")
        else:
            columns[field.strip()] = column.strip()
    return columns


def hosts(text: str | None, problems: list[str]) -> tuple[str, ...]:
    """The hosts of `0-9,45,p12`, in the order given."""
    hosts: list[str] = []
    for part in text.split(",") if text else []:
        ends = re.fullmatch(r"(\d{1,6})-(\d{1,6})", part.strip(), re.ASCII)
        if ends and int(ends[1]) <= int(ends[2]):
            hosts.extend(str(host) for host in range(int(ends[1]), int(ends[2]) + 1))
        elif re.fullmatch(r"\w*\d", part.strip(), re.ASCII):
            hosts.append(part.strip())
        else:
            problems.append(f"--ap-hosts {part}: expected a host or a range of hosts, for example 0-9")
    return tuple(hosts)


def ap_source(text: str, problems: list[str]) -> tuple[ApSource, Path | None]:
    """Return where access points come from, and the file if it is one; mistakes go to `problems`."""
    if text in ("auto", "draw", "places", "stations"):
        return cast(ApSource, text), None
    if not Path(text).is_file():
        problems.append(f"--ap-source {text}: expected draw, places, stations or a file that exists")
    return "stations", Path(text)


def number_of_aps(text: str) -> int:
    """A number of access points; a file is what --ap-source takes."""
    try:
        return int(text)
    except ValueError:
        hint = f"; a file of them is --ap-source {text}" if Path(text).suffix else ""
        raise typer.BadParameter(f"expected a number of access points, got {text!r}{hint}") from None


def policies(problems: list[str], **given: str | int | None) -> dict[str, Any]:
    """The given policies, if the recipe knows them."""
    from roambench.mobility.recipe import Recipe

    known: dict[str, Any] = dict(given)
    try:
        Recipe(**known)
    except ConfigError as error:
        sentence = (problem.partition(" ") for problem in error.problems)
        options = {"devices": "top"}
        problems += [f"--{options.get(name, name).replace('_', '-')} {rest}" for name, _, rest in sentence]
    return known
