"""`roambench meter`: power meters by themselves, without an experiment."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roambench.cli.common_options import JsonOption
from roambench.cli.meters.emulate import emulate, fault
from roambench.runner.stopping import run_async

if TYPE_CHECKING:
    from roambench.meters.switching import PowerState, PowerSwitch

meter_app = typer.Typer(
    name="meter", help="Power meters: list, read, record, calibrate, switch, emulate.", no_args_is_help=True
)
power_app = typer.Typer(name="power", help="Switch the board behind a meter.", no_args_is_help=True)
meter_app.add_typer(power_app)
meter_app.command()(emulate)
meter_app.command()(fault)

PortArgument = Annotated[
    str, typer.Argument(metavar="PORT", help="As `roambench meter list` shows it for the driver.")
]
DriverOption = Annotated[str, typer.Option("--driver", help="A name of `roambench meter list`.")]
SecondsOption = Annotated[
    float | None, typer.Option(min=0.0, help="Stop after this long. Default: at Ctrl-C.")
]
WifiOption = Annotated[
    str, typer.Option(metavar="HOST[:PORT]", help="Where a gateway forwards the meter's WebSocket.")
]


@meter_app.command("list")
def list_(as_json: JsonOption = False) -> None:
    """List the drivers, what their port looks like, and whether they can switch the board's power.

    Examples:
        roambench meter list
        roambench meter list --json
    """
    from roambench.contract.errors import ConfigError
    from roambench.experiment import catalogue
    from roambench.meters.catalogue import driver_row
    from roambench.meters.ports import COMMON_OPTIONS
    from roambench.runner.screen import print_json, say, screen

    rows = []
    for row in catalogue.rows("meters"):
        found: dict[str, Any] = {"name": row.name, "description": row.description}
        try:
            driver = driver_row(row.name)
        except ConfigError:  # it has no own wire, or its package cannot be loaded
            rows.append(found)
            continue
        known = [*driver.options, *COMMON_OPTIONS]
        found |= {"description": driver.summary, "port": driver.address, "options": known}
        rows.append(found | {"power": driver.power or None})
    if as_json:
        print_json(rows)
        return
    console = screen()
    for found in rows:
        console.print(found["name"], style="bold", markup=False)
        say(console, f"    {found['description']}")
        if "port" in found:
            options = ", ".join(found["options"])
            console.print(f"    port   {found['port']}; options {options}", markup=False, style="dim")
            console.print(f"    power  {found['power'] or 'unavailable'}", markup=False, style="dim")


@meter_app.command()
def read(
    port: PortArgument,
    driver: DriverOption = "smartpower2",
    seconds: SecondsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a meter reads, and count the lines that were none. Fails if not one reading came.

    --json: an object a line, readings, events, counts.

    Examples:
        roambench meter read /dev/ttyUSB0 --seconds 10
        roambench meter read /dev/ttyACM0 --driver smartpower3
    """
    from roambench.cli.meters.read import show

    run_async(show(driver, port, seconds, as_json=as_json))


