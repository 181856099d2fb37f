"""`--set a.b=c`: one key of the experiment file from the command line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from roambench.written.toml_file import beyond_all_tables

_SHOWN: Final = 60
_KEY = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
#: A text without its quotes, as a shell leaves it: learning.dataset=mnist, trace.file=t.parquet.
_BARE_TEXT = re.compile(r"[A-Za-z./~_][\w./~+:-]*")


@dataclass(frozen=True, slots=True)
class Override:
    """One `--set`: a key and its value."""

    path: tuple[str, ...]
    value: Any


def parse_overrides(texts: Sequence[str]) -> tuple[list[Override], list[str]]:
    """The overrides, and one line for each text that is none."""
    overrides, problems = [], []
    for text in texts:
        key, equals, written = text.partition("=")
        key = key.strip()
        if not equals or not _KEY.fullmatch(key):
            problems.append(f"--set {text}: expected key=value, for example learning.batch_size=16")
            continue
        try:
            value = _value(written.strip())
        except (ValueError, RecursionError):
            got = written.strip()[:_SHOWN]
            problems.append(f"--set {key}: expected a TOML value (a text in quotes), got {got}")
            continue
        if mistakes := beyond_all_tables({key: value}):
            problems += [f"--set {mistake}" for mistake in mistakes]
            continue
        overrides.append(Override(tuple(key.split(".")), value))
    return overrides, problems


def apply_override(values: dict[str, Any], override: Override) -> None:
    """Set it in nested tables; what is not a table on the way is replaced by one."""
    table = values
    for part in override.path[:-1]:
        if not isinstance(table.get(part), dict):
            table[part] = {}
        table = table[part]
    table[override.path[-1]] = override.value


def _value(written: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {written}")
    except tomllib.TOMLDecodeError:
        if _BARE_TEXT.fullmatch(written):
            return written
        raise
    if parsed.keys() != {"value"}:
        raise ValueError("more than one value")
    return parsed["value"]
