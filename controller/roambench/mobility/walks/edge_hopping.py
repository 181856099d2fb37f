"""Edge hopping (MIDDLE §III): with probability P a device is at another edge next step.

MIDDLE's own synthetic trace is from the ONE simulator, and its devices have different probabilities with the
mean P (§VII-A). The target is uniform over the other edges (the paper does not say). Edges have no geography
there; here they stand on a grid and every device keeps its own spot within reach of whichever edge it is at.
The trace records the edge of every fix (association `recorded`), which is also the nearest one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from roambench.contract.draws import generator
from roambench.mobility.association import fixed_assignment
from roambench.mobility.trace import FloatColumn, IntColumn, Trace
from roambench.mobility.walks.generator import Generator
from roambench.mobility.walks.walkers import (
    columns_and_rows,
    presence_problems,
    refuse,
    spread_evenly,
    stood_at,
)


@dataclass(frozen=True, slots=True)
class EdgeHoppingParameters:
    """Defaults are of MIDDLE's size: 100 devices, 10 edges, P = 0.5, here for every device."""

    devices: int = 100
    steps: int = 200
    step_s: float = 60.0
    aps: int = 10
    p: float | Sequence[float] = 0.5  # chance to move per step; a list gives each device its own
    places: int = 0  # edges that a device moves among, its first and drawn others; 0: all
    back: float = 0.0  # chance of a device that is away to be back at its first edge; 0: it moves as p says
    moves_at: Sequence[int] = ()  # the only steps at which a device moves; none: at every step
    spacing_m: float = 1000.0  # between neighbouring edges
    reach_m: float = 100.0  # how far a device's spot is from its edge, at most
    presence: float = 1.0  # share of the steps in which a device is there (absent ones move, too)
    stay_steps: float = 10.0  # mean length of a stay, in steps, where presence is below 1

    def __post_init__(self) -> None:
        chances = self.p if isinstance(self.p, Sequence) else [self.p]
        problems = [f"p holds {chance}, expected 0 to 1" for chance in chances if not 0 <= chance <= 1]
        if isinstance(self.p, Sequence) and len(self.p) != self.devices:
            problems.append(f"p has {len(self.p)} chances, expected one for each of {self.devices} devices")
        if self.aps == 1 and any(chances):
            problems.append("p is more than 0, but with one access point there is no other to move to")
        if self.places and not 2 <= self.places <= self.aps:
            problems.append(f"places is {self.places}, expected 2 to {self.aps} (aps), or 0 for all")
        if not 0 <= self.back <= 1:
            problems.append(f"back is {self.back}, expected 0 to 1")
        if not 2 * self.reach_m < self.spacing_m:
            problems.append(f"reach_m is {self.reach_m:g}, expected less than half of spacing_m")
        refuse(
            self,
            at_least_one=("devices", "steps", "aps"),
            positive=("step_s", "spacing_m"),
            not_negative=("reach_m",),
            problems=(*problems, *presence_problems(self.presence, self.stay_steps)),
        )


def edge_hopping(parameters: EdgeHoppingParameters, seed: int) -> Trace:
    """At step 0 device d is at edge floor(d * edges / devices), as HierFAVG deals devices out."""
    ap = hops(parameters, seed)
    columns, rows = columns_and_rows(parameters.aps)
    ap_x_m, ap_y_m = spread_evenly(
        parameters.aps, columns * parameters.spacing_m, rows * parameters.spacing_m
    )
    draws = generator(seed, "edge spots").random((parameters.devices, 2))
    away_m, angle = parameters.reach_m * np.sqrt(draws[:, 0]), 2.0 * np.pi * draws[:, 1]
    beside_m = away_m * np.cos(angle), away_m * np.sin(angle)
    return stood_at("edge-hopping", parameters, seed, ap, ap_x_m, ap_y_m, beside_m)


def hops(parameters: EdgeHoppingParameters, seed: int) -> IntColumn:
    """The edge of every device in every step, shape (steps, devices)."""
    places = parameters.places or parameters.aps
    own = places_of(parameters, seed)
    chance: FloatColumn = np.broadcast_to(np.asarray(parameters.p, np.float64), (parameters.devices,))
    ap = np.empty((parameters.steps, parameters.devices), np.int32)
    ap[0] = fixed_assignment(parameters.devices, parameters.aps)
    devices = np.arange(parameters.devices)
    home = np.argmax(own == ap[0][:, None], axis=1)
    at = home
    for step in range(1, parameters.steps):
        if parameters.moves_at and step not in parameters.moves_at:
            ap[step] = ap[step - 1]
            continue
        draws = generator(seed, "edge hops", step=step).random((parameters.devices, 2))
        further = 1 + np.minimum((draws[:, 1] * (places - 1)).astype(np.int32), places - 2)
        away = (at != home) & (parameters.back > 0.0)
        there = np.where(away, home, (at + further) % places)
        at = np.where(draws[:, 0] < np.where(away, parameters.back, chance), there, at)
        ap[step] = own[devices, at]
    return ap


def places_of(parameters: EdgeHoppingParameters, seed: int) -> IntColumn:
    """The edges that each device moves among, shape (devices, places)."""
    every = np.broadcast_to(np.arange(parameters.aps, dtype=np.int32), (parameters.devices, parameters.aps))
    if parameters.places in (0, parameters.aps):
        return every
    order = generator(seed, "edge places").random(every.shape)
    order[np.arange(parameters.devices), fixed_assignment(parameters.devices, parameters.aps)] = -1.0
    return np.argsort(order, axis=1)[:, : parameters.places].astype(np.int32)


EDGE_HOPPING: Final = Generator(
    "edge-hopping",
    "each step with probability P to another access point (MIDDLE); records the access point",
    EdgeHoppingParameters,
    edge_hopping,
)
