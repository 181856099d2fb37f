"""`roambench fleet image`: first-boot files on the boot partition of a flashed SD card."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from roambench.cli.common_options import JsonOption
from roambench.cli.fleet.options import BenchArgument, LimitOption, OnlyOption


def register(app: typer.Typer) -> None:
    """Add the commands of this file to `app`."""
    app.command("image")(image)


def image(
    bench: BenchArgument,
    boot: Annotated[
        Path,
        typer.Option(
            "--boot",
            metavar="FOLDER",
            help="Where the boot partition (bootfs) of a freshly flashed card is mounted.",
        ),
    ],
    only: OnlyOption = None,
    limit: LimitOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FOLDER",
            help="Write no card, but a folder for each host with the files to copy to cards of that image.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be written, without the Wi-Fi's key.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Write on a flashed card of Raspberry Pi OS what makes it a host at its first boot.

    User, key, name, network, time server: as the bench description has them. Doing it again changes nothing.

    Examples:
        roambench fleet image bench.toml --boot /media/bootfs --only pi-03
        roambench fleet image bench.toml --boot /media/bootfs -o cards
    """
    from roambench.contract.errors import ConfigError
    from roambench.extras.first_boot.partition import recognised
    from roambench.extras.first_boot.settings import first_boots
    from roambench.extras.first_boot.writing import write_card
    from roambench.provision.inventory.load import load_bench
    from roambench.provision.ssh.known_hosts import KnownHosts
    from roambench.runner.screen import print_json

    loaded = load_bench(bench)
    hosts = loaded.only(only or (), limit)
    if out is None and len(hosts) != 1:
        raise ConfigError(
            [f"--only: expected one host for one card, got {len(hosts)}; --output makes all of them"]
        )
    card = recognised(boot)
    made = [
        write_card(one, card, boot if out is None else out / one.host, dry_run=dry_run)
        for one in first_boots(loaded, hosts)
    ]
    if as_json:
        rows = [
            {
                "host": one.host,
                "release": card.release,
                "folder": str(one.folder),
                "state": "unchanged" if not one.changed else "to change" if dry_run else "changed",
                "changed": one.changed,
                "files": sorted(one.files),
            }
            for one in made
        ]
        print_json(rows)
        return
    for one in made:
        names = ", ".join(one.changed)
        said = f"{'to write' if dry_run else 'wrote'} {names}" if names else "nothing to change"
        print(f"{one.host}: {card.release} in {one.folder}: {said}")
        if dry_run:
            for name in one.changed:
                print("\n".join([f"--- {name}", *one.shown(name).splitlines()]))
    known = KnownHosts.of(loaded)
    for name in (one.settings.known_as for one in made):
        if known.keys().lookup(name) is not None:
            forget = shlex.join(["ssh-keygen", "-R", name, "-f", str(known.path)])
            print(f"it had another SSH key before: {forget}")
