"""Ranges in a bench description: one `[[hosts]]` table with `pi-[01:36]` stands for 36 hosts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

_RANGE: Final = re.compile(r"\[(\d+):(\d+)\]")
_MOST_HOSTS: Final = 10_000
#: Keys whose value is a list for every single host.
_LISTS: Final = frozenset({"tags"})
#: Keys that hold a number, which only a range has to write as text.
_NUMBERS: Final = frozenset({"slot", "ssh_port"})

Path = tuple[str, ...]


class RangeMistake(ValueError):
    """A range that cannot be expanded; `path` is the key."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        super().__init__(text)


def expanded(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One table per host, ranges and lists of values replaced by the host's own.

    All ranges of an entry advance together, so they are equally long, as is every list of values (`serial =
    ["A7", "B2"]`, one per host). An entry without a range is one host. Digits keep the width of the first
    number: `[01:36]` begins with 01. RangeMistake names the key.
    """
    lengths = {path: count for path, text in _texts(entry) if (count := _length(path, text)) is not None}
    count = max(lengths.values(), default=1)
    for path, length in lengths.items():
        if length != count:
            raise RangeMistake(
                path, f"expected as many as the entry's other ranges have ({count}), got {length}"
            )
    return [_at(entry, (), index, count, ranged=bool(lengths)) for index in range(count)]


def _texts(table: Mapping[str, Any], path: Path = ()) -> list[tuple[Path, str]]:
    found: list[tuple[Path, str]] = []
    for key, value in table.items():
        if isinstance(value, str):
            found.append(((*path, key), value))
        elif isinstance(value, Mapping):
            found += _texts(value, (*path, key))
    return found


def _length(path: Path, text: str) -> int | None:
    ranges = _RANGE.findall(text)
    if not ranges:
        return None
    counts = {int(last) - int(first) + 1 for first, last in ranges}
    if len(counts) != 1 or not 1 <= min(counts) <= _MOST_HOSTS:
        raise RangeMistake(path, f"expected a range like [01:36], upwards, got {text!r}")
    return counts.pop()


def _at(table: Mapping[str, Any], path: Path, index: int, count: int, *, ranged: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in table.items():
        here = (*path, key)
        match value:
            case str():
                found[key] = _number(here, _RANGE.sub(lambda match: _digits(match, index), value), value)
            case Mapping():
                found[key] = _at(value, here, index, count, ranged=ranged)
            case list() if ranged and key not in _LISTS:
                if len(value) != count:
                    raise RangeMistake(
                        here, f"expected one value for each of {count} hosts, got {len(value)}"
                    )
                found[key] = value[index]
            case _:
                found[key] = value
    return found


def _digits(match: re.Match[str], index: int) -> str:
    first = match.group(1)
    return str(int(first) + index).zfill(len(first))


def _number(path: Path, text: str, written: str) -> str | int:
    """A range alone where a number belongs is a number: `slot = "[1:36]"`, `power.port = "[1:36]"`."""
    number = path[-1] in _NUMBERS or path[0] == "power"
    return int(text) if number and _RANGE.fullmatch(written) else text
