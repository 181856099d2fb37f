"""A file of the user's as tables, unchecked but for being TOML; and what a table is checked by."""

from __future__ import annotations

import codecs
import re
import tomllib
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from roambench.contract.errors import ConfigError
from roambench.written.lines import KeyLines
from roambench.written.mistakes import Mistake

#: The shown part of a line, and of the keys of a path.
_SHOWN: Final = 60
_SHOWN_KEYS: Final = 5
#: What a table that a person writes never reaches.
_MOST_BYTES: Final = 16 * 2**20
_DEPTH: Final = 32
_LONGEST_KEY: Final = 200
_MOST_MISTAKES: Final = 20
_INTEGER: Final = "an integer of at most 64 bits"
#: What was expected, by how tomllib begins what it says; where it begins otherwise, it says so itself.
_EXPECTED: Final = {
    "Invalid value": 'a value: "a text", a number, true, false, a date, [a list] or {a table}',
    "Invalid statement": "key = value, [table], or a comment behind #",
    "Invalid initial character for a key part": "a key of letters, digits, - and _, or one in quotes",
    "Invalid date or datetime": "a date that there is, YYYY-MM-DD",
    "Invalid hex value": r"a text with backslashes in 'single quotes', or \\ for each of them",
    "Unescaped": r"a text with backslashes in 'single quotes', or \\ for each of them",
    "Escaped character": r"a text with backslashes in 'single quotes', or \\ for each of them",
    "Illegal character '\\n'": "the quotes that end the text, on the same line",
    "Unterminated string": "the quotes that end the text",
    "Illegal character": "no control character",
    "Found invalid character": "no control character",
    "Unclosed array": "a comma or ] behind each entry of the list",
    "Unclosed inline table": "a comma or } behind each entry of the table, all on one line",
    "Duplicate inline table key": "each key once",
    "Cannot overwrite a value": "each key and each table once",
    "Cannot": "each table once",
    "Expected newline": "the end of the line behind a value",
}


def read_toml(path: Path, name: str = "") -> dict[str, Any]:
    """Read a TOML file. ConfigError for one that cannot be read, is no UTF-8 text or no TOML, or has what no
    table of ours can have: `beyond_all_tables`. The error names it `name` (default: the file's without its
    folder), and line and column or the key."""
    name = name or path.name
    try:
        found = path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL
        reason = getattr(error, "strerror", None) or error
        raise ConfigError([f"{path}: cannot be read: {reason}"]) from None
    if len(found) > _MOST_BYTES:
        raise ConfigError([f"{name}: {len(found):,} bytes, expected at most {_MOST_BYTES:,}"])
    if found.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in found[:4]:
        raise ConfigError([f"{name}: UTF-16, expected UTF-8: convert it (iconv -f UTF-16 -t UTF-8)"])
    try:
        text = found.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = found.count(b"\n", 0, error.start) + 1
        raise ConfigError([f"{name}: not UTF-8 text (byte {error.start}, line {line})"]) from None
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([f"{name}: not TOML: {_mistake(str(error), text)}"]) from None
    except RecursionError:
        expected = f"line {_deepest_line(text)}: expected tables and lists in at most {_DEPTH} others"
        raise ConfigError([f"{name}: {expected}"]) from None
    except ValueError:  # Python turns no text of that many digits into a number
        expected = (
            f"line {_line_of_longest_number(text)}: expected {_INTEGER}, got one of thousands of digits"
        )
        raise ConfigError([f"{name}: {expected}"]) from None
    if mistakes := beyond_all_tables(values):
        raise ConfigError(KeyLines(path).put_in((f"{name}: {mistake}" for mistake in mistakes), name))
    return values


def beyond_all_tables(values: dict[str, Any]) -> list[Mistake]:
    """Mistakes in any table: an integer beyond 64 bits, a NUL in a text, a key
    that is no name, tables in tables without an end."""
    mistakes: list[Mistake] = []
    waiting: list[tuple[tuple[str, ...], int, Any]] = [((), 0, values)]
    while waiting and len(mistakes) < _MOST_MISTAKES:
        path, depth, value = waiting.pop()
        if depth > _DEPTH:
            expected = f"expected tables and lists in at most {_DEPTH} others"
            return [Mistake(path[:_SHOWN_KEYS], expected)]
        if isinstance(value, dict):
            names = [key for key in value if len(key) <= _LONGEST_KEY and key.isprintable()]
            odd = next((key for key in value if len(key) > _LONGEST_KEY or not key.isprintable()), None)
            if odd is not None:
                expected = (
                    f"expected keys of at most {_LONGEST_KEY} printable characters, got {odd[:_SHOWN]!a}"
                )
                mistakes.append(Mistake(path, expected))
            waiting += [((*path, key), depth + 1, value[key]) for key in reversed(names)]
        elif isinstance(value, list):
            waiting += [(path, depth + 1, entry) for entry in reversed(value)]
        elif isinstance(value, str) and "\0" in value:
            mistakes.append(Mistake(path, f"expected a text without NUL, got {value[:_SHOWN]!a}"))
        elif isinstance(value, int) and not -(2**63) <= value < 2**64:
            mistakes.append(Mistake(path, f"expected {_INTEGER}, got one of {value.bit_length():,} bits"))
    return mistakes


def _deepest_line(text: str) -> int:
    """Number of the line where tables and lists first stand in too many others; texts are not looked at."""
    depth = 0
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        opened = line.count("[") + line.count("{")
        depth += opened - line.count("]") - line.count("}")
        if max(depth, opened, line.count(".")) > _DEPTH:
            return number
    return len(lines)


def _line_of_longest_number(text: str) -> int:
    lines = [
        max((len(found) for found in re.findall(r"[0-9_]+", line)), default=0) for line in text.splitlines()
    ]
    return lines.index(max(lines)) + 1


def _mistake(message: str, text: str) -> str:
    """Return what tomllib says of a text as: the place, what was expected, the line that stands there."""
    said, _, place = message.removesuffix(")").rpartition(" (at ")
    lines = text.splitlines() or [""]
    found = re.fullmatch(r"line (\d+), column (\d+)", place)
    line, column = (int(found[1]), int(found[2])) if found else (len(lines), len(lines[-1]) + 1)
    wanted = next((words for begin, words in _EXPECTED.items() if said.startswith(begin)), "")
    problem = f"expected {wanted}" if wanted else said[:1].lower() + said[1:]
    there = lines[line - 1].strip()[:_SHOWN] if line <= len(lines) else ""
    return f"line {line}, column {column}: {problem}" + (f", got {there}" if there else "")


class Section(BaseModel):
    """A table of a user's file: strict, frozen, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
