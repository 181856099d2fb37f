"""`roambench fleet discover`: boards that are on the network and in no bench description yet."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roambench.cli.common_options import JsonOption
from roambench.contract.counts import count

if TYPE_CHECKING:
    from rich.table import Table

    from roambench.extras.discovery.boards import FoundBoard


def register(app: typer.Typer) -> None:
    """Add the commands of this file to `app`."""
    app.command("discover")(discover)


def discover(
    subnet: Annotated[
        list[str] | None,
        typer.Option(
            "--subnet",
            metavar="NETWORK",
            help="Knock at each address there and stay inside, as 192.168.50.0/24; repeatable.",
        ),
    ] = None,
    leases: Annotated[
        list[Path] | None,
        typer.Option("--leases", metavar="FILE", help="Leases of dnsmasq, ISC dhcpd or Kea; repeatable."),
    ] = None,
    mdns: Annotated[
        bool | None,
        typer.Option("--mdns/--no-mdns", help="Ask by multicast; default: where zeroconf is installed."),
    ] = None,
    bench: Annotated[
        Path | None, typer.Option("--bench", metavar="FILE", help="Leave out the hosts of this bench.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Also machines whose MAC is not a Raspberry Pi's.")
    ] = False,
    ask: Annotated[bool, typer.Option(help="Ask each over SSH for its serial number.")] = True,
    user: Annotated[
        str | None,
        typer.Option("--user", metavar="NAME", help="Who logs in; default: the bench's, else as ssh."),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option("--key", metavar="FILE", help="Private key; default: the bench's, else as ssh."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", min=1, max=65535, metavar="N", help="Of SSH; default: the bench's, else as ssh."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Draft a bench description here.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Find boards by lease files, the neighbour table and mDNS, and draft a bench description of them.

    Examples:
        roambench fleet discover -o bench.toml
        roambench fleet discover --subnet 192.168.50.0/24 --ask
    """
    from dataclasses import asdict

    from roambench.cli.fleet.outcome_table import print_rows, write_out
    from roambench.contract.errors import ConfigError
    from roambench.extras.discovery.draft import drafted
    from roambench.extras.discovery.mdns import mdns_is_there
    from roambench.extras.discovery.searching import (
        StrangerLogin,
        found_boards,
        look,
        seen_from,
        unknown_to,
    )
    from roambench.provision.inventory.load import load_bench
    from roambench.runner.screen import print_json, screen

    if out is not None and out.exists():
        raise ConfigError([f"--output {out}: is there already, expected a new file"])
    known = load_bench(bench) if bench is not None else None
    if known is not None:
        user = user or known.hosts[0].ssh_user
        key = key or known.hosts[0].ssh_key
        port = port or known.hosts[0].ssh_port
    seen = look(subnet or (), leases or (), mdns=mdns_is_there() if mdns is None else mdns)
    found = found_boards(seen, StrangerLogin(user, key, port) if ask else None, every=every)
    new = unknown_to(known, found) if known is not None else found
    if as_json:
        print_json([asdict(board) for board in new])
    else:
        machines = len({one.address for one in seen})
        more = f", {len(found) - len(new)} more are in {bench}" if bench else ""
        summary = count(len(new), "board") + more
        print_rows(_table(f"{summary}; {machines} addresses seen", new), screen())
    if out is not None and new:
        controller = known.controller.address if known is not None else seen_from(new[0].address)
        shown_key = str(key.expanduser().absolute()) if key else ""
        taken = [host.name for host in known.hosts] if known is not None else []
        text = drafted(new, controller, user=user, key=shown_key, port=port, taken=taken)
        write_out(out, text)
        if not as_json:
            print(f"drafted {out}: look at it, then roambench fleet list {shlex.quote(str(out))}")


def _table(title: str, found: list[FoundBoard]) -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for column in ("address", "name", "MAC", "serial"):
        table.add_column(column, no_wrap=True)
    for column in ("model", "seen by", "not asked because"):
        table.add_column(column, overflow="fold")
    for board in found:
        others = [address for address in board.addresses if address != board.address]
        table.add_row(
            "\n".join([board.address, *others]),
            board.name,
            "\n".join(board.macs),
            board.serial,
            board.model,
            "\n".join(board.seen_by),
            board.trouble,
        )
    return table
