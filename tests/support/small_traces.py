"""Traces small enough to be counted on paper."""

from collections.abc import Sequence

import numpy as np

from roambench.mobility.trace import Trace

_PLACES_M = {"a": 100.0, "b": 900.0}


def drawn_trace(rows: Sequence[str]) -> Trace:
    """A trace drawn as text: one row per device, one letter per step for the AP it is at, "-" while away.

    APs a and b lie 1 km apart on a line, devices 100 m from the one they are at.
    """
    fixes = [
        (step, device, row[step])
        for step in range(len(rows[0]))
        for device, row in enumerate(rows)
        if row[step] != "-"
    ]
    return Trace(
        steps=len(rows[0]),
        step_s=3600.0,
        device_names=tuple(f"d{device}" for device in range(len(rows))),
        step=np.array([fix[0] for fix in fixes], dtype=np.int32),
        device=np.array([fix[1] for fix in fixes], dtype=np.int32),
        x_m=np.array([_PLACES_M[fix[2]] for fix in fixes]),
        y_m=np.zeros(len(fixes)),
        ap_names=("a", "b"),
        ap_x_m=np.array([0.0, 1000.0]),
        ap_y_m=np.zeros(2),
    )


def two_walks(steps: int = 3) -> Trace:
    """Ann is seen once, 50 m from AP0; Bob 100 m from AP1 at first and beside it at step 2; then nobody."""
    return Trace(
        steps=steps,
        step_s=3600.0,
        device_names=("ann", "bob"),
        step=np.array([0, 0, 2], np.int32),
        device=np.array([0, 1, 1], np.int32),
        x_m=np.array([30.0, 900.0, 1000.0]),
        y_m=np.array([40.0, 0.0, 0.0]),
        ap_names=("AP0", "AP1"),
        ap_x_m=np.array([0.0, 1000.0]),
        ap_y_m=np.array([0.0, 0.0]),
        start_utc_s=1334620800,
        provenance={"source": "written by hand"},
    )
