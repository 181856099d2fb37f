"""Common part of the walking models: checks of parameters, presence, where access points stand."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from roambench.contract.draws import generator
from roambench.contract.errors import ConfigError
from roambench.mobility.selection import ap_names, draw_places
from roambench.mobility.trace import FloatColumn, IntColumn, Trace

Flags = npt.NDArray[np.bool_]

_PLACES_PER_AP: Final = 10  # candidates that randomly placed access points are drawn from


def refuse(
    parameters: Any,
    *,
    at_least_one: tuple[str, ...] = (),
    positive: tuple[str, ...] = (),
    not_negative: tuple[str, ...] = (),
    shares: tuple[str, ...] = (),
    problems: tuple[str, ...] = (),
) -> None:
    """Raise one ConfigError with everything wrong with a dataclass of parameters; `problems` are its own."""
    rules: tuple[tuple[tuple[str, ...], str, Callable[[float], bool]], ...] = (
        (at_least_one, "at least 1", lambda value: value >= 1),
        (positive, "more than 0", lambda value: 0 < value < math.inf),
        (not_negative, "0 or more", lambda value: 0 <= value < math.inf),
        (shares, "0 to 1", lambda value: 0 <= value <= 1),
    )
    found = [
        f"{name} is {getattr(parameters, name)}, expected {expected}"
        for names, expected, holds in rules
        for name in names
        if not holds(getattr(parameters, name))
    ]
    if found or problems:
        raise ConfigError([*found, *problems])


def presence_problems(presence: float, stay_steps: float) -> tuple[str, ...]:
    """Mistakes in a pair of presence parameters, see `presences`."""
    if not 0 < presence <= 1:
        return (f"presence is {presence}, expected more than 0, at most 1",)
    if not stay_steps >= 1:
        return (f"stay_steps is {stay_steps}, expected at least 1",)
    if presence < 1 and presence / (1.0 - presence) > stay_steps * (1 + 1e-9):
        least = presence / (1.0 - presence)
        return (
            f"presence {presence:g} needs stays of at least {least:.3g} steps, stay_steps is {stay_steps:g}",
        )
    return ()


def presence_of(parameters: Any, seed: int) -> Flags:
    """`presences` by the four fields of that name in a model's parameters."""
    return presences(parameters.devices, parameters.steps, parameters.presence, parameters.stay_steps, seed)


def presences(devices: int, steps: int, presence: float, stay_steps: float, seed: int) -> Flags:
    """Presence of devices, shape (steps, devices): a share `presence` of all steps, in stays of geometric
    length with mean `stay_steps`. Stationary from the first step on; 1.0: everybody always."""
    there = np.ones((steps, devices), np.bool_)
    if presence >= 1.0:
        return there
    leaves = 1.0 / stay_steps
    comes = leaves * presence / (1.0 - presence)
    for step in range(steps):
        draws = generator(seed, "presence", step=step).random(devices)
        chance = presence if step == 0 else np.where(there[step - 1], 1.0 - leaves, comes)
        there[step] = draws < chance
    return there


def columns_and_rows(count: int) -> tuple[int, int]:
    """Columns and rows of the smallest grid, as square as it can be, that has `count` cells."""
    columns = math.ceil(math.sqrt(count))
    return columns, math.ceil(count / columns)


def spread_evenly(count: int, width_m: float, height_m: float) -> tuple[FloatColumn, FloatColumn]:
    """`count` points spread evenly over a box, row by row from the south-west: the middles of equal cells."""
    columns, rows = columns_and_rows(count)
    index = np.arange(count)
    return (index % columns + 0.5) * width_m / columns, (index // columns + 0.5) * height_m / rows


def access_points(count: int, layout: str, width_m: float, height_m: float, seed: int) -> Mapping[str, Any]:
    """The columns of a trace that tell its access points and places.

    `grid`: evenly, every place is one. `random`: drawn from ten times as many places strewn evenly.
    """
    if layout == "grid":
        x_m, y_m = spread_evenly(count, width_m, height_m)
        return {"ap_names": ap_names(count), "ap_x_m": x_m, "ap_y_m": y_m, "place_x_m": x_m, "place_y_m": y_m}
    strewn = generator(seed, "places").random((count * _PLACES_PER_AP, 2))
    place_x_m, place_y_m = strewn[:, 0] * width_m, strewn[:, 1] * height_m
    chosen = draw_places(len(strewn), count, seed)
    return {
        "ap_names": ap_names(count),
        "ap_x_m": place_x_m[chosen],
        "ap_y_m": place_y_m[chosen],
        "place_x_m": place_x_m,
        "place_y_m": place_y_m,
    }


def walked(
    name: str,
    parameters: Any,
    seed: int,
    x_m: FloatColumn,
    y_m: FloatColumn,
    points: Mapping[str, Any],
    *,
    there: Flags | None = None,
    ap: IntColumn | None = None,
) -> Trace:
    """The trace of positions (and recorded APs) of shape (steps, devices), where `there` says so."""
    steps, devices = x_m.shape
    step, device = np.nonzero(np.ones((steps, devices), np.bool_) if there is None else there)
    return Trace(
        steps=steps,
        step_s=float(parameters.step_s),
        device_names=tuple(f"d{number:04d}" for number in range(devices)),
        step=step.astype(np.int32),
        device=device.astype(np.int32),
        x_m=np.ascontiguousarray(x_m[step, device]),
        y_m=np.ascontiguousarray(y_m[step, device]),
        ap=None if ap is None else ap[step, device].astype(np.int32),
        provenance={"made_by": f"generator {name} (synthetic)", "seed": seed, "recipe": asdict(parameters)},
        **points,
    )


def stood_at(
    name: str,
    parameters: Any,
    seed: int,
    ap: IntColumn,
    ap_x_m: FloatColumn,
    ap_y_m: FloatColumn,
    beside_m: tuple[FloatColumn, FloatColumn] | None = None,
) -> Trace:
    """A walk from access point to access point: they are at `ap`, shape (steps, devices), which it records.

    `beside_m`: how far east and north of it each device stands, shape (devices,); None: at it. Every access
    point is a place.
    """
    x_m, y_m = ap_x_m[ap], ap_y_m[ap]
    if beside_m is not None:
        x_m, y_m = x_m + beside_m[0], y_m + beside_m[1]
    points = {
        "ap_names": ap_names(len(ap_x_m)),
        "ap_x_m": ap_x_m,
        "ap_y_m": ap_y_m,
        "place_x_m": ap_x_m,
        "place_y_m": ap_y_m,
    }
    return walked(name, parameters, seed, x_m, y_m, points, there=presence_of(parameters, seed), ap=ap)
