"""Table of every host's outcome, as the `fleet` commands print it: a row each, reason and next action
last."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import TypeVar

from rich.table import Table

from roambench.provision.ssh.hosts import HostOutcome

T = TypeVar("T")


def add_columns(table: Table, name: str, *others: str, whole: Container[str] = ()) -> None:
    """The first column is a name: it is never broken, so that one can copy it and search for it.

    Nor are those in `whole`; the others give way.
    """
    table.add_column(name, no_wrap=True, overflow="ignore")
    for other in others:
        kept = other in whole
        table.add_column(other, no_wrap=kept, overflow="ignore" if kept else "fold")


def outcome_table(
    title: str, column: str, outcomes: Sequence[HostOutcome[T]], cell: Callable[[T], str]
) -> Table:
    """`cell` says what a host that did it has to tell."""
    table = Table(title=title, title_justify="left")
    add_columns(table, "host", column, "reason", "next action")
    for one in outcomes:
        told = cell(one.value) if one.value is not None else ""
        table.add_row(one.host.name, told, one.reason, one.next_action)
    return table
