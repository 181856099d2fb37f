"""A filter of runs in words: `accuracy > 0.9 and (system = mohawk or fleet = bench)`.

COLUMN OPERATOR VALUE, joined by `and`, `or`, `not` and parentheses. Operators: = != < <= > >= and ~
(contains). A value is a number (`90 %` is 0.9), a date (2026-11-28, with a time behind T if wanted) or a
text, in quotes where it has blanks. It is read by the rules below and never executed. A run without a
figure fulfils no comparison of it.
"""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from roambench.contract.errors import ConfigError
from roambench.contract.printable import printable
from roambench.report.run_columns import COLUMNS, Cell, Column, ListedRun

#: True for a run that fulfils it.
Filter = Callable[[ListedRun], bool]

#: The option that errors name.
WHERE: Final = "--where"
_MOST_TEXT: Final = 2_000
_MOST_NESTED: Final = 40
_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<text>"[^"]*"|'[^']*')|(?P<sign><=|>=|!=|==|[=<>~()])|(?P<word>[^\s"'<>=!~()]+)|(?P<wrong>\S))"""
)
_SIGNS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "~": lambda cell, value: value.casefold() in cell.casefold(),
}
_JOINTS: Final = frozenset({"and", "or", "not"})


def run_filter(text: str) -> Filter:
    """The filter that the text says; ConfigError names the place, the column and those that are known."""
    if len(text) > _MOST_TEXT:
        raise ConfigError([f"{WHERE}: expected at most {_MOST_TEXT:,} characters, got {len(text):,}"])
    parser = _Parser(text)
    found = parser.either(0)
    if parser.token:
        raise parser.wrong("expected and, or, or the end")
    return found


class _Parser:
    """Reads from the left; `token` is the next one, "" at the end, `place` where it begins."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_TOKEN.finditer(text))
        self._at = 0

    @property
    def token(self) -> str:
        return self._tokens[self._at][0].strip() if self._at < len(self._tokens) else ""

    def wrong(self, expected: str) -> ConfigError:
        """The error at the next token."""
        rest = self._tokens[self._at] if self._at < len(self._tokens) else None
        place = len(self._text) if rest is None else rest.end() - len(self.token)
        got = f"got {printable(self.token)}" if self.token else "it ends there"
        return ConfigError([f"{WHERE}: character {place + 1} ({got}): {expected}"])

    def either(self, depth: int) -> Filter:
        """Both sides of `or`s."""
        sides = [self.both(depth)]
        while self.token.lower() == "or":
            self._at += 1
            sides.append(self.both(depth))
        return sides[0] if len(sides) == 1 else lambda run: any(side(run) for side in sides)

    def both(self, depth: int) -> Filter:
        """Both sides of `and`s."""
        sides = [self.one(depth)]
        while self.token.lower() == "and":
            self._at += 1
            sides.append(self.one(depth))
        return sides[0] if len(sides) == 1 else lambda run: all(side(run) for side in sides)

    def one(self, depth: int) -> Filter:
        """A comparison, the opposite of one, or what stands in parentheses."""
        if depth > _MOST_NESTED:
            raise self.wrong(f"expected at most {_MOST_NESTED} levels of parentheses and not")
        if self.token.lower() == "not":
            self._at += 1
            inner = self.one(depth + 1)
            return lambda run: not inner(run)
        if self.token == "(":
            self._at += 1
            found = self.either(depth + 1)
            if self.token != ")":
                raise self.wrong("expected )")
            self._at += 1
            return found
        return self.comparison()

    def comparison(self) -> Filter:
        """COLUMN OPERATOR VALUE."""
        column = self.column()
        if self.token not in _SIGNS:
            raise self.wrong(f"expected one of {' '.join(_SIGNS)} behind {column.name}")
        sign = self.token
        self._at += 1
        if sign == "~" and column.kind != "text":
            raise self.wrong(f"expected a text column before ~, {column.name} is a {column.kind}")
        value, compare = self.value(column), _SIGNS[sign]

        def fulfils(run: ListedRun) -> bool:
            cell = _comparable(column, column.of(run), value)
            return cell is not None and bool(compare(cell, value))

        return fulfils

    def column(self) -> Column:
        """The column that is named next."""
        name = self.token
        if not name or self._tokens[self._at]["word"] is None or name.lower() in _JOINTS:
            raise self.wrong("expected a column")
        if name not in COLUMNS:
            near = difflib.get_close_matches(name, COLUMNS, 1)
            meant = f", did you mean {near[0]}?" if near else ";"
            raise self.wrong(f"no column {printable(name)}{meant} known: {', '.join(COLUMNS)}")
        self._at += 1
        return COLUMNS[name]

    def value(self, column: Column) -> float | str:
        """The value that the column is compared with."""
        token = self._tokens[self._at] if self._at < len(self._tokens) else None
        if token is None or token["sign"] or token["wrong"]:
            raise self.wrong(f"expected a {column.kind} for {column.name}")
        text = token["text"][1:-1] if token["text"] else token["word"]
        if column.kind == "text":
            self._at += 1
            return str(text)
        if column.kind == "date":
            if not _is_date(text):
                raise self.wrong(f"expected a date for {column.name}, as 2026-11-28 or 2026-11-28T18:00")
            self._at += 1
            return str(text)
        number, percent = text.removesuffix("%"), text.endswith("%")
        try:
            value = float(number)
        except ValueError:
            raise self.wrong(f"expected a number for {column.name}, as 0.9 or 90%") from None
        self._at += 1
        if self.token == "%":
            percent = True
            self._at += 1
        return value / 100.0 if percent else value


def _is_date(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _comparable(column: Column, cell: Cell, value: float | str) -> float | str | None:
    """The cell as it is compared; of a time as much as the value says: 2026-11-28 is all of that day."""
    if cell is None or cell != cell:
        return None
    if column.kind == "date" and isinstance(value, str) and isinstance(cell, str):
        try:
            begun = datetime.fromisoformat(cell).astimezone(UTC)
        except ValueError:
            return None
        return begun.strftime("%Y-%m-%dT%H:%M:%S")[: len(value)]
    return cell
