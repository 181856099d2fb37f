"""The table `[clock]`: how often the agents' clocks are compared with the controller's."""

from __future__ import annotations

from pydantic import Field

from roambench.written.section import Section


class ClockSection(Section):
    """How often the agents' clocks are compared with the controller's."""

    period_s: float = Field(
        60.0,
        gt=0.0,
        description="Device time between two bursts of clock probes in a run, at least; they are made "
        "between steps only. One burst before and one after the run are always made.",
    )
