"""`roambench fleet upgrade` and `replace`: another build, another board."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roambench.cli.common_options import JsonOption, WaitOption
from roambench.cli.fleet.options import BenchArgument, LimitOption, OnlyOption, TakeOption

if TYPE_CHECKING:
    from roambench.provision.bench import Host


def upgrade_hosts(
    bench: BenchArgument,
    only: OnlyOption = None,
    limit: LimitOption = None,
    wait_s: WaitOption = 0.0,
    as_json: JsonOption = False,
    take: TakeOption = False,
) -> None:
    """Install this source tree's build and see every agent run it; where one does not, its build before
    comes back. Not during runs: all boards of one run have the same build.

    Examples:
        roambench fleet upgrade bench.toml
        roambench fleet upgrade bench.toml --only rack1 --wait 600
    """
    from roambench.cli.fleet.bench_in_hand import in_hand
    from roambench.cli.fleet.outcome_table import counted, outcome_json, outcome_table, print_rows
    from roambench.provision.changes.upgrading import Upgraded, upgrade
    from roambench.provision.inventory.load import load_bench
    from roambench.runner.screen import screen

    def describe(done: Upgraded) -> str:
        return f"{done.build} ({done.version})" + ("" if done.changed else ", as before")

    loaded = load_bench(bench)
    hosts = loaded.only(only or (), limit)
    with in_hand(loaded, "upgrade", wait_s, hosts=hosts, during_run=False):
        outcomes = upgrade(loaded, hosts, _print_step, take=take)
    if as_json:
        print(outcome_json(outcomes))
    else:
        title = f"{loaded.name}: {counted('upgraded', outcomes, lambda done: bool(done.changed))}"
        table = outcome_table(title, "runs", outcomes, describe)
        print_rows(table, screen())
    if any(one.failed for one in outcomes):
        raise typer.Exit(1)


def replace(
    bench: BenchArgument,
    board: Annotated[str, typer.Argument(metavar="BOARD", help="The board that died.")],
    spare: Annotated[
        str, typer.Argument(metavar="[SPARE]", help="Another host of the bench, to take its place.")
    ] = "",
    card: Annotated[
        Path | None,
        typer.Option(
            "--card", metavar="FOLDER", help="Where the dead board's SD card is mounted here (its root)."
        ),
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="BOARD itself is in service again.")] = False,
) -> None:
    """Let a spare play a board that died: name, slot, certificate, settings, and what the board had not
    handed over, if it still answers or its card can be read. Works during a run, too: the spare goes on with
    the board's orders.

    Examples:
        roambench fleet replace bench.toml pi-03 pi-36
        roambench fleet replace bench.toml pi-03 --undo
    """
    from roambench.contract.errors import ConfigError
    from roambench.provision.changes.replacing import readers_changed, replace_board, take_back
    from roambench.provision.inventory.load import load_bench

    def provision_line(*names: str) -> str:
        words = [word for name in dict.fromkeys(names) for word in ("--only", name)]
        return shlex.join(["roambench", "fleet", "provision", str(bench), *words])

    loaded = load_bench(bench)
    if undo == bool(spare) or (undo and card is not None):
        raise ConfigError(["expected BOARD SPARE [--card FOLDER], or BOARD --undo"])
    if undo:
        freed = take_back(loaded, board)
        readers = readers_changed(loaded, load_bench(bench))
        print(f"{board} is itself again; next: {provision_line(board, freed, *readers)}")
        return
    done = replace_board(loaded, loaded.host(board), loaded.host(spare), _print_step, card)
    print(done.note)
    print(f"{board} is played by {spare} at {done.host.address} from now on")
    if done.readers:
        print(f"next: {provision_line(*done.readers)} (they read other meters now)")
    command = f"roambench fleet identify {shlex.quote(str(bench))}"
    print(f"next: {command} (it has another meter), before the next run")


def _print_step(host: Host, text: str) -> None:
    from roambench.runner.screen import progress_screen, say

    say(progress_screen(stderr=True), f"{host.name}  {text}")
