"""`roambench fleet flower`: a Flower app on the hosts of a bench, with what it imports."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roambench.cli.common_options import JsonOption, WaitOption, with_progress, with_sudo
from roambench.cli.fleet.options import BenchArgument, DuringOption, LimitOption, OnlyOption, TakeOption

if TYPE_CHECKING:
    from roambench.provision.bench import Host


def register(app: typer.Typer) -> None:
    """Add the command of this file to `app`."""
    app.command("flower")(with_sudo(with_progress(bring_app)))


def bring_app(
    bench: BenchArgument,
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="APP_DIR", help="Folder of the app, with its pyproject.toml."),
    ] = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Take the app, and what it imports, off the hosts.")
    ] = False,
    only: OnlyOption = None,
    limit: LimitOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "--check", help="Show what would be done, equal plans once.")
    ] = False,
    as_json: JsonOption = False,
    wait_s: WaitOption = 0.0,
    during_run: DuringOption = False,
    take: TakeOption = False,
) -> None:
    """Bring a Flower app to hosts that have no internet: its files, flwr, and the wheels that it needs.

    The bench keeps it, and `fleet provision` brings it again; a newer one takes its place. Doing it again
    changes nothing.

    Examples:
        roambench fleet flower bench.toml quickstart-pytorch
        roambench fleet flower bench.toml --remove
    """
    from functools import partial

    from roambench.cli.fleet.bench_in_hand import in_hand
    from roambench.cli.fleet.outcome_table import counted, outcome_table, print_rows
    from roambench.cli.fleet.provision_text import plans_text, provision_json, state_text
    from roambench.contract.errors import ConfigError
    from roambench.extras.flower.kit import kit_of_app
    from roambench.provision.inventory.load import load_bench
    from roambench.provision.provisioning import provision
    from roambench.provision.wheels.program_kit import keep_kit
    from roambench.runner.screen import progress_screen, say, screen

    if (folder is None) != remove:
        raise ConfigError(["fleet flower: expected APP_DIR or --remove"])
    loaded = load_bench(bench)
    hosts = loaded.only(only or (), limit)
    kit = None if folder is None else kit_of_app(folder)
    progress = progress_screen(stderr=True)

    def report(host: Host, text: str) -> None:
        say(progress, f"{host.name}  {text}")

    purpose = f"flower {folder or '--remove'}"
    with in_hand(loaded, purpose, wait_s, hosts=hosts, during_run=during_run or dry_run) as kept:
        outcomes = provision(
            loaded, hosts, dry_run=dry_run, report=report, let_go=kept.done, kit=kit, take=take
        )
        if not dry_run and any(not one.failed for one in outcomes):
            keep_kit(loaded.state_dir, kit)
    if as_json:
        print(provision_json(outcomes, dry_run=dry_run))
    else:
        if dry_run:
            print(plans_text(outcomes))
        which = "without an app" if kit is None else f"{kit.spec.name} {kit.spec.version} ({kit.digest})"
        title = f"{loaded.name}: {which}, {counted('changed', outcomes, lambda done: bool(done.plan.steps))}"
        print_rows(outcome_table(title, "state", outcomes, partial(state_text, dry_run=dry_run)), screen())
    if any(one.failed for one in outcomes):
        raise typer.Exit(1)
