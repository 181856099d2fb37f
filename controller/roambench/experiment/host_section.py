"""The table `[host]`: how often a board's own state is kept beside its readings."""

from __future__ import annotations

from pydantic import Field

from roambench.agent.settings import HostSettings
from roambench.written.section import Section


class HostSection(Section):
    """How often a board's own state is kept beside its readings: CPU, temperature, throttle bits, bytes."""

    period_s: float = Field(
        5.0,
        ge=0.0,
        description="Device time between two samples; 0: none. A sample that would cost more than 0.5 % of a "
        "core is taken less often.",
    )
    during_phases: bool = Field(
        True,
        description="Also in download, train and upload: a sample is kept on the board, nothing is sent.",
    )
    interface: str = Field("", description="Network interface whose bytes count; empty: all but loopback.")

    def settings(self) -> HostSettings:
        """The settings that agents are given."""
        return HostSettings(self.period_s, self.during_phases, self.interface)
