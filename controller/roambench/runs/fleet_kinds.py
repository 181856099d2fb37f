"""The kinds of fleets: what runs on each of them do, and what their folders can tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class FleetKind:
    """A kind of fleet.

    `trains`: models are trained, so runs have joules and can be resumed. `has_agents`: agents do it, which
    keep device time and whose joules are measured; without them they are modelled. `own_clocks`: every
    device has its own clock. `emulates`: its boards and meters are emulated. `has_file`: it is described
    by one, `--fleet NAME:FILE`.
    """

    name: str
    trains: bool = True
    has_agents: bool = False
    own_clocks: bool = False
    emulates: bool = False
    has_file: bool = False

    @property
    def is_virtual(self) -> bool:
        """True if devices train, but are none: their times, transfers and joules are modelled."""
        return self.trains and not self.has_agents

    @property
    def usage(self) -> str:
        """The spelling that `--fleet` takes."""
        return f"{self.name}:FILE" if self.has_file else self.name


FLEET_KINDS: Final[Mapping[str, FleetKind]] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            FleetKind("local", has_agents=True, emulates=True),
            FleetKind("simulated"),
            FleetKind("rehearsal", trains=False),
            FleetKind("bench", has_agents=True, own_clocks=True, has_file=True),
        )
    }
)
