"""`roambench fleet list`: what a bench description says, without asking any host."""

from __future__ import annotations

from typing import Final

from roambench.cli.common_options import JsonOption
from roambench.cli.fleet.options import BenchArgument, LimitOption, OnlyOption
from roambench.contract.counts import count

#: A table takes what it needs: names are copied, so no terminal's width breaks them.
_WIDTH: Final = 10_000


def list_hosts(
    bench: BenchArgument, only: OnlyOption = None, limit: LimitOption = None, as_json: JsonOption = False
) -> None:
    """Check a bench description and list its hosts. No host is asked anything.

    Examples:
        roambench fleet list bench.toml
        roambench fleet list bench.toml --only rack1 --json
    """
    import json
    from dataclasses import asdict

    from rich.table import Table

    from roambench.provision.inventory.load import load_bench
    from roambench.provision.power.described import as_written, outlet_of
    from roambench.runner.screen import say, screen

    loaded = load_bench(bench)
    hosts = loaded.only(only or (), limit)
    if as_json:
        print(json.dumps([asdict(host) for host in hosts], indent=2, default=as_written))
        return
    title = (
        f"{loaded.name}: {count(len(hosts), 'host')}, controller {loaded.controller.address}, "
        f"time from {loaded.time_server}"
    )
    table = Table(box=None, pad_edge=False)
    rows: list[dict[str, str]] = []
    for host in hosts:
        meter = host.meter
        fitted = meter.gain != 1.0 or meter.offset_watts != 0.0
        row = {
            "host": host.name,
            "address": host.address,
            "slot": str(host.slot),
            "login": ":".join(str(word) for word in (host.ssh_user, host.ssh_port) if word)
            or "as ssh has it",
            "interface": host.interface,
            "meter": " ".join(
                filter(
                    None,
                    (
                        meter.driver,
                        meter.serial,
                        meter.host and f"(read by {'the ' * meter.is_read_here}{meter.host})",
                        "(emulated)" * meter.emulated,
                    ),
                )
            ),
            "port": meter.port,
            "calibration": f"x {meter.gain:g} {meter.offset_watts:+g} W" if fitted else "",
            "power": outlet_of(host),
            "tags": " ".join(host.tags),
        }
        rows.append(row)
    # What no host has is no column, and what is alike on all of them is said once.
    columns = [name for name in rows[0] if any(row[name] for row in rows)] if rows else ["host"]
    alike = [name for name in columns if len(rows) > 1 and len({row[name] for row in rows}) == 1]
    columns = [name for name in columns if name not in alike]
    for name in columns:
        table.add_column(name)
    for row in rows:
        table.add_row(*(row[name] for name in columns))
    console = screen()
    console.width = max(console.width, _WIDTH)
    console.print(title, style="bold", markup=False)
    console.print(table, markup=False)
    if alike:
        text = ", ".join(f"{name} {rows[0][name]}" for name in alike)
        say(console, f"all: {text}")
