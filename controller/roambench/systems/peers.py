"""The decentralised systems by name: what they differ in is how a device weighs its neighbours' models."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Final

from roambench.aggregation.mixing import MIXINGS, MixingRule
from roambench.contract.errors import ConfigError

#: Other packages add systems under this group of entry points.
GROUP: Final = "roambench.peer_systems"


@dataclass(frozen=True, slots=True)
class PeerSystem:
    """`mixing` is a name of `roambench.aggregation.mixing.MIXINGS`, or a rule of one's own."""

    name: str
    mixing: str | MixingRule
    description: str


#: name -> system. A row is all that the command line, the configuration and the report need.
PEER_SYSTEMS: Final[Mapping[str, PeerSystem]] = {
    system.name: system
    for system in (
        PeerSystem("d_psgd", "plain", "D-PSGD: every model in reach counts the same (de Heredia §5.3)"),
        PeerSystem("mobility_aware", "mobility_aware", "fast neighbours count more (de Heredia §5.4)"),
        PeerSystem("data_size", "data_size", "models count by their devices' samples (workshop Eq. 2)"),
        PeerSystem(
            "metropolis_hastings", "metropolis_hastings", "doubly stochastic, by degrees (journal Eq. 2)"
        ),
        PeerSystem("fully_connected", "fully_connected", "the mean of all, whoever is in reach: the bound"),
    )
}


def is_peer_system(name: str) -> bool:
    """Whether a system without a server is called so, ours or one that another package adds."""
    return name in PEER_SYSTEMS or name in _added(tuple(sys.path))


@cache
def _added(_path: tuple[str, ...]) -> frozenset[str]:
    """The names that other packages add, on that sys.path; a sweep asks for every point."""
    return frozenset(entry_points(group=GROUP).names)


def peer_system(name: str) -> PeerSystem:
    """The system of that name; ConfigError lists those there are, or says why one cannot be used."""
    if name in PEER_SYSTEMS:
        return PEER_SYSTEMS[name]
    for point in entry_points(group=GROUP, name=name):
        where = f"decentralised system {name!r} of {point.value}"
        try:
            row = point.load()
        except Exception as error:  # whatever a third party's import does, it is one line here
            raise ConfigError([f"{where} cannot be loaded: {error}"]) from None
        if not isinstance(row, PeerSystem):
            raise ConfigError([f"{where}: expected a PeerSystem, got {type(row).__name__}"])
        if row.mixing not in MIXINGS and not callable(row.mixing):
            known = ", ".join(MIXINGS)
            raise ConfigError(
                [f"{where}: mixing: expected one of {known}, or a function, got {row.mixing!r}"]
            )
        return row
    known = ", ".join(sorted({*PEER_SYSTEMS, *entry_points(group=GROUP).names}))
    raise ConfigError([f"decentralised system {name!r}: expected one of {known}"])
