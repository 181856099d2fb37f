"""The ring walk of MACFL as MOHAWK compares with it: each step with probability p to the next AP of a ring.

The walk that the association `ring_walk` draws over any trace (with p = 0.5: same seed, same steps), here as
a separate trace: access points on a circle, devices at them, the access point of every fix recorded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from roambench.mobility.association import fixed_assignment, ring_moves
from roambench.mobility.trace import IntColumn, Trace
from roambench.mobility.walks.generator import Generator
from roambench.mobility.walks.walkers import presence_problems, refuse, stood_at


@dataclass(frozen=True, slots=True)
class RingWalkParameters:
    """An hour's step and MACFL's chance to move, as MOHAWK compares with it; the ring is ours."""

    devices: int = 100
    steps: int = 744
    step_s: float = 3600.0
    aps: int = 10
    p: float = 0.5  # chance to move per step, half of it each way
    radius_m: float = 5000.0  # of the circle of access points
    presence: float = 1.0  # share of the steps in which a device is there (absent ones walk, too)
    stay_steps: float = 2.0  # mean length of a stay, in steps, where presence is below 1

    def __post_init__(self) -> None:
        refuse(
            self,
            at_least_one=("devices", "steps", "aps"),
            positive=("step_s", "radius_m"),
            shares=("p",),
            problems=presence_problems(self.presence, self.stay_steps),
        )


def ring_walk(parameters: RingWalkParameters, seed: int) -> Trace:
    """At step 0 device d is at access point floor(d * aps / devices), as HierFAVG deals devices out."""
    ap = ring_steps(parameters, seed)
    angle = 2.0 * np.pi * np.arange(parameters.aps) / parameters.aps
    ap_x_m = parameters.radius_m * (1.0 + np.cos(angle))
    ap_y_m = parameters.radius_m * (1.0 + np.sin(angle))
    return stood_at("ring-walk", parameters, seed, ap, ap_x_m, ap_y_m)


def ring_steps(parameters: RingWalkParameters, seed: int) -> IntColumn:
    """The access point of every device in every step, shape (steps, devices)."""
    ap = np.empty((parameters.steps, parameters.devices), np.int32)
    ap[0] = fixed_assignment(parameters.devices, parameters.aps)
    for step in range(1, parameters.steps):
        ap[step] = (ap[step - 1] + ring_moves(seed, step, parameters.devices, parameters.p)) % parameters.aps
    return ap


RING_WALK: Final = Generator(
    "ring-walk",
    "each step with probability p to the neighbour on a ring of access points (MACFL); records them",
    RingWalkParameters,
    ring_walk,
)
