"""Tables of names whose rows load late, and which other distributions may extend through entry points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from roambench.contract.errors import ConfigError

Row = TypeVar("Row")


@dataclass(frozen=True)
class LateTable(Generic[Row]):
    """Rows by name. `own` maps a name to "module:attribute"; `group` is the entry-point group of the rest.

    A name of our own wins over a third party's of the same spelling. `row` is the type every row must have.
    """

    what: str
    group: str
    row: type[Row]
    own: Mapping[str, str]

    def names(self) -> tuple[str, ...]:
        """All names, sorted; nothing is imported."""
        return tuple(sorted({*self.own, *(point.name for point in entry_points(group=self.group))}))

    def load(self, name: str) -> Row:
        """The row of `name`. Raises ConfigError for a name nobody offers or a row that cannot be imported."""
        target = self.own.get(name)
        if target is not None:
            module, _, attribute = target.partition(":")
            row = getattr(import_module(module), attribute)
        else:
            row = self._load_foreign(name)
        if not isinstance(row, self.row):
            raise ConfigError(
                [f"{self.what} {name!r}: expected a {self.row.__name__}, got {type(row).__name__}"]
            )
        return row

    def _load_foreign(self, name: str) -> object:
        points = sorted(entry_points(group=self.group, name=name), key=_origin)
        if not points:
            raise ConfigError([f"unknown {self.what} {name!r}; known: {', '.join(self.names())}"])
        try:
            return points[0].load()
        except Exception as error:  # whatever a third party's import does, say whose it was
            raise ConfigError(
                [f"{self.what} {name!r} ({_origin(points[0])}) does not load: {error}"]
            ) from error


def _origin(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.value}" if point.dist else point.value
