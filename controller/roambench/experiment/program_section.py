"""The table `[program]`: what answers messages on devices in place of a trainer, and where it lies."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from roambench.experiment.algorithm_section import ParameterValue
from roambench.written.toml_file import Section


class ProgramSection(Section):
    """A program that plays a run in place of our learning systems, or trains in them (docs/flower.md)."""

    name: str = Field(
        "",
        description='Program: "flower"; empty: none. `systems`: its name, or those in which it trains.',
    )
    folder: str = Field("", description="Its folder, relative to the experiment file.")
    settings: dict[str, ParameterValue] = Field(
        default_factory=dict,
        description="The program's own settings; of a Flower app its run config.",
    )
    python: str = Field(
        "",
        description="Interpreter that has what it imports: a name, or a path relative to the experiment's "
        "file; empty: roambench's own.",
    )
    reachable: Literal["trace", "everybody"] = Field(
        "trace", description="Devices that can be reached in a step: those that are present, or all."
    )
    memory_mib: int = Field(2048, ge=64, description="Private memory of a device's program.")
    message_mib: int = Field(64, ge=1, le=500, description="Longest message, and answer.")
