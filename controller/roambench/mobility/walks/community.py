"""Community-based mobility: everybody has a home cell, stays around it for a while, roams, comes back.

After Spyropoulos, Psounis and Raghavendra (community-based mobility model, MobiHoc 2006): local epochs in the
home community and roaming epochs anywhere, a two-state Markov chain between them. Their epochs are legs of
random direction; here each is one leg to a uniform waypoint of the cell, or of the whole box.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from roambench.contract.draws import generator
from roambench.mobility.trace import FloatColumn, Trace
from roambench.mobility.walks.generator import Generator
from roambench.mobility.walks.waypoints import WaypointParameters, walked_by_waypoints


@dataclass(frozen=True, slots=True)
class CommunityParameters(WaypointParameters):
    """Pedestrians of 5 x 5 neighbourhoods in 2 km x 2 km."""

    cells_across: int = 5  # the box has cells_across² home cells; each device's is drawn evenly
    stay_local: float = 0.8  # chance that a local leg is followed by another (p_l)
    stay_roaming: float = 0.3  # chance that a roaming leg is followed by another (p_r)

    def __post_init__(self) -> None:
        self.check(at_least_one=("cells_across",), shares=("stay_local", "stay_roaming"))


def community(parameters: CommunityParameters, seed: int) -> Trace:
    """Positions when each step begins. Everybody starts at home, in a local epoch."""
    side, cell = parameters.box_m, parameters.box_m / parameters.cells_across
    home_m = home_cells(parameters, seed)
    start_m = home_m + cell * generator(seed, "community starts").random((parameters.devices, 2))
    local = np.ones(parameters.devices, np.bool_)

    def destination(leg: int, draws: FloatColumn) -> FloatColumn:
        nonlocal local
        if leg:
            stays = np.where(local, parameters.stay_local, parameters.stay_roaming)
            local = local == (draws[:, 2] < stays)
        return np.where(local[:, None], home_m + cell * draws[:, :2], side * draws[:, :2])

    return walked_by_waypoints("community", "community legs", parameters, seed, start_m, destination)


def home_cells(parameters: CommunityParameters, seed: int) -> FloatColumn:
    """South-west corner of every device's home cell in metres, shape (devices, 2)."""
    across = parameters.cells_across
    drawn = generator(seed, "community homes").random((parameters.devices, 2))
    return np.minimum(np.floor(drawn * across), across - 1) * (parameters.box_m / across)


COMMUNITY: Final = Generator(
    "community",
    "community-based mobility: around a home cell, now and then roaming (Spyropoulos et al. 2006)",
    CommunityParameters,
    community,
)
