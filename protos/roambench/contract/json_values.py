"""Frozen dataclasses from JSON, checked: every mistake is one line with source, key and what was expected.

For the small files that one of our processes writes for another (agent settings, emulator specs, learning
settings); what users write is validated by the controller's configuration.
"""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from roambench.contract.errors import ConfigError

Kind = TypeVar("Kind")


def without_nan(value: object) -> object:
    """The value, of dicts, lists and tuples, with None in the place of NaN and infinity: JSON has no word for
    them, and what a run measured may well be none."""
    if isinstance(value, dict):
        return {key: without_nan(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def from_json(kind: type[Kind], text: str | bytes, source: str) -> Kind:
    """The dataclass `kind` from a JSON object; ConfigError lists everything that is wrong with it."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError([f"{source}: not JSON ({error})"]) from None
    return from_values(kind, values, source)


def from_values(kind: type[Kind], values: object, source: str) -> Kind:
    """As `from_json`, from values that `json.loads` made."""
    problems: list[str] = []
    built = _built(kind, values, source, "", problems)
    if problems:
        raise ConfigError(problems)
    assert isinstance(built, kind)
    return built


def _built(kind: type, values: object, source: str, key: str, problems: list[str]) -> object:
    if not isinstance(values, dict):
        problems.append(f"{source}: {key or 'top level'}: expected an object")
        return None
    dot = f"{key}." if key else ""
    assert is_dataclass(kind)
    known = {entry.name: entry for entry in fields(kind)}
    before = len(problems)
    problems += [f"{source}: {dot}{name}: unknown key" for name in sorted(values.keys() - known.keys())]
    problems += [
        f"{source}: {dot}{name}: is missing"
        for name, entry in known.items()
        if name not in values and entry.default is MISSING and entry.default_factory is MISSING
    ]
    hints = get_type_hints(kind)
    arguments = {
        name: _value(hints[name], values[name], source, f"{dot}{name}", problems)
        for name in known
        if name in values
    }
    return kind(**arguments) if len(problems) == before else None


def _value(hint: Any, value: object, source: str, key: str, problems: list[str]) -> object:
    """`value` as `hint` wants it: a dataclass, X | None, tuple[X, ...], a StrEnum, or a plain type."""
    if get_origin(hint) is UnionType:
        return None if value is None else _value(get_args(hint)[0], value, source, key, problems)
    if get_origin(hint) is tuple:
        if not isinstance(value, list):
            problems.append(f"{source}: {key}: expected a list, got {value!r}")
            return ()
        row = get_args(hint)[0]
        return tuple(_value(row, item, source, f"{key}[{i}]", problems) for i, item in enumerate(value))
    if is_dataclass(hint) and isinstance(hint, type):
        return _built(hint, value, source, key, problems)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        if value in [str(member) for member in hint]:
            return hint(value)
        problems.append(f"{source}: {key}: expected one of {', '.join(hint)}, got {value!r}")
        return value
    if hint is float and type(value) is int:
        with suppress(OverflowError):  # an integer beyond all floats is none
            value = float(value)
    if type(value) is not hint or (isinstance(value, float) and not math.isfinite(value)):
        problems.append(f"{source}: {key}: expected {hint.__name__}, got {value!r}")
    return value
