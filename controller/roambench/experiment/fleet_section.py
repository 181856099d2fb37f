"""The table `[fleet]`: how many devices and access points take part."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from roambench.contract.errors import ConfigError
from roambench.written.section import Section

DEFAULT_APS = 20


class FleetSection(Section):
    """How many devices and access points take part."""

    agents: int = Field(
        8,
        ge=0,
        description="Devices: the busiest this many of the trace (more than it has are refused), one agent "
        "each; 0: all of the trace.",
    )
    aps: int | None = Field(
        None,
        ge=0,
        json_schema_extra={"expected": "an integer ≥ 0"},
        description="Virtual access points, drawn from the trace's places by the seed; 0: the trace's own. "
        f"Left out: the trace's own where it recorded who was at which, else {DEFAULT_APS}.",
    )
    mapping: Literal["top", "waves", "random"] = Field(
        "top",
        description="Which devices of the trace the boards play: the busiest of the window, any (drawn by "
        "the seed), or in `waves`: a board plays several devices one after the other, each from its first to "
        "its last presence, so that the most presence is played. Data and models stay with the board.",
    )
    deadline_s: float = Field(
        120.0,
        gt=0.0,
        description="Device time an order may take; after it the answer is `timeout` (or `lost`).",
    )

    def agents_of(self, devices: int) -> int:
        """How many of a trace's `devices` take part."""
        return min(self.agents, devices) if self.agents else devices

    @property
    def board_names(self) -> list[str]:
        """Names of the boards where no trace says how many there are; ConfigError for "all of the trace"."""
        if not self.agents:
            raise ConfigError(["fleet.agents: expected a number of boards: 0 means all of a trace"])
        return [f"pi-{number:02d}" for number in range(1, self.agents + 1)]
