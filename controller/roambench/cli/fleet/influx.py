"""`roambench fleet influx-token`: a write-only token for the boards, where provisioning finds it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from roambench.cli.fleet.options import BenchArgument


def influx_token(
    bench: BenchArgument,
    admin_token_file: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="An administrator's token (InfluxDB 1.x: user:password); stays here."
        ),
    ],
    name: Annotated[str, typer.Option(help="What the server calls it.")] = "",
) -> None:
    """Make a token that may write the bench's bucket and nothing else; keep it in influxdb.token_file.

    Examples:
        roambench fleet influx-token bench.toml --admin-token-file admin
        roambench fleet influx-token bench.toml --admin-token-file admin --name bench36
    """
    from roambench.contract.errors import ConfigError
    from roambench.contract.whole_file import write_whole
    from roambench.provision.influx_access import make_write_only
    from roambench.provision.inventory.load import load_bench
    from roambench.spool.influx_settings import readable_at, token_in

    loaded = load_bench(bench)
    if loaded.influxdb is None or not loaded.influxdb.token_file:
        raise ConfigError([f"{loaded.file.name}: influxdb.token_file: expected a file to keep the token in"])
    target = Path(loaded.influxdb.token_file)
    if target.exists():
        raise ConfigError([f"{target}: is there already; remove it for a new token"])
    if not target.parent.is_dir():
        raise ConfigError([f"influxdb.token_file: {target}: there is no folder {target.parent}"])
    admin_token = token_in(admin_token_file, "--admin-token-file ")
    if host := readable_at(loaded.influxdb.url):
        print(
            f"the administrator's token goes to {host} over plain HTTP, where others can read it on the way",
            file=sys.stderr,
        )
    token = make_write_only(loaded.influxdb, admin_token, name or f"roambench-{loaded.name}")
    write_whole(target, token + "\n", mode=0o600)
    print(f"{target}: may write {loaded.influxdb.bucket} and nothing else; next: roambench fleet provision")
