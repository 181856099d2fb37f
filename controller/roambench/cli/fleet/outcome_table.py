"""Every host's outcome as the `fleet` commands print it, a row each: a table, or JSON; files they write."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from rich.console import Console
from rich.table import Table

from roambench.contract.errors import ConfigError
from roambench.contract.whole_file import write_whole
from roambench.provision.ssh.hosts import HostOutcome

T = TypeVar("T")
#: Characters of a cell that has room in its own column.
_SHORT: Final = 24
#: Columns that no table needs.
_ANY: Final = 100_000


def add_columns(table: Table, name: str, *others: str, whole: Container[str] = ()) -> None:
    """The first column is a name: it is never broken, so that one can copy it and search for it.

    Nor are those in `whole`; the others give way.
    """
    table.add_column(name, no_wrap=True, overflow="ignore")
    for other in others:
        kept = other in whole
        table.add_column(other, no_wrap=kept, overflow="ignore" if kept else "fold")


def counted(done: str, outcomes: Sequence[HostOutcome[T]], changed: Callable[[T], bool] = bool) -> str:
    """3 upgraded, 1 as before, 2 failed: `done` is said of the hosts whose value `changed`; no zeros."""
    values = [one.value for one in outcomes if one.value is not None]
    changes = sum(map(changed, values))
    counts = {done: changes, "as before": len(values) - changes, "failed": len(outcomes) - len(values)}
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count) or f"0 {done}"


def outcome_table(
    title: str, column: str, outcomes: Sequence[HostOutcome[T]], cell: Callable[[T], str]
) -> Table:
    """`cell` says what a host that did it has to tell."""
    table = Table(title=title, title_justify="left")
    add_columns(table, "host", column, "reason", "next action")
    for one in outcomes:
        sentence = cell(one.value) if one.value is not None else ""
        table.add_row(one.host.name, sentence, one.reason, one.next_action)
    return table


def print_rows(table: Table, console: Console) -> None:
    """Print it; on a terminal that is too narrow, the columns that do not fit come below, behind the first
    again. A name, a number with its unit, or another short cell is not broken."""
    wide = console.options.update(max_width=_ANY)
    if not console.is_terminal or console.measure(table, options=wide).maximum <= console.width:
        console.print(table, markup=False)
        return
    from roambench.report.console import print_table  # pyarrow, for this alone
    from roambench.report.table import ReportTable

    columns = [[str(cell) for cell in column.cells] for column in table.columns]
    head = tuple(str(column.header) for column in table.columns)
    short = {number for number, cells in enumerate(columns) if max(map(len, cells), default=0) <= _SHORT}
    rows = ReportTable(
        "", str(table.title), "", head, tuple(zip(*columns, strict=True)), numeric_from=len(head)
    )
    print_table(rows, console, most_rows=None, whole=short)


def outcome_json(
    outcomes: Sequence[HostOutcome[T]], fields: Callable[[T], Mapping[str, Any]] | None = None
) -> str:
    """A list of objects: host, reason and next_action ("" where it did it), and the `fields` of one that did
    it, all that its dataclass has by default; moments as ISO 8601."""
    fields_of: Callable[[Any], Mapping[str, Any]] = fields or dataclasses.asdict
    rows = [
        {
            "host": one.host.name,
            "reason": one.reason,
            "next_action": one.next_action,
            **(fields_of(one.value) if one.value is not None else {}),
        }
        for one in outcomes
    ]
    return json.dumps(rows, indent=2, default=_as_text)


def write_out(out: Path, text: str) -> None:
    """Write what `--output` names; ConfigError where that is refused."""
    try:
        write_whole(out, text)
    except OSError as error:
        raise ConfigError([f"--output {out}: cannot be written: {error.strerror}"]) from None


def _as_text(value: object) -> str:
    return value.isoformat() if isinstance(value, dt.datetime) else str(value)
