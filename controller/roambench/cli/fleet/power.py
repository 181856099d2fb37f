"""`roambench fleet power`: boards on and off, each by its own switch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from roambench.cli.common_options import JsonOption, WaitOption
from roambench.cli.fleet.options import (
    BenchArgument,
    DuringOption,
    LimitOption,
    OnlyOption,
    TakeOption,
)
from roambench.provision.power.power_command import OFF_S, PowerCommand

if TYPE_CHECKING:
    from roambench.provision.bench import Host
    from roambench.provision.power.switching import Switched
    from roambench.provision.ssh.host_error import HostError


def power(
    bench: BenchArgument,
    command: Annotated[PowerCommand, typer.Argument(help="`off` cuts the power: shut a board down first.")],
    only: OnlyOption = None,
    limit: LimitOption = None,
    as_json: JsonOption = False,
    off_s: Annotated[
        float, typer.Option("--off-for", min=OFF_S, max=600.0, metavar="S", help="For `cycle`.")
    ] = OFF_S,
    wait_s: WaitOption = 0.0,
    during_run: DuringOption = False,
    take: TakeOption = False,
) -> None:
    """Switch boards by what the bench description's `power` tables name (`roambench list switches`).

    Without such a table at their meters, over the meters' WebSockets (`wifi_hop`). The table says what each
    switch reports afterwards, or that it cannot be asked.

    Examples:
        roambench fleet power bench.toml state
        roambench fleet power bench.toml cycle --only pi-03 --off-for 10
    """
    from rich.table import Table

    from roambench.cli.fleet.bench_in_hand import in_hand
    from roambench.cli.fleet.outcome_table import add_columns, print_rows
    from roambench.provision.claims import barred
    from roambench.provision.inventory.load import load_bench
    from roambench.provision.power.switching import switch_power
    from roambench.runner.screen import print_json, screen
    from roambench.runner.stopping import run_async

    loaded = load_bench(bench)
    hosts = loaded.only(only or (), limit)
    harmless = during_run or command is PowerCommand.STATE
    with in_hand(loaded, f"power {command}", wait_s, hosts=hosts, during_run=harmless):
        others = {} if command is PowerCommand.STATE else barred(loaded, hosts, take=take)
        free = [host for host in hosts if host.name not in others]
        done = {one.host.name: one for one in run_async(switch_power(free, command, off_s))}
    switched = [done.get(host.name) or _refused(host, others[host.name]) for host in hosts]
    if as_json:
        rows = [
            {
                "host": one.host.name,
                "done": one.done,
                "on": one.on,
                "volts": one.volts,
                "detail": one.detail,
                "reason": one.reason,
                "next_action": one.next_action,
            }
            for one in switched
        ]
        print_json(rows)
    else:
        table = Table(title=f"{loaded.name}: power {command}", title_justify="left")
        add_columns(table, "host", "output", "reason", "next action")
        for one in switched:
            volts = "" if one.volts is None else f", {one.volts:.2f} V"
            said = "" if one.on is None else f"{'on' if one.on else 'off'}{volts}"
            output = ", ".join(filter(None, (said, one.detail)))
            table.add_row(one.host.name, output, one.reason, one.next_action)
        print_rows(table, screen())
    if not all(one.done for one in switched):
        raise typer.Exit(1)


def _refused(host: Host, error: HostError) -> Switched:
    from roambench.provision.power.switching import Switched

    return Switched(host, False, reason=error.reason, next_action=error.next_action)
