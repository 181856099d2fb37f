"""`roambench fleet emulate-switches`: what switches boards, for who has none."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the commands of this file to `app`."""
    app.command("emulate-switches")(emulate_switches)


def emulate_switches(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the emulated `uhubctl` goes.")],
    tasmota: Annotated[int, typer.Option(min=0, max=32, help="Relays of a Tasmota device.")] = 0,
    shelly1: Annotated[int, typer.Option(min=0, max=32, help="Relays of a Shelly, first generation.")] = 0,
    shelly2: Annotated[int, typer.Option(min=0, max=32, help="Relays of a Shelly, a later one.")] = 0,
    hub_ports: Annotated[int, typer.Option("--hub", min=0, max=32, help="Ports of a USB hub.")] = 0,
    seconds: Annotated[
        float | None, typer.Option(min=0.0, help="Stop after this long. Default: at Ctrl-C.")
    ] = None,
) -> None:
    """Emulate switches on this machine; prints what a bench description's `power` says for each.

    All is switched on at the start. docs/emulator.md says what is kinder than reality.

    Examples:
        roambench fleet emulate-switches switches --tasmota 2
        roambench fleet emulate-switches switches --hub 4 --seconds 60
    """
    import threading
    from contextlib import ExitStack, suppress

    from roambench.contract.errors import ConfigError, FleetError
    from roambench.extras.power.emulated import (
        EmulatedShelly1,
        EmulatedShelly2,
        EmulatedSwitch,
        EmulatedTasmota,
        serving,
    )
    from roambench.extras.power.emulated_uhubctl import install

    wanted: list[tuple[str, int, EmulatedSwitch]] = [
        ("tasmota", 1, EmulatedTasmota([True] * tasmota)),
        ("shelly", 0, EmulatedShelly1([True] * shelly1)),
        ("shelly", 0, EmulatedShelly2([True] * shelly2)),
    ]
    wanted = [one for one in wanted if one[2].relays]
    if not wanted and not hub_ports:
        raise ConfigError(["nothing to emulate: name --tasmota, --shelly1, --shelly2 or --hub with a number"])
    with ExitStack() as stack:
        try:
            if hub_ports:
                folder.mkdir(parents=True, exist_ok=True)
                program = install(folder, "1-1", hub_ports)
                print(f'power = {{switch = "uhubctl", location = "1-1", port = 1}}  # {program}')
            for name, first, device in wanted:
                address = stack.enter_context(serving(device))
                print(f'power = {{switch = "{name}", address = "{address}", channel = {first}}}', flush=True)
        except OSError as error:
            raise FleetError(f"cannot emulate: {error.strerror}") from None
        if wanted:
            with suppress(KeyboardInterrupt):
                threading.Event().wait(seconds)
