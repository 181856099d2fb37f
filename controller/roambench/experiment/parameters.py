"""The parameters of a trace generator: a frozen dataclass of the generator's own, checked like a section."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, get_type_hints

from pydantic import BaseModel, ValidationError, create_model

from roambench.contract.errors import ConfigError
from roambench.mobility.walks.generator import Generator
from roambench.written.mistakes import Mistake, mistakes_of
from roambench.written.toml_file import Section


@lru_cache(maxsize=100)  # a sweep asks for the same one with each of its points
def parameter_model(parameters: type[Any]) -> type[BaseModel]:
    """A strict pydantic model with the dataclass's fields, types and defaults."""
    hints = get_type_hints(parameters)
    fields: dict[str, Any] = {}
    for item in dataclasses.fields(parameters):
        default = item.default
        if default is dataclasses.MISSING:
            made = item.default_factory
            default = ... if made is dataclasses.MISSING else made()
        fields[item.name] = (hints[item.name], default)
    return create_model(parameters.__name__, __base__=Section, **fields)


def parameter_mistakes(
    parameters: type[Any], values: Mapping[str, Any], prefix: tuple[str, ...] = ()
) -> list[Mistake]:
    """Mistakes in `values`: unknown names, wrong types, and all that the dataclass itself refuses."""
    model = parameter_model(parameters)  # type: ignore[arg-type]  # mypy takes no type[Any] for hashable
    try:
        model.model_validate(dict(values))
    except ValidationError as error:
        return mistakes_of(error, model, prefix)
    try:
        parameters(**values)
    except ConfigError as error:
        return [Mistake(prefix, problem) for problem in error.problems]
    except ValueError as error:
        return [Mistake(prefix, str(error))]
    return []


def generator_mistakes(
    row: Generator, values: Mapping[str, Any], prefix: tuple[str, ...] = ()
) -> list[Mistake]:
    """`parameter_mistakes` of a generator, whose key `preset` stands for the values of several others."""
    try:
        settings = row.settings(values)
    except ConfigError as error:
        return [Mistake((*prefix, "preset"), problem) for problem in error.problems]
    mistakes = parameter_mistakes(row.parameters, settings, prefix)
    return mistakes or [Mistake(prefix, problem) for problem in row.too_large(settings)]
