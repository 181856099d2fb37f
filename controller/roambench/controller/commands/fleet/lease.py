"""`roambench fleet lease`, `release` and `who`: whose turn it is on a bench that several people share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from roambench.controller.commands.fleet.options import BenchArgument, JsonOption

if TYPE_CHECKING:
    from roambench.provision.leases.queue import Claim


def register(app: typer.Typer) -> None:
    """Add the commands of this file to `app`."""
    app.command("lease")(lease)
    app.command("release")(release)
    app.command("who")(who)


def lease(
    bench: BenchArgument,
    hours: Annotated[float, typer.Option(min=0.01, max=168.0, help="How long it is reserved.")] = 2.0,
    purpose: Annotated[str, typer.Option(metavar="TEXT", help="What for; others see it.")] = "reserved",
    wait: Annotated[
        float, typer.Option(min=0.0, metavar="SECONDS", help="Queue so long if somebody has it.")
    ] = 0.0,
) -> None:
    """Reserve the bench for yourself: until then only your runs start on it, one at a time.

    A run takes and gives back the bench by itself: this is for an afternoon of several.
    """
    from rich.console import Console

    from roambench.provision.inventory.load import load_bench
    from roambench.provision.leases.holding import reserve

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    loaded = load_bench(bench)
    reserve(loaded, purpose, hours * 3600.0, wait, lambda line: console.print(line, markup=False))
    print(f"{loaded.name} is yours for {hours:g} h; roambench fleet release {bench} gives it back")


def release(
    bench: BenchArgument,
    force: Annotated[
        bool, typer.Option("--force", help="End the lease of whoever holds it, and any run under it.")
    ] = False,
) -> None:
    """Give back your reservation."""
    from roambench.provision.inventory.load import load_bench
    from roambench.provision.leases.holding import give_back

    for line in give_back(load_bench(bench), force=force):
        print(line)


def who(bench: BenchArgument, as_json: JsonOption = False) -> None:
    """Show who uses the bench, for what and until when, and who waits."""
    import json

    from roambench.provision.inventory.load import load_bench
    from roambench.provision.leases.holding import described, standing_of

    loaded = load_bench(bench)
    found = standing_of(loaded)
    if as_json:
        document = {
            "bench": loaded.name,
            "holder": _row(found.holder),
            "runner": _row(found.runner),
            "waiting": [_row(claim) for claim in found.waiting],
        }
        print(json.dumps(document, indent=2))
        return
    if found.holder is None:
        print(f"{loaded.name} is free")
        return
    print(f"{loaded.name}: {described(found.holder)}")
    if found.runner is not None:
        print(f"  runs now: {described(found.runner)}")
    for place, claim in enumerate(found.waiting, start=1):
        print(f"  {place}. in the queue: {described(claim)}")


def _row(claim: Claim | None) -> dict[str, Any] | None:
    from dataclasses import asdict

    return None if claim is None else asdict(claim)
