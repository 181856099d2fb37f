"""The decentralised systems by name: what they differ in is how a device weighs its neighbours' models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from roambench.aggregation.mixing_rule import MIXINGS, MixingRule
from roambench.contract.table import Table


@dataclass(frozen=True, slots=True)
class PeerSystem:
    """`mixing` is a name of `roambench.aggregation.mixing_rule.MIXINGS`, or a rule of one's own. With
    `sees_energy` that is also given `energy`, the `SpentEnergy` of every device before the iteration."""

    name: str
    mixing: str | MixingRule
    description: str
    sees_energy: bool = False


def _mistakes(_name: str, row: PeerSystem) -> Iterator[str]:
    if row.mixing not in MIXINGS and not callable(row.mixing):
        yield f"mixing: expected one of {', '.join(MIXINGS)}, or a function, got {row.mixing!r}"
    elif row.sees_energy and isinstance(row.mixing, str):
        yield f"sees_energy: expected a function as mixing, got {row.mixing!r}"


#: A row is all that the command line, the configuration and the report need.
PEER_SYSTEMS: Final = Table(
    what="decentralised system",
    group="roambench.peer_systems",
    kind=PeerSystem,
    mistakes=_mistakes,
    own={
        system.name: system
        for system in (
            PeerSystem("d_psgd", "plain", "D-PSGD: every model in reach counts the same (de Heredia §5.3)"),
            PeerSystem("mobility_aware", "mobility_aware", "fast neighbours count more (de Heredia §5.4)"),
            PeerSystem("data_size", "data_size", "models count by their devices' samples (workshop Eq. 2)"),
            PeerSystem(
                "metropolis_hastings", "metropolis_hastings", "doubly stochastic, by degrees (journal Eq. 2)"
            ),
            PeerSystem("fully_connected", "fully_connected", "the mean of all, also out of reach: the bound"),
        )
    },
)


def is_peer_system(name: str) -> bool:
    """Return whether a system without a server is called so, ours or one that another package adds."""
    return name in PEER_SYSTEMS.names()
