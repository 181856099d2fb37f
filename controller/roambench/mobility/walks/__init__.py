"""Generators of synthetic movement, one file per model; the table loads them late."""

from __future__ import annotations

from typing import Final

from roambench.contract.table import Table
from roambench.mobility.walks.generator import Generator

GENERATORS: Final = Table(
    what="trace generator",
    group="roambench.generators",
    kind=Generator,
    own={
        "city": "roambench.mobility.walks.city:CITY",
        "community": "roambench.mobility.walks.community:COMMUNITY",
        "edge-hopping": "roambench.mobility.walks.edge_hopping:EDGE_HOPPING",
        "grid-walk": "roambench.mobility.walks.grid_walk:GRID_WALK",
        "random-waypoint": "roambench.mobility.walks.random_waypoint:RANDOM_WAYPOINT",
        "reflected-walk": "roambench.mobility.walks.reflected_walk:REFLECTED_WALK",
        "ring-walk": "roambench.mobility.walks.ring_walk:RING_WALK",
    },
)
