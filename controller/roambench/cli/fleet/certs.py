"""`roambench fleet certs`: the bench's certificates: show, rotate, revoke."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from roambench.cli.common_options import JsonOption, with_sudo
from roambench.cli.fleet.options import BenchArgument, LimitOption, OnlyOption

if TYPE_CHECKING:
    from roambench.provision.certificates import BenchAuthority
    from roambench.provision.issued import Issued

certs_app = typer.Typer(
    name="certs", help="Certificates of a bench: show, rotate, revoke.", no_args_is_help=True
)


@certs_app.command("show")
def show(bench: BenchArgument, as_json: JsonOption = False) -> None:
    """Show each certificate's end, by the bench's own record. No host is asked.

    Examples:
        roambench fleet certs show bench.toml
        roambench fleet certs show bench.toml --json
    """
    from dataclasses import asdict

    from rich.table import Table

    from roambench.cli.fleet.outcome_table import add_columns, print_rows
    from roambench.identity.authority import CONTROLLER_NAME
    from roambench.provision.certificates import BenchAuthority
    from roambench.provision.inventory.load import load_bench
    from roambench.runner.screen import print_json, screen

    loaded = load_bench(bench)
    authority = BenchAuthority(loaded.state_dir)
    authority.controller_credential()
    rows = []
    for name in (CONTROLLER_NAME, *(host.name for host in loaded.hosts)):
        entry = authority.newest(name)
        rows.append((name, entry, _state(authority, entry)))
    if as_json:
        print_json(
            [
                {"name": name, "state": state, **(asdict(entry) if entry else {})}
                for name, entry, state in rows
            ]
        )
        return
    overlap = ", one authority is following another" if authority.overlaps else ""
    table = Table(title=f"{loaded.name}: authority {authority.serial[:12]}{overlap}", title_justify="left")
    add_columns(table, "name", "serial", "issued", "ends", "state")
    for name, entry, state in rows:
        serial, issued, ends = (entry.serial, entry.issued, entry.expires) if entry else ("", "", "")
        table.add_row(name, serial, issued, ends, state)
    print_rows(table, screen())


@certs_app.command("rotate")
@with_sudo
def rotate(
    bench: BenchArgument,
    only: OnlyOption = None,
    limit: LimitOption = None,
    days: Annotated[
        float, typer.Option(min=0.01, max=365.0, help="How long the new certificates last.")
    ] = 7.0,
    revoke_old: Annotated[
        bool, typer.Option("--revoke-old", help="Refuse the certificates the hosts had before.")
    ] = False,
    authority: Annotated[
        bool,
        typer.Option("--authority", help="Begin with a new authority; both are trusted until --finish."),
    ] = False,
    finish: Annotated[
        bool, typer.Option("--finish", help="Trust the authority before this one no more, and do no more.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="With --finish: even if hosts are shut out by it.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Give hosts new certificates. Running agents load them by themselves; no run is interrupted, but by
    --revoke-old and --finish: they end the sessions that certificates before have opened.

    Examples:
        roambench fleet certs rotate bench.toml
        roambench fleet certs rotate bench.toml --only pi-03 --revoke-old
    """
    import datetime as dt

    from rich.table import Table

    from roambench.cli.fleet.outcome_table import add_columns, outcome_json, print_rows
    from roambench.contract.errors import ConfigError
    from roambench.provision.certificates import BenchAuthority
    from roambench.provision.changes.rotation import rotate_host
    from roambench.provision.inventory.load import load_bench
    from roambench.provision.ssh.hosts import on_hosts
    from roambench.runner.screen import print_json, screen

    if authority and finish:
        raise ConfigError(["--authority begins, --finish ends: expected one of them"])
    if force and not finish:
        raise ConfigError(["--force: only with --finish"])
    loaded = load_bench(bench)
    hosts = loaded.only(only or (), limit)
    bench_authority = BenchAuthority(loaded.state_dir)
    if finish:
        bench_authority.finish_next([host.name for host in loaded.hosts], force=force)
        if as_json:
            print_json({"authority": bench_authority.serial})
        else:
            print(f"{loaded.name}: only authority {bench_authority.serial[:12]} is trusted from now on")
        return
    if authority:
        bench_authority.begin_next()
    lifetime = dt.timedelta(days=days)
    outcomes = on_hosts(loaded, hosts, lambda link: rotate_host(link, lifetime, revoke_old=revoke_old))
    if as_json:
        print(outcome_json(outcomes))
    else:
        table = Table(title=f"{loaded.name}: certificates", title_justify="left")
        add_columns(table, "host", "serial", "ends", "reason", "next action")
        for outcome in outcomes:
            got = outcome.value
            table.add_row(
                outcome.host.name,
                got.serial if got else "",
                f"{got.expires:%F %T} UTC" if got else "",
                outcome.reason,
                outcome.next_action,
            )
        print_rows(table, screen())
    if any(outcome.failed for outcome in outcomes):
        raise typer.Exit(1)
    if authority and not as_json:
        print("next: once every host has its new certificate, roambench fleet certs rotate --finish")


@certs_app.command("revoke")
def revoke(
    bench: BenchArgument,
    name: Annotated[str, typer.Argument(metavar="HOST", help="All its certificates.")] = "",
    serial: Annotated[
        str, typer.Option("--serial", metavar="HEX", help="This one instead, as `show` has it.")
    ] = "",
    reason: Annotated[str, typer.Option("--reason", help="Why, for who reads the list later.")] = "revoked",
    as_json: JsonOption = False,
) -> None:
    """Revoke certificates; a running controller ends their sessions within seconds.

    Examples:
        roambench fleet certs revoke bench.toml pi-03
        roambench fleet certs revoke bench.toml pi-03 --reason stolen
    """
    from roambench.contract.errors import ConfigError
    from roambench.provision.certificates import BenchAuthority
    from roambench.provision.inventory.load import load_bench
    from roambench.runner.screen import print_json

    if bool(name) == bool(serial):
        raise ConfigError(["expected a HOST or --serial"])
    loaded = load_bench(bench)
    authority = BenchAuthority(loaded.state_dir)
    if serial:
        if not re.fullmatch(r"(?=.*[1-9A-Fa-f])[0-9A-Fa-f]{1,40}", serial):
            raise ConfigError([f"--serial: expected 1 to 40 hexadecimal digits, not all 0, got {serial!r}"])
        number = int(serial, 16)
        if number not in {int(entry.serial, 16) for entry in authority.issued()}:
            unknown = "the record of certificates does not have it (roambench fleet certs show)"
            print(f"roambench: --serial {serial}: {unknown}: is it mistyped?", file=sys.stderr)
        done = [serial] if authority.revoke(number, reason) else []
    else:
        # A host that left the bench file may be exactly the one to revoke: the record of certificates has it.
        if authority.newest(name) is None:
            raise ConfigError([f"{name}: the bench never issued it a certificate"])
        done = authority.revoke_name(name, reason)
    if as_json:
        print_json({"revoked": list(done)})
        return
    for one in done:
        print(f"revoked {one}")
    if not done:
        print("nothing to revoke: expired or revoked already")


def _state(authority: BenchAuthority, entry: Issued | None) -> str:
    import datetime as dt

    if entry is None:
        return "none"
    if int(entry.serial, 16) in authority.revocations.serials():
        return "revoked"
    left = entry.ends - dt.datetime.now(dt.UTC)
    if left.total_seconds() < 0:
        return "expired"
    old = "" if entry.authority == authority.serial else ", of the authority before"
    lost = "" if entry.arrived else ", may not have arrived"
    return f"valid for {left.total_seconds() / 86400:.1f} days{old}{lost}"
