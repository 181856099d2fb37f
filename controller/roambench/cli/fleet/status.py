"""`roambench fleet status`: how the hosts of a bench are now, as a live table or as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from roambench.cli.common_options import JsonOption
from roambench.cli.fleet.options import BenchArgument, LimitOption, OnlyOption

if TYPE_CHECKING:
    from rich.table import Table

    from roambench.provision.bench import Bench
    from roambench.provision.ssh.hosts import HostOutcome
    from roambench.provision.status import HostStatus


def status(
    bench: BenchArgument,
    only: OnlyOption = None,
    limit: LimitOption = None,
    as_json: JsonOption = False,
    live: Annotated[
        bool, typer.Option("--live", help="Look again and again until Ctrl-C; needs a terminal.")
    ] = False,
    every_s: Annotated[
        float, typer.Option("--every", min=0.5, metavar="S", help="Seconds between two looks with --live.")
    ] = 3.0,
) -> None:
    """Ask every host how it is. In a run's measured phases being asked costs joules: see `fleet who`.

    Examples:
        roambench fleet status bench.toml
        roambench fleet status bench.toml --live --every 5
    """
    import time
    from dataclasses import asdict
    from functools import partial

    from rich.live import Live

    from roambench.cli.fleet.outcome_table import print_rows
    from roambench.contract.errors import ConfigError
    from roambench.provision.claims import claim_by
    from roambench.provision.inventory.load import load_bench
    from roambench.provision.ssh.hosts import on_hosts
    from roambench.provision.status import look_at
    from roambench.runner.screen import print_json, screen

    loaded = load_bench(bench)
    hosts = loaded.only(only or (), limit)
    console = screen()
    if live and (as_json or not console.is_terminal):
        raise ConfigError(["--live: needs a terminal, and no --json"])
    ask = partial(look_at, mine=claim_by(loaded))
    outcomes = on_hosts(loaded, hosts, ask)
    if live:
        with Live(_table(loaded, outcomes), console=console) as shown:
            while True:
                time.sleep(every_s)
                outcomes = on_hosts(loaded, hosts, ask)
                shown.update(_table(loaded, outcomes))
    if as_json:
        print_json(
            [
                {
                    "host": one.host.name,
                    "up": one.value is not None,
                    **(asdict(one.value) if one.value else {}),
                    "reason": one.reason or (one.value.trouble if one.value else ""),
                    "next_action": one.next_action or (one.value.next_action if one.value else ""),
                }
                for one in outcomes
            ]
        )
    else:
        print_rows(_table(loaded, outcomes), console)
    if any(one.value is None or one.value.trouble for one in outcomes):
        raise typer.Exit(1)


def _table(bench: Bench, outcomes: list[HostOutcome[HostStatus]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    from roambench.cli.fleet.outcome_table import add_columns
    from roambench.provision.leases.described import described
    from roambench.provision.leases.holding import standing_of

    standing = standing_of(bench)
    holder = standing.runner or standing.holder
    using = [*([holder] if holder else []), *standing.beside]
    used = f"used by {' and '.join(map(described, using))}" if using else "free"
    # As text: a purpose is free text and may hold brackets.
    table = Table(title=Text(f"{bench.name}: {used}", "table.title"), title_justify="left")
    add_columns(table, "host", "agent", "clock", "°C", "throttled", "disk", "spool", "meter", "what to do")
    for one in outcomes:
        table.add_row(one.host.name, *_cells(one))
    return table


def _cells(one: HostOutcome[HostStatus]) -> list[str]:
    from roambench.provision.preflight.facts import offset_words
    from roambench.provision.status import throttle_words

    found: Any = one.value
    if found is None:
        return ["down", "", "", "", "", "", "", _advice(one.reason, one.next_action)]
    state = f"in {found.run} ({found.phase or found.session})" if found.run else found.session
    agent = f"{found.version} {found.build[:8]} {state}".strip() if not found.trouble else "no answer"
    if found.program:
        agent += f"; {found.program}"
    return [
        agent,
        offset_words(found.clock_offset_s, found.clock_bound_s),
        "" if found.temperature_c is None else f"{found.temperature_c:.0f}",
        "?" if found.throttle_bits is None else throttle_words(found.throttle_bits) or "no",
        "" if found.disk_free_bytes is None else f"{found.disk_free_bytes / 1e9:.1f} GB free",
        _spool(found),
        _meter(found),
        _advice(found.trouble, found.next_action),
    ]


def _spool(found: HostStatus) -> str:
    unsent = f", unsent: {', '.join(found.unsent_runs)}" if found.unsent_runs else ""
    return "" if found.spool_depth is None else f"{found.spool_depth}{unsent}"


def _meter(found: HostStatus) -> str:
    if found.watts is None or found.meter_age_s is None:
        return found.meter_state
    return f"{found.meter_state} {found.watts:.2f} W, {found.meter_age_s:.1f} s old"


def _advice(reason: str, next_action: str) -> str:
    return "; ".join(filter(None, (reason, next_action)))
