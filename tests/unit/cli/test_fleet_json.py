"""`--json` of the `fleet` commands: one shape, also of hosts that cannot be reached."""

from __future__ import annotations

import datetime as dt
import inspect
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from benches import a_host, bench_of
from roambench.cli.fleet.app import fleet_app
from roambench.cli.fleet.outcome_table import outcome_json
from roambench.cli.main import app
from roambench.provision.ssh.hosts import HostOutcome


def commands(of: Any) -> Iterator[tuple[str, Any]]:
    for name, command in of.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command)
        else:
            yield name, command.callback


def test_every_command_that_prints_a_table_prints_json_too() -> None:
    found = dict(commands(get_command(fleet_app)))
    assert {"provision", "upgrade", "rotate", "who", "discover"} <= found.keys()
    tables = {name for name, work in found.items() if "table(" in inspect.getsource(work).lower()}
    assert len(tables) > 8
    without = {name for name in tables if "as_json" not in inspect.signature(found[name]).parameters}
    assert without == set()


@pytest.mark.lengthy
@pytest.mark.parametrize(
    "words",
    [("rollback",), ("unprovision", "--yes"), ("upgrade",), ("fetch",), ("certs", "rotate"), ("reboot",)],
)
def test_a_host_that_cannot_be_reached_is_an_object_with_its_reason(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    host = '[[hosts]]\nname = "pi-01"\naddress = "127.0.0.1"\nssh_port = 1\nmeter.driver = "none"\n'
    bench = bench_of(tmp_path, host)
    told = CliRunner().invoke(app, ["fleet", *words, str(bench.file), "--json"])
    assert told.exit_code == 1, told.output
    (row,) = json.loads(told.stdout)
    assert row["host"] == "pi-01"
    assert row["reason"]
    assert row["next_action"]


@dataclass
class Done:
    place: Path
    ends: dt.datetime


def test_what_a_host_did_is_in_its_object() -> None:
    moment = dt.datetime(2026, 1, 2, 3, 4, tzinfo=dt.UTC)
    outcomes = [
        HostOutcome(a_host(1), Done(Path("a/b"), moment)),
        HostOutcome(a_host(2), None, "is off", "switch it on"),
    ]
    assert json.loads(outcome_json(outcomes)) == [
        {
            "host": "pi-01",
            "reason": "",
            "next_action": "",
            "place": "a/b",
            "ends": "2026-01-02T03:04:00+00:00",
        },
        {"host": "pi-02", "reason": "is off", "next_action": "switch it on"},
    ]