@meter_app.command()
def record(
    port: PortArgument,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Transcript to write; must not exist.")
    ],
    driver: DriverOption = "smartpower2",
    seconds: SecondsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Record a meter's bytes with their times, as a transcript that the meter `replay` plays.

    Examples:
        roambench meter record /dev/ttyUSB0 -o meter.bin
        roambench meter record /dev/ttyUSB0 -o meter.bin --seconds 600
    """
    from roambench.cli.meters.record import record_to

    run_async(record_to(output, driver, port, seconds, as_json=as_json))


@meter_app.command()
def calibrate(
    port: PortArgument,
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="The `calibration_file` of an experiment's energy section; may exist.",
        ),
    ],
    reference: Annotated[str, typer.Option(help="What the true power is read from: its name and number.")],
    u_reference: Annotated[
        float,
        typer.Option(
            min=0.0, max=0.1, help="Relative standard uncertainty (k = 1) of its watts at any load."
        ),
    ],
    driver: DriverOption = "smartpower2",
    seconds: Annotated[float, typer.Option(min=1.0, help="Of reading each load.")] = 60.0,
    u_value: Annotated[
        float, typer.Option(min=0.0, help="Standard uncertainty of one value of it in watts: the last digit.")
    ] = 0.001,
    loads: Annotated[
        int,
        typer.Option(min=2, max=3, help="The third, in between, tells how far the gain depends on power."),
    ] = 3,
    as_json: JsonOption = False,
) -> None:
    """Find a meter's gain and offset at known loads, and file them under its serial number.

    Connect a steady load (a resistor, an electronic load; no board) at the meter's output, first about 2 W,
    then about 5 W, then about 3.5 W, and tell what a better meter shows at the output while it is read:
    watts, or volts and amperes, or volts and the ohms of a known resistor. Nothing connected, or an output
    that is off, is no load: its zeros are printed, not measured.

    Examples:
        roambench meter calibrate /dev/ttyUSB0 -o m.json --reference 'Fluke 123' --u-reference 0.001
        roambench meter calibrate /dev/ttyUSB0 -o m.json --reference 'Fluke 123' --u-reference 0.001 --loads 2
    """
    from roambench.cli.meters.calibrate import calibrate_meter

    calibrate_meter(driver, port, output, reference, u_reference, u_value, seconds, loads, as_json=as_json)


@power_app.command("on")
def power_on(
    port: PortArgument,
    driver: DriverOption = "smartpower2",
    wifi: WifiOption = "",
    as_json: JsonOption = False,
) -> None:
    """Switch the output on.

    Examples:
        roambench meter power on /dev/ttyUSB0
        roambench meter power on /dev/ttyUSB0 --wifi pi-01:8081
    """
    _switch(driver, port, wifi, lambda switch: switch.on(), as_json)


@power_app.command("off")
def power_off(
    port: PortArgument,
    driver: DriverOption = "smartpower2",
    wifi: WifiOption = "",
    as_json: JsonOption = False,
) -> None:
    """Switch the output off: the board behind the meter loses its power at once.

    Examples:
        roambench meter power off /dev/ttyUSB0
        roambench meter power off /dev/ttyUSB0 --wifi pi-01:8081
    """
    _switch(driver, port, wifi, lambda switch: switch.off(), as_json)


@power_app.command("volts")
def power_volts(
    port: PortArgument,
    volts: Annotated[float, typer.Argument(help="4.0 to 5.3; the hardware gives 4.08 to 5.25.")],
    driver: DriverOption = "smartpower2",
    wifi: WifiOption = "",
    as_json: JsonOption = False,
) -> None:
    """Set the output's voltage.

    Examples:
        roambench meter power volts /dev/ttyUSB0 5.1
        roambench meter power volts /dev/ttyUSB0 5.2 --wifi pi-01:8081
    """
    _switch(driver, port, wifi, lambda switch: switch.set_volts(volts), as_json)


@power_app.command("autorun")
def power_autorun(
    port: PortArgument,
    on: Annotated[bool | None, typer.Option("--on/--off", help="Change it. Default: ask only.")] = None,
    driver: DriverOption = "smartpower2",
    wifi: WifiOption = "",
    as_json: JsonOption = False,
) -> None:
    """Ask whether the output comes back on after the meter's reset, or set that. Only some firmware tells.

    Examples:
        roambench meter power autorun /dev/ttyUSB0
        roambench meter power autorun /dev/ttyUSB0 --on
    """
    from roambench.contract.errors import MeterError
    from roambench.meters.switching import HasAutorun

    switch = _switch_of(driver, port, wifi)
    if not isinstance(switch, HasAutorun):
        raise MeterError(
            f"meter {port}: this firmware's autorun cannot be reached: see its own settings page"
        )

    async def errand() -> bool:
        if on is not None:
            await switch.set_autorun(on)
        return await switch.autorun()

    found = run_async(errand())
    if as_json:
        from roambench.runner.screen import print_json

        print_json({"port": port, "autorun": found})
        return
    typer.echo(f"{port}: autorun {'on' if found else 'off'}")


@power_app.command("status")
def power_status(
    port: PortArgument,
    driver: DriverOption = "smartpower2",
    wifi: WifiOption = "",
    as_json: JsonOption = False,
) -> None:
    """Ask the meter whether its output is on.

    Examples:
        roambench meter power status /dev/ttyUSB0
        roambench meter power status /dev/ttyUSB0 --wifi pi-01:8081
    """
    _switch(driver, port, wifi, None, as_json)


def _switch(
    driver: str,
    port: str,
    wifi: str,
    act: Callable[[PowerSwitch], Coroutine[Any, Any, None]] | None,
    as_json: bool,
) -> None:
    """Act, then print what the meter says."""
    switch = _switch_of(driver, port, wifi)

    async def errand() -> PowerState:
        if act is not None:
            await act(switch)
        return await switch.state()

    state = run_async(errand())
    if as_json:
        from roambench.runner.screen import print_json

        print_json({"port": port, "on": state.on, "set_v": state.volts, "detail": state.detail})
        return
    volts = "" if state.volts is None else f", set to {state.volts:.2f} V"
    typer.echo(f"{port}: {'on' if state.on else 'off'}{volts}")


def _switch_of(driver: str, port: str, wifi: str) -> PowerSwitch:
    """MeterError for a meter that cannot be switched."""
    from roambench.contract.errors import MeterError
    from roambench.meters.power_switch import Unavailable, power_switch

    switch = power_switch(driver, port, wifi)
    if isinstance(switch, Unavailable):
        raise MeterError(f"meter {port}: {switch}")
    return switch
