"""`roambench fleet logs`, `exec` and `reboot`: what one would do on every host by hand."""

from __future__ import annotations

from typing import Annotated

import typer

from roambench.controller.commands.fleet_options import BenchArgument, LimitOption, OnlyOption

WaitOption = Annotated[
    float, typer.Option("--wait", min=0.0, metavar="S", help="How long to wait for whoever uses the bench.")
]


def register(app: typer.Typer) -> None:
    app.command("logs")(logs)
    app.command("exec")(execute)
    app.command("reboot")(reboot_hosts)


def logs(
    bench: BenchArgument,
    only: OnlyOption = None,
    limit: LimitOption = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, max=100_000, help="Of every host.")] = 20,
    since: Annotated[str, typer.Option(help='As journalctl has it: "10 min ago", "2026-03-01".')] = "",
) -> None:
    """Print what the agents wrote to their journals, the host's name before every line."""
    from rich.console import Console

    from roambench.controller.commands.outcome_table import outcome_table
    from roambench.provision.hosts import on_hosts
    from roambench.provision.inventory import load_bench
    from roambench.provision.journal_lines import journal
    from roambench.provision.printable import printable

    loaded = load_bench(bench)
    outcomes = on_hosts(loaded, loaded.only(only or (), limit), lambda link: journal(link, lines, since))
    for one in outcomes:
        for line in one.value or ():
            print(f"{one.host.name}: {printable(line)}")
    failed = [one for one in outcomes if one.failed]
    if failed:
        Console(highlight=False, stderr=True).print(
            outcome_table(f"{loaded.name}: no logs", "lines", failed, str), markup=False
        )
        raise typer.Exit(1)


def execute(
    bench: BenchArgument,
    command: Annotated[list[str], typer.Argument(metavar="COMMAND...", help="Put -- before it.")],
    only: OnlyOption = None,
    limit: LimitOption = None,
    root: Annotated[bool, typer.Option("--root", help="With sudo.")] = False,
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=1.0, metavar="S", help="For each host.")
    ] = 60.0,
) -> None:
    """Run a shell command on every host: `fleet exec BENCH --only rack1 -- uptime`.

    Prints what it says with the host's name before every line; exit code 1 if it failed anywhere.
    """
    import sys

    from roambench.provision.hosts import on_hosts
    from roambench.provision.inventory import load_bench
    from roambench.provision.printable import printable

    loaded = load_bench(bench)
    line = " ".join(command)
    outcomes = on_hosts(
        loaded,
        loaded.only(only or (), limit),
        lambda link: link.run(line, root=root, timeout_s=timeout_s),
    )
    bad = 0
    for one in outcomes:
        if one.value is None:
            print(f"{one.host.name}: {one.reason}; {one.next_action}", file=sys.stderr)
            bad += 1
            continue
        for said, stream in ((one.value.out, sys.stdout), (one.value.err, sys.stderr)):
            for text in said.decode(errors="replace").splitlines():
                print(f"{one.host.name}: {printable(text)}", file=stream)
        if one.value.exit_code:
            print(f"{one.host.name}: exit code {one.value.exit_code}", file=sys.stderr)
            bad += 1
    if bad:
        raise typer.Exit(1)


def reboot_hosts(
    bench: BenchArgument,
    only: OnlyOption = None,
    limit: LimitOption = None,
    back_s: Annotated[
        float,
        typer.Option("--back-within", min=0.0, metavar="S", help="Wait so long for them; 0: do not wait."),
    ] = 180.0,
    wait_s: WaitOption = 0.0,
    during_run: Annotated[
        bool, typer.Option("--during-run", help="Even if somebody's run uses the bench.")
    ] = False,
) -> None:
    """Reboot hosts and wait until they are back."""
    from rich.console import Console

    from roambench.controller.commands.bench_in_hand import in_hand
    from roambench.controller.commands.outcome_table import outcome_table
    from roambench.provision.hosts import on_hosts
    from roambench.provision.inventory import load_bench
    from roambench.provision.rebooting import Rebooted, reboot

    def told(done: Rebooted) -> str:
        return "asked to" if done.back_after_s is None else f"{done.back_after_s:.0f} s"

    loaded = load_bench(bench)
    hosts = loaded.only(only or (), limit)
    with in_hand(loaded, "reboot", wait_s, during_run=during_run):
        outcomes = on_hosts(loaded, hosts, lambda link: reboot(link, back_s), at_once=max(1, len(hosts)))
    table = outcome_table(f"{loaded.name}: rebooted", "back after", outcomes, told)
    Console(highlight=False).print(table, markup=False)
    if any(one.failed for one in outcomes):
        raise typer.Exit(1)
