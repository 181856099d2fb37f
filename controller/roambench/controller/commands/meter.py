"""`roambench meter`: power meters by themselves, without an experiment."""

from __future__ import annotations

import typer

meter_app = typer.Typer(
    name="meter", help="Power meters: list, read, record, switch, emulate.", no_args_is_help=True
)


@meter_app.command("list")
def list_() -> None:
    """List the drivers, what their port looks like, and whether they can switch the board's power."""
    from roambench.meters.catalogue import meter_names

    for name in meter_names():
        typer.echo(name)
