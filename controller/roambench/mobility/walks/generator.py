"""What a row of the generator table is: a name, its parameters, and a function of (parameters, seed)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from roambench.contract.errors import ConfigError
from roambench.mobility.trace import Trace


@dataclass(frozen=True, slots=True)
class Generator:
    """A synthetic source of movement. `parameters` is a frozen dataclass with a default for every field.

    `make(parameters, seed)` is pure: equal arguments give equal traces.
    """

    name: str
    summary: str
    parameters: type[Any]
    make: Callable[[Any, int], Trace]

    def generate(self, seed: int, parameters: Mapping[str, Any] | None = None) -> Trace:
        """The trace of `seed`, with the given fields changed from their defaults. ConfigError for others."""
        given = dict(parameters or {})
        known = [field.name for field in fields(self.parameters)]
        unknown = [name for name in given if name not in known]
        if unknown:
            raise ConfigError(
                [f"{self.name}: unknown parameter {name!r}; known: {', '.join(known)}" for name in unknown]
            )
        return self.make(self.parameters(**given), seed)
