"""Hosts with a `power` table, as a bench description has them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from benches import bench_of
from roambench.provision.bench import Host
from roambench.provision.power.power_command import PowerCommand
from roambench.provision.power.switching import Switched, switch_power

#: Commands in turn, and whether the output is on after each.
COMMANDS = (
    (PowerCommand.OFF, False),
    (PowerCommand.STATE, False),
    (PowerCommand.ON, True),
    (PowerCommand.CYCLE, True),
)


def toml(table: Mapping[str, object]) -> str:
    return "{" + ", ".join(f"{key} = {json.dumps(value)}" for key, value in table.items()) + "}"


def secret_file(path: Path, text: str) -> None:
    """A file that nobody else may read."""
    path.touch(0o600)
    path.write_text(text)


def switched_host(folder: Path, **power: object) -> Host:
    """The one host of a bench, with this `power` table and no meter."""
    (host,) = bench_of(
        folder,
        f'[[hosts]]\nname = "pi-01"\naddress = "10.36.0.101"\nmeter.driver = "none"\npower = {toml(power)}\n',
    ).hosts
    return host


async def done(folder: Path, command: PowerCommand, **power: object) -> Switched:
    """What a command does to that host."""
    (switched,) = await switch_power([switched_host(folder, **power)], command, 0.1)
    return switched
