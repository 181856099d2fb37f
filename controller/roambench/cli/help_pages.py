"""Help as every command prints it: whole paragraphs, examples at the end, one word for each kind of value."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

_EXAMPLES: Final = "Examples:"
_VALUES: Final = {bool: "", int: "N", float: "X", Path: "PATH", list[Path]: "PATH"}
_CLICKS_KINDS: Final = {
    "boolean": bool,
    "integer": int,
    "integer range": int,
    "float": float,
    "float range": float,
    "path": Path,
    "file": Path,
    "directory": Path,
}
_IN_BRACKETS: Final = re.compile(r"^\[([^]]*)\]$")
_SECONDS: Final = re.compile(r"_s$|^seconds$|^timeout$")


def with_help_page(command: Any) -> None:
    """Set the command's help: its docstring with paragraphs in one line each, and examples as its end."""
    text, _, examples = (command.help or "").partition(_EXAMPLES)
    command.help = "\n\n".join(" ".join(each.split()) for each in text.strip().split("\n\n"))
    if lines := [line.strip() for line in examples.strip().splitlines()]:
        command.epilog = "\n".join((_EXAMPLES, *(f"  {line}" for line in lines)))
    own = command.get_help_option(command.context_class(command, help_option_names=["-h", "--help"]))
    parameters = [*command.params, own]
    for each in parameters:
        if each.param_type_name == "option":
            each.metavar = _value(each) if each.metavar is None else each.metavar
        else:
            choices = "" if each.metavar else _choices(each)
            each.metavar = _IN_BRACKETS.sub(r"\1", each.metavar or each.name.upper()).removesuffix("...")
            each.display_type_rich = partial(_beside, choices)
    command.make_context = _in_own_words(command.make_context)


def _in_own_words(make_context: Callable[..., Any]) -> Callable[..., Any]:
    """The same, whose refusals do not begin with words of pydantic."""

    def made(*words: Any, **more: Any) -> Any:
        try:
            return make_context(*words, **more)
        except Exception as error:
            if isinstance(message := getattr(error, "message", None), str):
                error.message = message.removeprefix("Value error, ")  # type: ignore[attr-defined]
            raise

    return made


def _value(option: Any) -> str:
    kind = _kind(option)
    if choices := _choices(option):
        return choices
    if kind is float and _SECONDS.search(option.name or ""):
        return "S"
    return _VALUES.get(kind, "TEXT")


def _kind(option: Any) -> Any:
    """The type of an option's value. Older releases of typer, as flwr wants them, have click's types."""
    if hasattr(option, "type_descriptor"):
        return option.type_descriptor.annotation
    return _CLICKS_KINDS.get(option.type.name)


def _choices(parameter: Any) -> str:
    if hasattr(parameter, "type_descriptor"):
        found = parameter.type_descriptor.choices if parameter.type_descriptor.is_choice else ()
    else:
        found = getattr(parameter.type, "choices", ())
    return "|".join(str(getattr(each, "value", each)) for each in found or ())


def _beside(choices: str, ctx: object) -> str | None:
    """Return what stands beside an argument in place of its type: nothing, or its choices."""
    return choices or None
