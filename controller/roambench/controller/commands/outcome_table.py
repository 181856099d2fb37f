"""Table of every host's outcome, as the `fleet` commands print it: a row each, reason and next action
last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from rich.table import Table

from roambench.provision.hosts import HostOutcome

T = TypeVar("T")


def outcome_table(
    title: str, column: str, outcomes: Sequence[HostOutcome[T]], cell: Callable[[T], str]
) -> Table:
    """`cell` says what a host that did it has to tell."""
    table = Table(title=title, title_justify="left")
    for name in ("host", column, "reason", "next action"):
        table.add_column(name, overflow="fold")
    for one in outcomes:
        told = cell(one.value) if one.value is not None else ""
        table.add_row(one.host.name, told, one.reason, one.next_action)
    return table
