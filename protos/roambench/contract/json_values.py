"""Values from JSON as their annotations say: each mistake is a line with source, key and what was expected.

For what one of our processes writes for another: settings, descriptions, logs, payloads of records, answers
of hosts; what users write is validated by the controller's configuration. The bytes may come from anyone: no
error but ConfigError comes of them, and its lines show only the beginnings of what was found.
"""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from roambench.contract.errors import ConfigError

Kind = TypeVar("Kind")

_BEGINNING = reprlib.Repr()
_BEGINNING.maxstring = _BEGINNING.maxother = 60
_LONGEST, _MOST = 200, 100  # characters of a key, lines


def without_nan(value: object) -> object:
    """The value, of dicts, lists and tuples, with None in the place of NaN and infinity: JSON has no word for
    them, and what a run measured may well be none."""
    if isinstance(value, dict):
        return {key: without_nan(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def beyond_64_bits(value: object) -> bool:
    """True where a number in the value, of dicts, lists and tuples of any depth, is finite and larger than
    any of 64 bits: no count, time or measure is."""
    left = [value]
    while left:
        match left.pop():
            case dict() as entries:
                left += entries.values()
            case list() | tuple() as entries:
                left += entries
            case int() | float() as number if 2**63 <= abs(number) < math.inf:
                return True
    return False


def plain(value: Any) -> dict[str, Any]:
    """A dataclass's fields by their names, for `json.dumps(..., default=plain)`: not copied, which takes a
    tenth of the time of `dataclasses.asdict`."""
    if not is_dataclass(value):
        raise TypeError(f"{type(value).__name__} is no value of JSON")
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def from_json(kind: type[Kind], text: str | bytes, source: str, *, finite: bool = True) -> Kind:
    """The `kind` (what `shape_of` knows) of a JSON text; ConfigError lists everything that is wrong with it.

    Unless `finite`, a float may be NaN or infinite, as Python spells them.
    """
    try:
        values = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise ConfigError([f"{source}: not JSON ({error})"]) from None
    return from_values(kind, values, source, finite=finite)


def from_values(kind: type[Kind], values: object, source: str, *, finite: bool = True) -> Kind:
    """Do as `from_json` does, from values that `json.loads` made."""
    try:
        return cast(Kind, shape_of(cast(Any, kind), finite)._read(values))
    except _Wrong as wrong:
        found = [(key.removeprefix(".")[:_LONGEST] or "top level", problem) for key, problem in wrong.found]
        lines = [f"{key if key.isprintable() else ascii(key)}: {problem}" for key, problem in found]
        more = ["and more"] if len(lines) > _MOST else []
        raise ConfigError([f"{source}: {line}" for line in lines[:_MOST] + more]) from None


def from_file(kind: type[Kind], path: Path, *, finite: bool = True) -> Kind:
    """Do as `from_json` does, from a file; ConfigError where it cannot be read, too."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ConfigError([f"{path}: cannot be read ({error.strerror or error})"]) from None
    return from_json(kind, text, str(path), finite=finite)


def json_or_none(kind: type[Kind], text: str | bytes, *, finite: bool = True) -> Kind | None:
    """Do as `from_json` does; a text that is none counts as none."""
    try:
        return from_json(kind, text, "", finite=finite)
    except ConfigError:
        return None


def kept_in(kind: type[Kind], path: Path, *, finite: bool = True) -> Kind | None:
    """Do as `from_file` does; a file that is missing, damaged or of another version counts as none."""
    try:
        return from_file(kind, path, finite=finite)
    except ConfigError:
        return None


class _Wrong(Exception):
    """(key, mistake) of everything that is wrong with a value; a value's own key is empty."""

    def __init__(self, *found: tuple[str, str]) -> None:
        self.found = found


def _expected(what: str, value: object) -> _Wrong:
    return _Wrong(("", f"expected {what}, got {_BEGINNING.repr(value)}"))


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Wrong(("", "expected an object"))
    return value


def _each(values: Iterable[tuple[Any, Shape, Any]], *found: tuple[str, str]) -> dict[Any, Any]:
    """Return what is made of each (place, shape, value); all that is wrong with them is raised, after
    `found`."""
    made, wrongs = dict[Any, Any](), list(found)
    for place, shape, value in values:
        try:
            made[place] = shape._read(value)
        except _Wrong as wrong:
            at = f"[{place}]" if type(place) is int else f".{place}"
            wrongs += [(at + key, problem) for key, problem in wrong.found]
            if len(wrongs) > _MOST:
                break
    if wrongs:
        raise _Wrong(*wrongs)
    return made


@dataclass(frozen=True, slots=True)
class Anything:
    """Any value, as it is."""

    def _read(self, value: Any) -> Any:
        return value


@dataclass(frozen=True, slots=True)
class Plain:
    """A value of one type: no bool is an int, but an int may stand for a float."""

    kind: Any
    finite: bool

    def _read(self, value: Any) -> Any:
        kind = self.kind
        if type(value) is kind and (kind is not float or not self.finite or math.isfinite(value)):
            return value
        if kind is float and type(value) is int:
            with suppress(OverflowError):  # an integer beyond all floats is none
                return float(value)
        raise _expected(kind.__name__, value)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some texts or integers: of a Literal itself, of an Enum its member."""

    made: Mapping[Any, Any]

    def _read(self, value: Any) -> Any:
        if type(value) not in (str, int) or value not in self.made:
            raise _expected("one of " * (len(self.made) > 1) + ", ".join(map(str, self.made)), value)
        return self.made[value]


@dataclass(frozen=True, slots=True)
class Maybe:
    """Null, or what `inner` reads."""

    inner: Shape

    def _read(self, value: Any) -> Any:
        return None if value is None else self.inner._read(value)


@dataclass(frozen=True, slots=True)
class Many:
    """A list of any length, as a tuple."""

    item: Shape

    def _read(self, value: Any) -> Any:
        if type(value) is not list:
            raise _expected("a list", value)
        try:
            return tuple(map(self.item._read, value))
        except _Wrong:
            return _each((place, self.item, item) for place, item in enumerate(value))


@dataclass(frozen=True, slots=True)
class Row:
    """A list of just these, as a tuple."""

    items: tuple[Shape, ...]

    def _read(self, value: Any) -> Any:
        if type(value) is not list or len(value) != len(self.items):
            raise _expected(f"a list of {len(self.items)} values", value)
        return tuple(_each(zip(range(len(value)), self.items, value, strict=True)).values())


@dataclass(frozen=True, slots=True)
class Named:
    """An object with keys of any names, as a dict."""

    item: Shape

    def _read(self, value: Any) -> Any:
        return _each((name, self.item, item) for name, item in _object(value).items())


@dataclass(frozen=True, slots=True)
class Fields:
    """An object of a dataclass's fields; those with a default may be missing."""

    make: type[Any]
    fields: Mapping[str, Shape]
    required: frozenset[str]

    def _read(self, value: Any) -> Any:
        keys, fields = _object(value).keys(), self.fields
        if keys == fields.keys():
            with suppress(_Wrong):
                return self.make(**{name: shape._read(value[name]) for name, shape in fields.items()})
        found = [(f".{name}", "unknown key") for name in sorted(keys - fields.keys())]
        found += [(f".{name}", "is missing") for name in fields if name in self.required - keys]
        known = ((name, shape, value[name]) for name, shape in fields.items() if name in keys)
        return self.make(**_each(known, *found))


Shape = Anything | Plain | Choice | Maybe | Many | Row | Named | Fields


@cache
def shape_of(hint: Any, finite: bool = True) -> Shape:
    """Return how JSON has values of an annotation: of object and plain types, X | None, tuple[X, ...],
    tuple[X, Y], dicts and Mappings by text, Literals and Enums of texts or integers, and dataclasses of all
    these."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint is Any or hint is object:
        return Anything()
    if origin in (UnionType, Union):  # the latter of Literal[...] | None
        (inner,) = (part for part in parts if part is not NoneType)
        return Maybe(shape_of(inner, finite))
    if origin is tuple and parts[-1] is ...:
        return Many(shape_of(parts[0], finite))
    if origin is tuple:
        return Row(tuple(shape_of(part, finite) for part in parts))
    if origin in (dict, Mapping):
        return Named(shape_of(parts[1], finite))
    if origin is Literal:
        return Choice({part: part for part in parts})
    assert isinstance(hint, type), hint
    if issubclass(hint, Enum):
        return Choice({member.value: member for member in hint})
    if not is_dataclass(hint):
        return Plain(hint, finite)
    hints, own = get_type_hints(hint), fields(hint)
    optional = {entry.name for entry in own if not entry.default is entry.default_factory is MISSING}
    shapes = {entry.name: shape_of(hints[entry.name], finite) for entry in own}
    return Fields(hint, shapes, frozenset(shapes.keys() - optional))
