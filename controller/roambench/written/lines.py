"""Lines of the keys of a TOML file, for the mistakes in it; looked for only where there are mistakes."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Final

_TOKEN: Final = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*"
    r"|[\n\[\]{}=,.]"
    r"|[^\s\[\]{}=,.\"'#]+",
    re.DOTALL,
)
_DEPTH: Final = 64  # parts of a key; no table of ours has as many
_KEY: Final = re.compile(r"([^\s:,]+)(?:: ([\w.-]+):)?")


class KeyLines:
    """The lines of a file's keys; the file is read when the first is asked for. Without a file there are
    none."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    @cached_property
    def _lines(self) -> Mapping[str, int]:
        try:
            return {} if self._path is None else lines_of(self._path.read_text("utf-8-sig"))
        except (OSError, ValueError, RecursionError):  # it was read before, and is gone or another file now
            return {}

    def at(self, key: str) -> str:
        """`:3` for what is said of a key: its own line, or that of the first table around it that the file
        has; nothing where there is none."""
        while key not in self._lines and "." in key:
            key = key.rpartition(".")[0]
        return f":{self._lines[key]}" if key in self._lines else ""

    def put_in(self, problems: Iterable[str], source: str, table: str = "") -> list[str]:
        """The problems, those that begin with `source` and a key (of that table) with the key's line behind
        the file's name: `a.toml:3: fleet.agents: ...`. They are in the order of their lines, those without a
        line last."""
        found = [self._with_line(problem, source, table) for problem in problems]
        return [problem for _, problem in sorted(found, key=lambda one: one[0])]

    def _with_line(self, problem: str, source: str, table: str) -> tuple[float, str]:
        if found := re.match(rf"{re.escape(source)}:(\d+): ", problem):  # it has its line
            return float(found[1]), problem
        rest = problem.removeprefix(f"{source}: ")
        key = _KEY.match(rest)
        if rest == problem or key is None:
            return math.inf, problem
        inner = ".".join(part for part in key.groups() if part)  # `grid: learning.alpha: ...` of a sweep
        line = self.at(f"{table}.{inner}" if table else inner)
        file, within, inside = source.partition(": ")
        return float(line[1:] or math.inf), f"{file}{line}{within}{inside}: {rest}"


def lines_of(text: str) -> dict[str, int]:
    """The line, from 1, of every key and table of a text that is TOML. The third table of `[[hosts]]` is
    `hosts[3]`, and so is the third of a list; `hosts` is the first."""
    return _Scan(text).lines


class _Scan:
    """One pass over the tokens. The text is TOML: nothing is checked."""

    def __init__(self, text: str) -> None:
        self.lines: dict[str, int] = {}
        self._tables: dict[str, int] = {}  # of an array of tables: how many there were yet
        self._tokens = self._numbered(text)
        self._token, self._line = "", 0
        self._next()
        table = ""
        while self._token:
            if self._token == "\n":
                self._next()
            elif self._token == "[":
                table = self._header()
            else:
                self._pair(table)

    @staticmethod
    def _numbered(text: str) -> Iterator[tuple[str, int]]:
        line = 1
        for found in _TOKEN.finditer(text):
            token = found[0]
            if not token.startswith("#"):
                yield token, line
            line += token.count("\n")
        yield "", line

    def _next(self) -> None:
        self._token, self._line = next(self._tokens, ("", self._line))

    def _header(self) -> str:
        self._next()
        is_array = self._token == "["
        if is_array:
            self._next()
        line, parts = self._line, self._key("]")
        self._next()
        if is_array:
            self._next()
        table = ""
        for part in parts[:-1]:
            table = self._below(table, part)
            table = f"{table}[{self._tables[table]}]" if table in self._tables else table
        table = self._below(table, parts[-1])
        self.lines.setdefault(table, line)
        if is_array:
            self._tables[table] = self._tables.get(table, 0) + 1
            table = f"{table}[{self._tables[table]}]"
            self.lines[table] = line
        return table

    def _pair(self, table: str) -> None:
        line, parts = self._line, self._key("=")
        self._next()
        for part in parts:
            table = self._below(table, part)
            self.lines.setdefault(table, line)
        self._value(table)

    def _value(self, key: str) -> None:
        if self._token == "{":
            self._next()
            while self._token != "}" and self._token:
                if self._token in ",\n":
                    self._next()
                else:
                    self._pair(key)
            self._next()
        elif self._token == "[":
            self._next()
            number = 0
            while self._token != "]" and self._token:
                if self._token in ",\n":
                    self._next()
                    continue
                number += 1
                self.lines[f"{key}[{number}]"] = self._line
                self._value(f"{key}[{number}]")
            self._next()
        else:
            while self._token and self._token not in ",\n]}":
                self._next()

    def _key(self, end: str) -> list[str]:
        """The parts of a dotted key up to a token."""
        parts: list[str] = []
        while self._token != end and self._token:
            if self._token[0] in "\"'":
                parts += tomllib.loads(f"{self._token} = 0")
            elif self._token != ".":
                parts.append(self._token)
            self._next()
        return parts[:_DEPTH]

    @staticmethod
    def _below(table: str, part: str) -> str:
        return f"{table}.{part}" if table else part
