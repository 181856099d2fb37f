"""Commands that are planted in texts, and the fields of a table where a text may stand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel

#: `{}` is the planted command. The last two are what a program takes for an option, and Ansible for a
#: template.
PLANTED = (
    ";{};",
    "$({})",
    "`{}`",
    "';{};'",
    '";{};"',
    "\n{}\n",
    "|{}|",
    "x && {} #",
    "-oProxyCommand={}",
    "{{{{ lookup('pipe', '{}') }}}}",
)


def _tables(field: Any) -> Iterator[type[BaseModel]]:
    for part in (field, *get_args(field)):
        if isinstance(part, type) and issubclass(part, BaseModel):
            yield part


def fields_of(model: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The keys of a table and of those in it."""
    for name, field in model.model_fields.items():
        inner = list(_tables(field.annotation))
        for table in inner:
            yield from fields_of(table, (*path, name))
        if not inner:
            yield (*path, name)
