"""`roambench fleet list`: what a bench description says, without asking any host."""

from __future__ import annotations

import typer

from roambench.controller.commands.fleet_options import BenchArgument, JsonOption, LimitOption, OnlyOption


def register(app: typer.Typer) -> None:
    """Add the commands of this file to `app`."""
    app.command("list")(list_hosts)


def list_hosts(
    bench: BenchArgument, only: OnlyOption = None, limit: LimitOption = None, as_json: JsonOption = False
) -> None:
    """Check a bench description and list its hosts. No host is asked anything."""
    import json
    from dataclasses import asdict

    from rich.console import Console
    from rich.table import Table

    from roambench.provision.inventory import load_bench

    loaded = load_bench(bench)
    hosts = loaded.only(only or (), limit)
    if as_json:
        print(json.dumps([asdict(host) for host in hosts], indent=2, default=str))
        return
    table = Table(
        title=f"{loaded.name}: {len(hosts)} hosts, controller {loaded.controller.address}, "
        f"time from {loaded.time_server}",
        title_justify="left",
    )
    for column in ("slot", "host", "address", "login", "interface", "meter", "calibration", "tags"):
        table.add_column(column, overflow="fold")
    for host in hosts:
        meter = host.meter
        fitted = meter.gain != 1.0 or meter.offset_watts != 0.0
        table.add_row(
            str(host.slot),
            host.name,
            host.address,
            ":".join(str(word) for word in (host.ssh_user, host.ssh_port) if word) or "as ssh has it",
            host.interface,
            " ".join(filter(None, (meter.driver, meter.port, meter.serial, "(emulated)" * meter.emulated))),
            f"x {meter.gain:g} {meter.offset_watts:+g} W" if fitted else "",
            " ".join(host.tags),
        )
    Console(highlight=False).print(table, markup=False)
