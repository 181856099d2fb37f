"""De Heredia's contacts on the walk of §5.1: the generated trace tells where everybody is after an iteration,
its parameters and seed how they came there."""

from __future__ import annotations

import numpy as np

from roambench.contract.errors import TraceError
from roambench.mobility.contacts import Neighbours, alone, contacts_during
from roambench.mobility.contacts_motion import Motion, reflected_path
from roambench.mobility.trace import Trace
from roambench.mobility.walks.reflected_walk import ReflectedWalkParameters, headings, speeds_m


def walk_motion(trace: Trace, parameters: ReflectedWalkParameters, seed: int, step: int) -> Motion:
    """The motion from step - 1 to `step` >= 1, in metres and iterations (duration 1).

    `trace`: what `reflected_walk(parameters, seed)` gave, whole and as it was. Raises TraceError for a step
    outside it, or a trace in which not everybody is there at step - 1.
    """
    if not 1 <= step < trace.steps:
        raise TraceError(f"step {step}: a walk of {trace.steps} steps moves from 1 to {trace.steps - 1}")
    rows = trace.rows(step - 1)
    start_m = np.stack((trace.x_m[rows], trace.y_m[rows]), axis=1)
    if len(start_m) != parameters.devices:
        raise TraceError(f"step {step - 1}: {len(start_m)} of {parameters.devices} walkers are present")
    velocity = headings(parameters.devices, seed, step) * speeds_m(parameters, seed)[:, None]
    return reflected_path(start_m, velocity, (parameters.width_m, parameters.height_m))


def walk_contacts(
    trace: Trace, parameters: ReflectedWalkParameters, seed: int, step: int, radius_m: float
) -> Neighbours:
    """M(t_k) of de Heredia §5.1: near enough at any moment of [k-1, k]; at k = 0 only oneself."""
    if step == 0:
        return alone(parameters.devices)
    return contacts_during(walk_motion(trace, parameters, seed, step), radius_m)
