"""Walks from access point to access point: the trace records which, and that is where the devices stand."""

from __future__ import annotations

from typing import Any

from roambench.mobility.selection import ap_names
from roambench.mobility.trace import FloatColumn, IntColumn, Trace
from roambench.mobility.walks.walkers import presence_of, walked


def stood_at(
    name: str,
    parameters: Any,
    seed: int,
    ap: IntColumn,
    ap_x_m: FloatColumn,
    ap_y_m: FloatColumn,
    beside_m: tuple[FloatColumn, FloatColumn] | None = None,
) -> Trace:
    """The trace of devices at the access points `ap`, shape (steps, devices), which it records.

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
