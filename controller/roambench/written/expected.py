"""Expected value of a key of a TOML table, in words made from the models (they cannot disagree)."""

from __future__ import annotations

import types
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types
from pydantic import BaseModel
from pydantic.fields import FieldInfo

_KINDS: dict[Any, str] = {int: "an integer", float: "a number", str: "a text", bool: "true or false"}


def section_at(model: type[BaseModel], path: Sequence[str]) -> type[BaseModel] | None:
    """The table a dotted path names (the whole file for an empty one), None where there is no such table."""
    if not path:
        return model
    field = field_at(model, path)
    return None if field is None else _section_of(field.annotation)


def field_at(model: type[BaseModel], path: Sequence[str]) -> FieldInfo | None:
    """The field a dotted path names, None where there is no such field. An entry of a table with keys of the
    user's is one, too; positions in lists are not in the path."""
    inside: Any = None
    field: FieldInfo | None = None
    section: type[BaseModel] | None = model
    for part in path:
        if section is not None:
            field = _own_field(section, part)
        elif get_origin(inside) is dict:
            field = FieldInfo.from_annotation(get_args(inside)[1])
        else:
            return None
        if field is None:
            return None
        inside = field.annotation
        section = _section_of(inside)
    return field


def _own_field(section: type[BaseModel], key: str) -> FieldInfo | None:
    """The field that is written with this key."""
    named = (one for name, one in section.model_fields.items() if (one.alias or name) == key)
    return next(named, None)


def _section_of(annotation: Any) -> type[BaseModel] | None:
    """The table that an annotation means: one, one that may be left out, or each of a list's."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (list, tuple, Union, types.UnionType):
        found = (_section_of(part) for part in get_args(annotation))
        return next((section for section in found if section is not None), None)
    return None


def expected(field: FieldInfo) -> str:
    """For example: an integer ≥ 1; one of "flat", "printed"; a list of texts, at least 1."""
    if isinstance(field.json_schema_extra, dict) and "expected" in field.json_schema_extra:
        return str(field.json_schema_extra["expected"])
    return _kind(field.annotation) + _bounds(field.metadata)


def expected_key(table: FieldInfo | None) -> str:
    """Return what is expected of a key of such a table: a key, one of "small", "full"."""
    annotation = None if table is None else table.annotation
    kind = _kind(get_args(annotation)[0]) if get_origin(annotation) is dict else ""
    return f"a key, {kind}" if kind else "another key"


def _kind(annotation: Any) -> str:
    origin = get_origin(annotation)
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return _one_of(annotation)
    if origin is Annotated:
        return _kind(get_args(annotation)[0])
    if origin is Literal:
        return _one_of(get_args(annotation))
    if origin in (Union, types.UnionType):
        written = [
            part for part in get_args(annotation) if part is not types.NoneType
        ]  # None is a key left out
        return " or ".join(dict.fromkeys(_kind(part) for part in written))
    if origin in (list, tuple):
        return "a list of " + _kind(get_args(annotation)[0]).partition(" ")[2] + "s"
    if origin is dict or (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        return "a table"
    return _KINDS.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _one_of(choices: Iterable[object]) -> str:
    quoted = [f'"{choice}"' for choice in choices]
    return ("one of " if len(quoted) > 1 else "") + ", ".join(quoted)


def _bounds(metadata: Sequence[Any]) -> str:
    words = []
    for rule in metadata:
        match rule:
            case annotated_types.Ge():
                words.append(f" ≥ {rule.ge}")
            case annotated_types.Gt():
                words.append(f" > {rule.gt}")
            case annotated_types.Le():
                words.append(f" ≤ {rule.le}")
            case annotated_types.Lt():
                words.append(f" < {rule.lt}")
            case annotated_types.MinLen():
                words.append(f", at least {rule.min_length}")
            case _ if getattr(rule, "pattern", None):
                words.append(f" of the form {rule.pattern}")
    return " and".join(words) if all(word[1] in "≥>≤<" for word in words) else "".join(words)
