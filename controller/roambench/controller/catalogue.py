"""Every table a user can choose from, in one place: the rows the packages define and those others add."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Any, Final

from roambench.mobility.catalogue import LateTable


@dataclass(frozen=True, slots=True)
class Table:
    """Where a table lives ("module:attribute", imported only when asked for), and who may add rows."""

    kind: str
    where: str
    group: str  # entry points of this group are rows too


TABLES: Final[Mapping[str, Table]] = MappingProxyType(
    {
        table.kind: table
        for table in (
            Table("algorithms", "roambench.systems.catalogue:SYSTEMS", "roambench.systems"),
            Table("decentralised", "roambench.systems.peers:PEER_SYSTEMS", "roambench.peer_systems"),
            Table("datasets", "roambench.learning.datasets:DATASETS", "roambench.datasets"),
            Table("models", "roambench.learning.models:MODELS", "roambench.models"),
            Table("partitions", "roambench.learning.partitions:PARTITIONS", "roambench.partitions"),
            Table("meters", "roambench.meters.catalogue:METERS", "roambench.meters"),
            Table("profiles", "roambench.meters.emulator.profiles:PROFILES", "roambench.meter_profiles"),
            Table("readers", "roambench.mobility.readers:READERS", "roambench.readers"),
            Table("generators", "roambench.mobility.walks:GENERATORS", "roambench.generators"),
        )
    }
)


@dataclass(frozen=True, slots=True)
class Row:
    """A line of `roambench list`."""

    name: str
    description: str  # one line


def names(kind: str) -> Sequence[str]:
    """The names of a table, sorted; rows that load late are not loaded."""
    return _names(kind, tuple(sys.path))


@cache
def _names(kind: str, _path: tuple[str, ...]) -> Sequence[str]:
    """On that sys.path; a sweep asks for every point."""
    return tuple(_loaders(kind))


def rows(kind: str) -> list[Row]:
    """The rows of a table, sorted by name. A row of another package that cannot be loaded says so."""
    described = []
    for name, load in _loaders(kind).items():
        try:
            described.append(Row(name, _description(load())))
        except Exception as error:  # whatever a third party's import does, the other rows are still there
            described.append(Row(name, f"cannot be loaded: {error}"))
    return described


def load(kind: str, name: str) -> Any:
    """The row itself; KeyError for a name that `names` does not tell."""
    return _loaders(kind)[name]()


def foreign_modules(kind: str, name: str) -> list[str]:
    """The modules of other packages that add the row, more than one where they dispute the name; [] where the
    row is our own. Nothing is imported."""
    table = _table(kind)
    own = table.own if isinstance(table, LateTable) else table
    if name in own or name not in names(kind):
        return []
    return [point.module for point in entry_points(group=TABLES[kind].group, name=name)]


def _table(kind: str) -> Any:
    module, _, attribute = TABLES[kind].where.partition(":")
    return getattr(import_module(module), attribute)


def _loaders(kind: str) -> dict[str, Callable[[], Any]]:
    """name -> a function that yields its row, sorted by name. Our own row wins over one added."""
    table = _table(kind)
    found: dict[str, Callable[[], Any]] = {}
    if isinstance(table, LateTable):
        for name in table.names():
            found[name] = lambda name=name: table.load(name)  # type: ignore[misc]
    else:
        for point in entry_points(group=TABLES[kind].group):
            found[point.name] = point.load
        for name in table:
            found[name] = lambda name=name: _resolved(table[name])  # type: ignore[misc]
    return dict(sorted(found.items()))


def _resolved(row: Any) -> Any:
    """Some tables hold "module:attribute" instead of the row, so that a Pi need not import what it lacks."""
    if not isinstance(row, str):
        return row
    module, _, attribute = row.partition(":")
    return getattr(import_module(module), attribute)


def _description(row: Any) -> str:
    """The row's own summary, else the first sentence of its docstring."""
    for attribute in ("summary", "description"):
        text = getattr(row, attribute, None)
        if isinstance(text, str) and text:
            return text
    paragraph = " ".join((inspect.getdoc(row) or "").split("\n\n")[0].split())
    return paragraph.split(". ")[0].rstrip(".:")
