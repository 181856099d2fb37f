"""`roambench meter emulate` and `meter fault`: power meters for who has none, with the truth beside them."""

from __future__ import annotations

import tempfile
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from roambench.cli.common_options import JsonOption
from roambench.contract.errors import MeterError


class Load(StrEnum):
    """Load of the boards behind the meters."""

    IDLE = "idle"
    TRAIN = "train"  # one busy core
    CYCLE = "cycle"  # idle, download, train, upload, over and over


def emulate(
    profile_name: Annotated[
        str, typer.Option("--profile", help="Firmware: a name of `roambench list profiles`, or sp2-1.6 ...")
    ] = "smartpower2-1.6",
    devices: Annotated[int, typer.Option(min=1, max=200, help="How many meters.")] = 1,
    faults: Annotated[
        str,
        typer.Option(help="What goes wrong: KIND@SECONDS[:AMOUNT],... such as stall@30:5,drop@60,reset@90."),
    ] = "",
    seconds: Annotated[
        float | None, typer.Option(min=0.0, help="Stop after so much device time. Default: at Ctrl-C.")
    ] = None,
    load: Annotated[Load, typer.Option(help="What the boards behind the meters do.")] = Load.CYCLE,
    time_scale: Annotated[
        float, typer.Option(min=0.01, help="Device seconds per second: how much faster meters run.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(help="Draws tolerances, crystals, noise.")] = 0,
    interval_ms: Annotated[
        int | None, typer.Option(help="Log interval of a Smart Power 3. Default: 100.")
    ] = None,
    udp_to: Annotated[
        str,
        typer.Option(metavar="HOST:PORT", help="Where a Smart Power 3 sends datagrams; the next meter +1."),
    ] = "127.0.0.1:6000",
    autorun: Annotated[
        bool, typer.Option("--autorun/--no-autorun", help="Does the output come back after a reset?")
    ] = True,
    boot: Annotated[bool, typer.Option("--boot", help="Plug the meters in at the start.")] = False,
    window_ms: Annotated[
        float, typer.Option(min=0.0, help="A value is the mean of so much. Default: of 263.8 ms (INA231).")
    ] = 0.0,
    held_ms: Annotated[
        float, typer.Option(min=0.0, help="A value is so much older than it should be (INA231).")
    ] = 0.0,
    pace_ppm: Annotated[
        float | None,
        typer.Option(min=-500_000, max=500_000, help="Its crystal is so slow. Default: drawn within 20."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--dir", help="Where ports, truth and control socket go. Default: a fresh folder."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Emulate power meters: real ports to read, a true power to compare with, faults on demand.

    --json: an object a line, each meter with its ports, at the end each with its true joules.

    Examples:
        roambench meter emulate --devices 2
        roambench meter emulate --faults stall@30:5,drop@60 --seconds 120
    """
    from roambench.cli.meters.emulated_meters import Wish, run

    place = Path(tempfile.mkdtemp(prefix="roambench-meters-")) if folder is None else folder
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MeterError(f"folder {place}: cannot be made ({error.strerror})") from None
    wish = Wish(
        profile_name,
        devices,
        faults,
        seed,
        time_scale,
        interval_ms,
        udp_to,
        autorun,
        boot,
        window_ms,
        held_ms,
        pace_ppm,
    )
    run(wish, place, load, seconds, as_json=as_json)


def fault(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="As `meter emulate` printed it.")],
    faults: Annotated[str, typer.Argument(help="KIND@SECONDS[:AMOUNT],... counted from now.")],
    meter: Annotated[str, typer.Option(help="Which one. Default: all.")] = "",
) -> None:
    """Let faults happen to meters that `meter emulate` is running.

    Examples:
        roambench meter fault meters stall@30:5
        roambench meter fault meters drop@60,reset@90 --meter pi-01
    """
    from roambench.cli.meters.emulated_meters import let_happen

    let_happen(folder, faults, meter)
