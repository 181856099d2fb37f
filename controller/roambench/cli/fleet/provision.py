"""`roambench fleet provision`, `wheelhouse`, `rollback` and `unprovision`: what is installed on the hosts."""

from __future__ import annotations

from pathlib import Path
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
from roambench.contract.counts import count

if TYPE_CHECKING:
    from roambench.provision.bench import Host
    from roambench.provision.provisioning import Provisioned
    from roambench.provision.ssh.hosts import HostOutcome


def provision_hosts(
    bench: BenchArgument,
    only: OnlyOption = None,
    limit: LimitOption = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", "--check", help="Show what would be done, equal plans once."),
    ] = False,
    diff: Annotated[
        bool, typer.Option("--diff", help="With --dry-run: how files would change; secrets are not shown.")
    ] = False,
    as_json: JsonOption = False,
    wait_s: WaitOption = 0.0,
    during_run: DuringOption = False,
    with_package: Annotated[
        list[Path] | None,
        typer.Option(
            "--with-package",
            metavar="WHEEL|FOLDER",
            help="A package of your own (task, model, data set, local algorithm, meter) beside the agent; "
            "repeatable. The bench keeps it; a newer one takes its place.",
        ),
    ] = None,
    without_packages: Annotated[
        bool, typer.Option("--without-packages", help="Without the packages that the bench has so far.")
    ] = False,
    take: TakeOption = False,
) -> None:
    """Install the agent of this source tree on the hosts, with all it needs. Doing it again changes nothing.

    Hosts that cannot be reached or are not fit are rows with a reason and a next action; the others are
    done. Exit code 1 if any host failed.

    Examples:
        roambench fleet provision bench.toml --dry-run
        roambench fleet provision bench.toml --only 'pi-0*'
    """
    from functools import partial
    from tempfile import TemporaryDirectory

    from roambench.cli.fleet.bench_in_hand import in_hand
    from roambench.cli.fleet.outcome_table import outcome_table, print_rows
    from roambench.cli.fleet.provision_text import plans_text, provision_json, state_text
    from roambench.contract.errors import ConfigError
    from roambench.provision.inventory.load import load_bench
    from roambench.provision.provisioning import provision
    from roambench.provision.wheels.user_packages import keep_packages, kept_packages, wheel_of
    from roambench.runner.screen import progress_screen, say, screen

    if diff and not dry_run:
        raise ConfigError(["--diff: expected with --dry-run"])
    loaded = load_bench(bench)
    hosts = loaded.only(only or (), limit)
    progress = progress_screen(stderr=True)
    chosen = [] if without_packages else list(kept_packages(loaded.state_dir))

    def report(host: Host, text: str) -> None:
        say(progress, f"{host.name}  {text}")

    with TemporaryDirectory() as scratch:
        for number, source in enumerate(with_package or ()):
            added = wheel_of(source, Path(scratch) / str(number))
            chosen = [one for one in chosen if one.wheel.name != added.wheel.name] + [added]
        packages = tuple(sorted(chosen, key=lambda one: one.wheel.name))
        with in_hand(loaded, "provision", wait_s, hosts=hosts, during_run=during_run or dry_run) as kept:
            outcomes = provision(
                loaded,
                hosts,
                dry_run=dry_run,
                diff=diff,
                report=report,
                let_go=kept.done,
                packages=packages,
                take=take,
            )
            if not dry_run and any(not one.failed for one in outcomes):
                keep_packages(loaded.state_dir, packages)
    if as_json:
        print(provision_json(outcomes, dry_run=dry_run))
    else:
        console = screen()
        if dry_run:
            print(plans_text(outcomes))
        title = f"{loaded.name}: {_count(outcomes, dry_run=dry_run)}"
        print_rows(outcome_table(title, "state", outcomes, partial(state_text, dry_run=dry_run)), console)
    if any(one.failed for one in outcomes):
        raise typer.Exit(1)


