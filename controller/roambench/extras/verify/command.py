"""`roambench fleet verify`: whether a board and its meter are as this project assumes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roambench.cli.common_options import JsonOption, WaitOption, keep_inputs, with_progress, with_sudo
from roambench.cli.fleet.options import OnlyOption


def register(app: typer.Typer) -> None:
    """Add the commands of this file to `app`."""
    app.command("verify")(with_sudo(with_progress(verify)))


def verify(
    source: Annotated[
        Path, typer.Argument(metavar="BENCH|KIT", help="A bench description, or a kit (.zip) to judge again.")
    ],
    only: OnlyOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="Keep what was seen: a kit without names and keys."
        ),
    ] = None,
    minutes: Annotated[
        float,
        typer.Option("--minutes", min=1.0, max=10.0, metavar="MIN", help="Of load, on and off in turns."),
    ] = 10.0,
    cut_power: Annotated[
        bool,
        typer.Option(
            "--cut-power", help="At the end the board may lose its power: open its port, switch it."
        ),
    ] = False,
    wait_s: WaitOption = 0.0,
    as_json: JsonOption = False,
) -> None:
    """Check on one board with its meter what this project assumes of hardware: which holds, and what else.

    A quarter of an hour: preflight, rest, all cores on and off, transfers both ways. Exit code 1 if anything
    does not hold. docs/prove.md has the list.

    Examples:
        roambench fleet verify bench.toml --only pi-01 -o kit.zip
        roambench fleet verify kit.zip
    """
    from dataclasses import asdict
    from functools import partial

    from roambench.cli.fleet.bench_in_hand import in_hand
    from roambench.contract.errors import ConfigError
    from roambench.extras.verify.collecting import Pace, collect
    from roambench.extras.verify.finding import Held
    from roambench.extras.verify.judging import judged
    from roambench.extras.verify.kit import read_kit, write_kit
    from roambench.provision.inventory.load import load_bench
    from roambench.runner.screen import print_json, progress_screen, say

    keep_inputs(out, source)
    if source.suffix == ".zip":
        kit = read_kit(source)
    else:
        loaded = load_bench(source)
        hosts = loaded.only(only or ())
        if len(hosts) != 1:
            raise ConfigError([f"expected one host, got {len(hosts)}: --only NAME"])
        progress = progress_screen(stderr=True)
        with in_hand(loaded, "verify", wait_s, hosts=hosts, during_run=False):
            pace = Pace(wave_s=minutes * 60.0)
            kit = collect(loaded, hosts[0], pace, partial(say, progress), may_cut=cut_power)
    findings = judged(kit)
    lines = [f"{kit.board}, {kit.driver}, roambench {kit.version}"]
    for one in findings:
        lines.append(f"{one.held:9}  {one.assumption}: {one.found}")
        if one.changes:
            lines.append(f"{'':9}  -> {one.changes}")
    counts = {held: sum(one.held is held for one in findings) for held in Held}
    lines.append(", ".join(f"{count} {held}" for held, count in counts.items()))
    if as_json:
        about = {"board": kit.board, "driver": kit.driver, "version": kit.version}
        print_json({**about, "findings": [asdict(one) for one in findings]})
    else:
        print("\n".join(lines))
    if out is not None:
        try:
            write_kit(out, kit, lines)
        except OSError as error:
            raise ConfigError([f"--output {out}: cannot be written: {error.strerror}"]) from None
    if counts[Held.FAILS]:
        raise typer.Exit(1)
