"""The table `[trace]`: who is where at each step."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from roambench.written.section import Section

DEFAULT_GENERATOR = "city"
#: A value of a generator's parameter, as TOML writes it.
ParameterValue = bool | int | float | str | list[int] | list[float] | list[str]


class TraceSection(Section):
    """The movement that is replayed: a trace file, or a generator with its parameters."""

    file: str = Field(
        "",
        description="Trace file (Parquet, as `roambench trace` writes it). Relative to the experiment file.",
    )
    generator: str = Field(
        "",
        description="Generator of a synthetic trace (`roambench list generators`), drawn from the "
        "experiment's seed. Not together with `file`; with neither of the two it is "
        f'"{DEFAULT_GENERATOR}".',
    )
    parameters: dict[str, ParameterValue] = Field(
        default_factory=dict,
        description="The generator's own parameters; what is left out keeps the generator's default.",
    )
    window: Literal["busiest", "first"] = Field(
        "busiest",
        description="Which consecutive steps are replayed: those in which the most devices are present, or "
        "the first ones of the trace.",
    )
    steps: int = Field(30, ge=2, description="Length of that window in steps of the trace.")
    offset: int = Field(
        0, ge=0, description="Steps at the start of the trace that the window leaves out, whichever it is."
    )
    repeat: int = Field(1, ge=1, description="How often the window is played, one time after the other.")

    @model_validator(mode="before")
    @classmethod
    def _name_the_default(cls, values: object) -> object:
        if isinstance(values, dict) and not values.get("file") and not values.get("generator"):
            return {**values, "generator": DEFAULT_GENERATOR}
        return values
