"""A file of the user's as tables, unchecked but for being TOML; and what a table is checked by."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from roambench.contract.errors import ConfigError

#: So much of a line is shown.
_SHOWN: Final = 60
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
    """Read a TOML file. ConfigError for one that cannot be read, is no UTF-8 text or no TOML; the error names
    it `name` (default: the file's without its folder), and line and column."""
    name = name or path.name
    text = ""
    try:
        text = path.read_bytes().decode()
        return tomllib.loads(text)
    except OSError as error:
        raise ConfigError([f"{path}: cannot be read: {error.strerror}"]) from None
    except UnicodeDecodeError as error:
        raise ConfigError([f"{name}: not UTF-8 text (byte {error.start})"]) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([f"{name}: not TOML: {_mistake(str(error), text)}"]) from None


def _mistake(message: str, text: str) -> str:
    """What tomllib says of a text as: the place, what was expected, the line that stands there."""
    said, _, place = message.removesuffix(")").rpartition(" (at ")
    lines = text.splitlines() or [""]
    found = re.fullmatch(r"line (\d+), column (\d+)", place)
    line, column = (int(found[1]), int(found[2])) if found else (len(lines), len(lines[-1]) + 1)
    wanted = next((words for begin, words in _EXPECTED.items() if said.startswith(begin)), "")
    told = f"expected {wanted}" if wanted else said[:1].lower() + said[1:]
    there = lines[line - 1].strip()[:_SHOWN] if line <= len(lines) else ""
    return f"line {line}, column {column}: {told}" + (f", got {there}" if there else "")


class Section(BaseModel):
    """A table of a user's file: strict, frozen, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
