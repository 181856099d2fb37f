"""`roambench fleet lease`, `release` and `who`: turns on a bench that several people share."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roambench.cli.common_options import JsonOption, WaitOption
from roambench.cli.fleet.options import BenchArgument

if TYPE_CHECKING:
    from roambench.provision.leases.queue import LeaseRequest


def lease(
    bench: BenchArgument,
    hours: Annotated[float, typer.Option(min=0.01, max=168.0, help="How long it is reserved.")] = 2.0,
    purpose: Annotated[str, typer.Option(metavar="TEXT", help="What for; others see it.")] = "reserved",
    wait: WaitOption = 0.0,
    begins: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="TIME",
            help='Book it for later: "2026-12-01 20:00" in local time, or with an offset.',
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Reserve the bench for yourself, now or --from a later time: then only your runs start on it, one at a
    time.

    A run takes and gives back the bench by itself: this is for an afternoon, or a night, of several.

    Examples:
        roambench fleet lease bench.toml --hours 4 --purpose sweep
        roambench fleet lease bench.toml --from '2026-12-01 20:00' --hours 10
    """
    from functools import partial

    from roambench.contract.errors import ConfigError
    from roambench.provision.inventory.load import load_bench
    from roambench.provision.leases.described import described
    from roambench.provision.leases.holding import standing_of
    from roambench.provision.leases.local_time import moment_s
    from roambench.provision.leases.reserving import book_ahead, reserve
    from roambench.runner.screen import print_json, progress_screen, say

    console = progress_screen(stderr=True)
    loaded = load_bench(bench)
    if begins is not None:
        if wait:
            raise ConfigError(["--wait: a booking (--from) does not wait"])
        booked = book_ahead(loaded, purpose, moment_s(begins, "--from"), hours * 3600.0)
        if as_json:
            print_json({"bench": loaded.name, "booking": _row(booked)})
            return
        print(f"{loaded.name}: {described(booked)}")
        print(f"roambench fleet release {shlex.quote(str(bench))} --booking {booked.number} takes it back")
        return
    reserve(loaded, purpose, hours * 3600.0, wait, partial(say, console))
    if as_json:
        print_json({"bench": loaded.name, "holder": _row(standing_of(loaded).holder)})
        return
    command = f"roambench fleet release {shlex.quote(str(bench))}"
    print(f"{loaded.name} is yours for {hours:g} h; {command} gives it back")


def release(
    bench: BenchArgument,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="End another user's lease, and any run under it; with --booking: another user's booking.",
        ),
    ] = False,
    booking: Annotated[
        int | None,
        typer.Option("--booking", metavar="NUMBER", help="Take back what you booked for later instead."),
    ] = None,
) -> None:
    """Give back your reservation, or a booking.

    Examples:
        roambench fleet release bench.toml
        roambench fleet release bench.toml --booking 2
    """
    from roambench.provision.inventory.load import load_bench
    from roambench.provision.leases.reserving import give_back

    for line in give_back(load_bench(bench), booking=booking, force=force):
        print(line)


def who(bench: BenchArgument, as_json: JsonOption = False) -> None:
    """Show who uses the bench, for what and until when, who waits, and what is booked for later.

    Examples:
        roambench fleet who bench.toml
        roambench fleet who bench.toml --json
    """
    from roambench.provision.inventory.load import load_bench
    from roambench.provision.leases.described import described
    from roambench.provision.leases.holding import standing_of
    from roambench.runner.screen import print_json

    loaded = load_bench(bench)
    found = standing_of(loaded)
    if as_json:
        document = {
            "bench": loaded.name,
            "holder": _row(found.holder),
            "runner": _row(found.runner),
            "beside": [_row(claim) for claim in found.beside],
            "waiting": [_row(claim) for claim in found.waiting],
            "bookings": [_row(claim) for claim in found.bookings],
        }
        print_json(document)
        return
    free = "free but for the boards that are kept" if found.beside else "free"
    print(f"{loaded.name} is {free}" if found.holder is None else f"{loaded.name}: {described(found.holder)}")
    if found.runner is not None:
        print(f"  runs now: {described(found.runner)}")
    for claim in found.beside:
        print(f"  beside: {described(claim)}")
    for place, claim in enumerate(found.waiting, start=1):
        print(f"  {place}. in the queue: {described(claim)}")
    for claim in found.bookings:
        print(f"  later: {described(claim)}")


def _row(claim: LeaseRequest | None) -> dict[str, Any] | None:
    """Its fields, and the times of a reservation as a person has them."""
    from dataclasses import asdict

    from roambench.provision.leases.local_time import iso

    if claim is None:
        return None
    begins = {"from": iso(claim.from_s)} if claim.from_s is not None else {}
    ends = {"until": iso(claim.expires_s)} if claim.reserves else {}
    return {**asdict(claim), **begins, **ends}