def wheelhouse(
    bench: BenchArgument,
    platform: Annotated[
        list[str] | None,
        typer.Option(
            "--platform", metavar="MACHINE", help="aarch64 (a Pi; the default), x86_64; repeatable."
        ),
    ] = None,
    python: Annotated[
        list[str] | None,
        typer.Option(
            "--python",
            metavar="VERSION",
            help="Of the hosts: 3.11 (Bookworm; the default), 3.12, 3.13 (Trixie), 3.14; repeatable.",
        ),
    ] = None,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Ask the package index again, even if nothing was changed.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Fetch the wheels that hosts install, as provisioning does by itself; hosts then need no internet.

    Examples:
        roambench fleet wheelhouse bench.toml
        roambench fleet wheelhouse bench.toml --platform aarch64 --python 3.13
    """
    from dataclasses import asdict

    from rich.table import Table

    from roambench.contract.errors import ConfigError
    from roambench.provision.inventory.load import load_bench
    from roambench.provision.platforms import MACHINES, PYTHONS, Platform
    from roambench.provision.wheels.source_tree import source_root
    from roambench.provision.wheels.wheelhouse import build_wheelhouse
    from roambench.runner.screen import print_json, say, screen

    loaded = load_bench(bench)
    machines, pythons = platform or [MACHINES[0]], python or [PYTHONS[0]]
    problems = [
        f"{option} {name}: expected one of {', '.join(known)}"
        for option, names, known in (("--platform", machines, MACHINES), ("--python", pythons, PYTHONS))
        for name in names
        if name not in known
    ]
    if problems:
        raise ConfigError(problems)
    houses = [
        build_wheelhouse(loaded.state_dir, source_root(), Platform(machine, version), refresh=refresh)
        for machine in machines
        for version in pythons
    ]
    if as_json:
        print_json([asdict(house) for house in houses])
        return
    console = screen()
    for house in houses:
        table = Table(title=f"{house.machine}, Python {house.python}", title_justify="left")
        table.add_column("wheel", no_wrap=True, overflow="ignore")
        table.add_column("version")
        table.add_column("MB", justify="right")
        for wheel in house.wheels:
            table.add_row(wheel.name, wheel.version, f"{wheel.size_bytes / 1e6:.1f}")
        console.print(table, markup=False)
        say(
            console,
            f"{count(len(house.wheels), 'wheel')}, {house.size_bytes / 1e6:.1f} MB, installed "
            f"{house.unpacked_bytes / 1e6:.0f} MB; {house.hash} in {house.archive}",
        )


def roll_back(
    bench: BenchArgument,
    only: OnlyOption = None,
    limit: LimitOption = None,
    wait_s: WaitOption = 0.0,
    during_run: DuringOption = False,
    as_json: JsonOption = False,
    take: TakeOption = False,
) -> None:
    """Run the build that hosts had before the last one; a second time, the newer one again.

    Examples:
        roambench fleet rollback bench.toml
        roambench fleet rollback bench.toml --only pi-03
    """
    from roambench.cli.fleet.bench_in_hand import in_hand
    from roambench.cli.fleet.outcome_table import counted, outcome_json, outcome_table, print_rows
    from roambench.provision.changes.removal import RolledBack, rollback
    from roambench.provision.claims import asked_first
    from roambench.provision.inventory.load import load_bench
    from roambench.provision.ssh.hosts import on_hosts
    from roambench.runner.screen import screen

    def describe(done: RolledBack) -> str:
        return f"{done.build} ({done.version}) instead of {done.instead_of}"

    loaded = load_bench(bench)
    hosts = loaded.only(only or (), limit)
    with in_hand(loaded, "rollback", wait_s, hosts=hosts, during_run=during_run):
        outcomes = on_hosts(loaded, hosts, asked_first(loaded, rollback, take=take))
    if as_json:
        print(outcome_json(outcomes))
    else:
        title = f"{loaded.name}: {counted('rolled back', outcomes)}"
        print_rows(outcome_table(title, "state", outcomes, describe), screen())
    if any(one.failed for one in outcomes):
        raise typer.Exit(1)


def unprovision_hosts(
    bench: BenchArgument,
    only: OnlyOption = None,
    limit: LimitOption = None,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes",
            help="Do not ask: readings not collected yet are lost. Needed without a terminal.",
        ),
    ] = False,
    wait_s: WaitOption = 0.0,
    during_run: DuringOption = False,
    as_json: JsonOption = False,
    take: TakeOption = False,
) -> None:
    """Remove all that provisioning brought, readings and models on the hosts included.

    Examples:
        roambench fleet unprovision bench.toml --only pi-03
        roambench fleet unprovision bench.toml --yes
    """
    import sys

    from roambench.cli.fleet.bench_in_hand import in_hand
    from roambench.cli.fleet.outcome_table import counted, outcome_json, outcome_table, print_rows
    from roambench.contract.errors import ConfigError
    from roambench.provision.certificates import BenchAuthority
    from roambench.provision.changes.removal import Unprovisioned, unprovision
    from roambench.provision.claims import asked_first
    from roambench.provision.inventory.load import load_bench
    from roambench.provision.ssh.hosts import HostLink, on_hosts
    from roambench.runner.screen import screen

    def describe(done: Unprovisioned) -> str:
        return ("removed" if done.found else "nothing was there") + (f"; {done.note}" if done.note else "")

    loaded = load_bench(bench)
    hosts = loaded.only(only or (), limit)
    if not yes:
        question = f"Remove everything from {count(len(hosts), 'host')} of {loaded.name}?"
        if not sys.stdin.isatty():
            raise ConfigError([f"{question} Expected --yes, since there is no terminal to ask on"])
        typer.confirm(question, abort=True)
    authority = BenchAuthority(loaded.state_dir)

    def work(link: HostLink) -> Unprovisioned:
        done = unprovision(link)
        authority.revoke_name(link.host.name, "unprovisioned")
        return done

    with in_hand(loaded, "unprovision", wait_s, hosts=hosts, during_run=during_run):
        outcomes = on_hosts(loaded, hosts, asked_first(loaded, work, take=take))
    if as_json:
        print(outcome_json(outcomes))
    else:
        title = f"{loaded.name}: {counted('unprovisioned', outcomes)}"
        print_rows(outcome_table(title, "state", outcomes, describe), screen())
    if any(one.failed for one in outcomes):
        raise typer.Exit(1)


def _count(outcomes: list[HostOutcome[Provisioned]], *, dry_run: bool) -> str:
    failed = sum(one.failed for one in outcomes)
    changed = sum(one.value is not None and bool(one.value.plan.steps) for one in outcomes)
    unchanged = len(outcomes) - failed - changed
    return f"{changed} {'to change' if dry_run else 'changed'}, {unchanged} unchanged, {failed} failed"
