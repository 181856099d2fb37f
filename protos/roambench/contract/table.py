"""Tables of rows that users choose from by name, and that installed packages extend by entry points."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import Any, Final, Generic, TypeVar, cast

from roambench.contract.errors import ConfigError

Row = TypeVar("Row")

_OURS: Final = "roambench"


def first_sentence(row: object) -> str:
    """Return what a docstring begins with, on one line; "Eq. 2" and "Fig. 3" end no sentence."""
    paragraph = " ".join((inspect.getdoc(row) or "").split("\n\n")[0].split())
    return re.split(r"(?<!\bEq)(?<!\bFig)\. ", paragraph)[0].rstrip(".:")


def _nothing_wrong(_name: str, _row: Any) -> Iterable[str]:
    return ()


@dataclass(frozen=True)
class Table(Generic[Row]):
    """Rows by name.

    `own` holds this project's rows, or the text "module:attribute" of one that is imported when it is asked
    for. `group` is the group of entry points by which `roambench.extras` and other packages add theirs; ""
    for none. A name of our own wins, in `own` or in extras; of two packages that dispute one, the first in
    the order of their names. Every row is a `kind`; without one it is a function. `mistakes(name, row)` says
    what else is wrong with a row of another package.
    """

    what: str  # a row's title in messages: "model"
    own: Mapping[str, Row | str]
    group: str = ""
    kind: type[Row] | None = None
    mistakes: Callable[[str, Row], Iterable[str]] = _nothing_wrong

    def names(self) -> tuple[str, ...]:
        """All names, sorted; no row is imported."""
        return tuple(sorted({*self.own, *(point.name for point in self._points())}))

    def load(self, name: str) -> Row:
        """The row of that name. ConfigError lists the names there are, or says whose row cannot be used."""
        points = self._points_named(name)
        if points:
            return self._load_added(points[0])
        if name not in self.own:
            raise ConfigError([f"unknown {self.what} {name!r}: expected one of {', '.join(self.names())}"])
        row = self.own[name]
        if not isinstance(row, str):
            return row
        module, _, attribute = row.partition(":")
        return cast(Row, getattr(import_module(module), attribute))

    def added_by(self, name: str) -> list[EntryPoint]:
        """The entry points by which other packages add the row, the one that counts first; [] for a row of
        our own and an unknown name. Nothing is imported."""
        points = self._points_named(name)
        return [] if points and _is_ours(points[0]) else points

    def is_ours(self, name: str) -> bool:
        """Return whether the row is in `own` or in `roambench.extras`. Nothing is imported."""
        return name in self.names() and not self.added_by(name)

    def _points_named(self, name: str) -> list[EntryPoint]:
        return [] if name in self.own else [point for point in self._points() if point.name == name]

    def _points(self) -> tuple[EntryPoint, ...]:
        return _points_of(self.group, tuple(sys.path)) if self.group else ()

    def _load_added(self, point: EntryPoint) -> Row:
        where = f"{self.what} {point.name!r} ({origin(point)})"
        try:
            row = point.load()
        except Exception as error:  # any error of a third party's import is one sentence here
            raise ConfigError([f"{where} cannot be loaded: {error}"]) from error
        if not (callable(row) if self.kind is None else isinstance(row, self.kind)):
            expected = "function" if self.kind is None else self.kind.__name__
            raise ConfigError([f"{where}: expected a {expected}, got {type(row).__name__}"])
        wrong = [f"{where}: {mistake}" for mistake in self.mistakes(point.name, row)]
        if wrong:
            raise ConfigError(wrong)
        return cast(Row, row)


def origin(point: EntryPoint) -> str:
    """The package and the place in it that an entry point names."""
    return f"{point.dist.name} {point.value}" if point.dist else point.value


def _is_ours(point: EntryPoint) -> bool:
    return point.module.partition(".")[0] == _OURS


@cache
def _points_of(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """The entry points of a group on that sys.path, ours first."""
    points = _all_points(path).select(group=group)
    ours = [point for point in points if _is_ours(point)]
    return (*ours, *sorted((point for point in points if not _is_ours(point)), key=origin))


@cache
def _all_points(_path: tuple[str, ...]) -> EntryPoints:
    """The entry points installed on that sys.path, read once: it takes milliseconds, and a sweep asks for
    every point."""
    return cast(EntryPoints, entry_points())  # before Python 3.12 a SelectableGroups, which selects as well
