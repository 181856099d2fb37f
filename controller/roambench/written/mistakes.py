"""One mistake in what the user wrote: the key, what was expected, what was found."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from roambench.written.expected import expected, expected_key, field_at, section_at


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake in what a user wrote, and where."""

    path: tuple[str, ...]  # the key, empty for the whole file
    text: str

    def __str__(self) -> str:
        return f"{'.'.join(self.path)}: {self.text}" if self.path else self.text


def mistakes_of(
    error: ValidationError, model: type[BaseModel], prefix: tuple[str, ...] = ()
) -> list[Mistake]:
    """The pydantic errors of `model` in our words; `prefix` is where the model's table stands in the file.

    One per key: pydantic complains of every part of a union, and of a list as well as of its elements.
    """
    by_key: dict[tuple[str, ...], Mistake] = {}
    for detail in error.errors(include_url=False):
        mistake = _mistake(detail, model, prefix)
        by_key.setdefault(mistake.path, mistake)
    return list(by_key.values())


def _mistake(detail: ErrorDetails, model: type[BaseModel], prefix: tuple[str, ...]) -> Mistake:
    # Integers are positions in a list, and below the field itself pydantic names the parts of a union.
    path = tuple(part for part in detail["loc"] if isinstance(part, str))
    if detail["type"] == "extra_forbidden":
        return Mistake((*prefix, *path), "unknown key" + _suggestion(path, model))
    if detail["loc"][-1:] == ("[key]",):
        return Mistake((*prefix, *path[:-1]), f"expected {expected_key(field_at(model, path[:-2]))}")
    while path and field_at(model, path) is None:
        path = path[:-1]
    if detail["type"] == "value_error" and section_at(model, path) is not None:  # a rule between its keys
        return Mistake((*prefix, *path), str(detail["ctx"]["error"]))
    field = field_at(model, path)
    wanted = expected(field) if field is not None else "a table"
    if detail["type"] == "missing":
        return Mistake((*prefix, *path), f"is missing, expected {wanted}")
    return Mistake((*prefix, *path), f"expected {wanted}, got {shown(detail['input'])}")


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """ ", did you mean X?" or nothing: what is written alike, or the only one that begins so (batch) or has
    these initials (lr)."""
    close = difflib.get_close_matches(name, known, n=1)
    for like in (
        [one for one in known if one.startswith(name)],
        [one for one in known if "".join(word[:1] for word in one.split("_")) == name],
    ):
        close = close or (like if len(like) == 1 else [])
    return f", did you mean {close[0]}?" if close else ""


def shown(value: object) -> str:
    """The value much as TOML writes it, cut where it is long."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _suggestion(path: tuple[str, ...], model: type[BaseModel]) -> str:
    section: Any = section_at(model, path[:-1])
    if section is None:
        return ""
    near = did_you_mean(path[-1], list(section.model_fields))
    if near:
        return near
    homes = [name for name in model.model_fields if field_at(model, (name, path[-1])) is not None]
    return f", it belongs to [{homes[0]}]" if homes else ""
