"""`roambench fleet preflight` and `identify`: prove that a bench is sound before it measures anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from roambench.cli.common_options import JsonOption, WaitOption
from roambench.cli.fleet.options import BenchArgument, LimitOption, OnlyOption
from roambench.contract.counts import count
from roambench.provision.checks import CheckVerdict

if TYPE_CHECKING:
    from rich.table import Table

    from roambench.provision.checks import Preflight
    from roambench.provision.meter_map import MeterMap


#: A column for each check needs so much; a narrower terminal breaks the lines.
_WIDTH: Final = 110
_MARKS: Final = {
    CheckVerdict.PASS: "pass",
    CheckVerdict.WARN: "warn",
    CheckVerdict.FAIL: "FAIL",
    CheckVerdict.SKIP: "skip",
}


def preflight(
    bench: BenchArgument,
    only: OnlyOption = None,
    limit: LimitOption = None,
    as_json: JsonOption = False,
    smoke: Annotated[bool, typer.Option(help="Train a step on every host.")] = True,
    peers: Annotated[
        bool,
        typer.Option("--peers", help="Also the ways between hosts, which decentralised runs need."),
    ] = False,
) -> None:
    """Check on every host what a run depends on: pass, warn, fail or skip, and what to do.

    Ends with status 1 if anything failed. `roambench run` does the same before it starts.

    Examples:
        roambench fleet preflight bench.toml
        roambench fleet preflight bench.toml --only rack1 --no-smoke
    """
    from dataclasses import asdict

    from roambench.provision.inventory.load import load_bench
    from roambench.provision.preflight.preflight import check
    from roambench.runner.screen import print_json, say, screen

    loaded = load_bench(bench)
    hosts = loaded.only(only or (), limit)
    made = check(loaded, hosts, smoke=smoke, peers=peers)
    if as_json:
        print_json({"passed": made.passed, **asdict(made)})
    else:
        console = screen()
        console.width = max(console.width, _WIDTH)
        console.print(_table(made), markup=False)
        for line in made.lines():
            say(console, line)
        console.print(_verdict(made), markup=False)
    if not made.passed:
        raise typer.Exit(1)


def identify(
    bench: BenchArgument,
    only: OnlyOption = None,
    limit: LimitOption = None,
    as_json: JsonOption = False,
    burn: Annotated[float, typer.Option(min=5.0, max=120.0, metavar="S", help="Load of a board.")] = 8.0,
    rest: Annotated[float, typer.Option(min=7.0, max=120.0, metavar="S", help="Rest between two.")] = 10.0,
    rounds: Annotated[int, typer.Option(min=1, max=10, help="How often each board is loaded.")] = 1,
    wait: WaitOption = 0.0,
) -> None:
    """Prove which meter powers which board: load one at a time and see which meter moves.

    The proof is kept in the bench's state folder; runs refuse to tell energy without it. Ends with status 1
    if any board is not proven to hang on the meter that the bench file gives it.

    Examples:
        roambench fleet identify bench.toml
        roambench fleet identify bench.toml --only pi-03 --rounds 5
    """
    from dataclasses import asdict

    from roambench.cli.fleet.outcome_table import print_rows
    from roambench.provision.identify import identify as prove
    from roambench.provision.inventory.load import load_bench
    from roambench.provision.leases.holding import holding
    from roambench.provision.meter_map import Proof, write_map
    from roambench.runner.screen import print_json, progress_screen, say, screen

    loaded = load_bench(bench)
    hosts = loaded.only(only or (), limit)
    progress = progress_screen(stderr=True)

    def report(line: str) -> None:
        say(progress, line)

    with holding(loaded, "identify", report, wait, boards=[host.name for host in hosts]):
        made = prove(loaded, hosts, burn_s=burn, rest_s=rest, rounds=rounds, report=report)
    path = write_map(loaded, made)
    if as_json:
        print_json(asdict(made))
    else:
        console = screen()
        print_rows(_map_table(made), console)
        proven = sum(entry.verdict is Proof.PROVEN for entry in made.entries)
        for entry in made.entries:
            if entry.reason:
                say(console, f"{entry.board}: {entry.verdict}: {entry.reason}")
        told_last = f"{proven} of {len(made.entries)} boards are proven; kept in {path}"
        say(console, told_last)
    if any(entry.verdict is not Proof.PROVEN for entry in made.entries):
        raise typer.Exit(1)


def _table(made: Preflight) -> Table:
    """A row per host, a column per check; the verdicts alone, what is behind them comes as lines."""
    from rich.table import Table

    from roambench.cli.fleet.outcome_table import add_columns

    names = list(dict.fromkeys(check.name for host in made.hosts for check in host.checks))
    table = Table(title=f"preflight of {made.bench}", title_justify="left", box=None, pad_edge=False)
    add_columns(table, "host", *names)
    for host in made.hosts:
        verdicts = {check.name: _MARKS[check.verdict] for check in host.checks}
        table.add_row(host.host, *(verdicts.get(name, "") for name in names))
    return table


def _verdict(made: Preflight) -> str:
    failed = [host.host for host in made.hosts if host.of(CheckVerdict.FAIL)]
    if failed:
        return f"{len(failed)} of {len(made.hosts)} hosts failed: {', '.join(failed)}"
    skipped = dict.fromkeys(check.name for host in made.hosts for check in host.of(CheckVerdict.SKIP))
    skips = f"; skipped, not shown to be sound: {', '.join(skipped)}" if skipped else ""
    return f"all {count(len(made.hosts), 'host')} passed{skips}"


def _map_table(made: MeterMap) -> Table:
    from rich.table import Table

    from roambench.cli.fleet.outcome_table import add_columns

    table = Table(title=f"boards and meters of {made.bench}", title_justify="left", box=None, pad_edge=False)
    others = ("meter that moved", "step W", "next W", "lead", "verdict")
    add_columns(table, "board", *others, whole=("meter that moved",))
    for entry in made.entries:
        table.add_row(
            entry.board,
            entry.found or "–",
            f"{entry.step_w:+.2f} ± {2.0 * entry.u_step_w:.2f}",
            f"{entry.runner_up_w:+.2f}",
            f"{entry.separation:.0f} u" if entry.separation < 1e9 else "no other",
            entry.verdict.value,
        )
    return table
