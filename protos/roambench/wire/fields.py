"""Frozen dataclasses as messages of the wire, and back: field by field of the same name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, partial
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from roambench.contract.model_digest import from_wire, to_wire

Word = TypeVar("Word")
Written = TypeVar("Written", bound=Message)
Convert = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class _Shared:
    """The fields that a dataclass and a message have both, each with its conversion if the values differ."""

    written: tuple[tuple[str, Convert | None], ...]
    read: tuple[tuple[str, Convert | None], ...]
    optional: tuple[str, ...]  # absent from the message: None in the dataclass


def message_of(word: object, kind: type[Written], **given: Any) -> Written:
    """The dataclass as a message; `given` are fields of the message that differ from the dataclass's."""
    for name, convert in _shared(type(word), kind).written:
        if name not in given:
            value = getattr(word, name)
            given[name] = value if convert is None else convert(value)
    return kind(**given)


def word_of(kind: type[Word], message: Message, **given: Any) -> Word:
    """The message as a dataclass, unchecked; `given` are fields of the dataclass that differ from its own.

    A field that the sender did not set has the default of its type on the wire (0, empty, False), or None
    where the message calls it optional.
    """
    shared = _shared(kind, type(message))
    for name in shared.optional:
        if not message.HasField(name):
            given[name] = None
    for name, convert in shared.read:
        if name not in given:
            value = getattr(message, name)
            given[name] = value if convert is None else convert(value)
    return kind(**given)


def _shared_fields(kind: Any, message: Any) -> _Shared:
    hints, known = get_type_hints(kind), message.DESCRIPTOR.fields_by_name
    names = tuple(field.name for field in fields(kind) if field.name in known)
    conversions = {name: _conversions(hints[name], known[name]) for name in names}
    return _Shared(
        tuple((name, both and both[0]) for name, both in conversions.items()),
        tuple((name, both and both[1]) for name, both in conversions.items()),
        tuple(name for name in names if type(None) in get_args(hints[name])),
    )


_shared: Callable[[Any, Any], _Shared] = cache(_shared_fields)


def _conversions(hint: Any, field: FieldDescriptor) -> tuple[Convert, Convert] | None:
    """Return how a value of type `hint` is written into the message's field and read from it, where they
    differ."""
    if get_origin(hint) is tuple:
        if (both := _conversions(get_args(hint)[0], field)) is None:
            return tuple, tuple
        write, read = both
        return lambda words: [write(word) for word in words], lambda messages: tuple(map(read, messages))
    if isinstance(hint, type) and is_dataclass(hint) and (inside := _inside(field)) is not None:
        return partial(message_of, kind=inside), partial(word_of, hint)
    if hint is str and field.type == FieldDescriptor.TYPE_BYTES:  # a digest
        return to_wire, from_wire
    return None


def _inside(field: Any) -> type[Message] | None:
    """The type of the message that the field holds, if it holds one."""
    return None if field.message_type is None else GetMessageClass(field.message_type)


class OneOf:
    """The fields of which a message holds one, each with the dataclass of its type's name."""

    def __init__(self, message: type[Message], words: object) -> None:
        named = {kind.__name__: kind for kind in get_args(words)}
        self.kinds: dict[str, Any] = {}
        self._fields: dict[type, tuple[str, type[Message]]] = {}
        for field in message.DESCRIPTOR.fields:
            if (inside := _inside(field)) is not None and (kind := named.get(inside.DESCRIPTOR.name)):
                self.kinds[field.name] = kind
                self._fields[kind] = field.name, inside

    def holding(self, word: object, **given: Any) -> dict[str, Any]:
        """The one field, set to the word as `message_of` makes it."""
        name, kind = self._fields[type(word)]
        return {name: message_of(word, kind, **given)}
