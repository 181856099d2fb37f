"""The decentralised systems by name: what they differ in is how a device weighs its neighbours' models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class PeerSystem:
    """`mixing` is a name of `roambench.aggregation.mixing.MIXINGS`."""

    name: str
    mixing: str
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
