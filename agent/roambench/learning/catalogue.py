"""Looking a name up in a table of this package, or among the entry points other packages add to it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import TypeVar, cast

from roambench.contract.errors import ConfigError

Row = TypeVar("Row")


def find(table: Mapping[str, Row], name: str, *, what: str, group: str | None = None) -> Row:
    """The row called `name`; ConfigError lists the names there are. The package's own rows come first."""
    if name in table:
        return table[name]
    added = {} if group is None else {point.name: point for point in entry_points(group=group)}
    if name in added:
        try:
            return cast(Row, added[name].load())
        except Exception as error:
            raise ConfigError([f"{what} {name!r} ({added[name].value}) cannot be loaded: {error}"]) from error
    raise ConfigError([f"unknown {what} {name!r}: expected one of {', '.join(sorted({*table, *added}))}"])


def names(table: Mapping[str, Row], group: str | None = None) -> list[str]:
    """Every name `find` knows, sorted."""
    added = () if group is None else entry_points(group=group).names
    return sorted({*table, *added})
