"""A row of the generator table: a name, its parameters, and a function of (parameters, seed)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from roambench.contract.errors import ConfigError
from roambench.mobility.trace import MAX_STEPS, Trace

_MOST_PLACES: Final = 500_000_000  # of all devices in all steps: 12 GB of columns


@dataclass(frozen=True, slots=True)
class Generator:
    """A synthetic source of movement. `parameters` is a frozen dataclass with a default for every field.

    `make(parameters, seed)` is pure: equal arguments give equal traces. `part(parameters, seed, steps)` is
    the same trace without the fixes of other steps; None: the whole is always made.
    """

    name: str
    summary: str
    parameters: type[Any]
    make: Callable[[Any, int], Trace]
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # the first changes no default
    part: Callable[[Any, int, range], Trace] | None = None

    def settings(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """`given` on top of what its key `preset` stands for. Raises ConfigError for an unknown preset."""
        if not self.presets or "preset" not in given:
            return dict(given)
        name = given["preset"]
        if name not in self.presets:
            raise ConfigError([f"{self.name}: expected a preset of {', '.join(self.presets)}, got {name!r}"])
        return {**self.presets[name], **{key: value for key, value in given.items() if key != "preset"}}

    def too_large(self, settings: Mapping[str, Any]) -> list[str]:
        """Settings that make a trace which no file, or no memory, holds, one line each."""
        made = {row.name: settings.get(row.name, row.default) for row in fields(self.parameters)}
        steps, devices = (made.get(name) for name in ("steps", "devices"))
        if not isinstance(steps, int) or not isinstance(devices, int):
            return []
        if steps > MAX_STEPS:
            return [f"steps is {steps:,}, expected at most {MAX_STEPS:,}, what a trace file holds"]
        if steps * devices > _MOST_PLACES:
            return [f"steps x devices is {steps * devices:,}, expected at most {_MOST_PLACES:,}"]
        return []

    def generate(
        self, seed: int, parameters: Mapping[str, Any] | None = None, steps: range | None = None
    ) -> Trace:
        """The trace of `seed`, with the given fields changed from their defaults (or their preset's). With
        `steps` the fixes of others may be left out.

        Raises ConfigError for names that are no field, and for more than can be made.
        """
        given = self.settings(parameters or {})
        known = [field.name for field in fields(self.parameters)]
        unknown = [name for name in given if name not in known]
        if unknown:
            raise ConfigError(
                [f"{self.name}: unknown parameter {name!r}; known: {', '.join(known)}" for name in unknown]
            )
        if large := self.too_large(given):
            raise ConfigError([f"{self.name}: {problem}" for problem in large])
        if steps is not None and self.part is not None:
            return self.part(self.parameters(**given), seed, steps)
        return self.make(self.parameters(**given), seed)
