"""Small traces drawn as text: one row per device, one letter per step for the AP it is at, "-" while away."""

from collections.abc import Sequence

import numpy as np

from roambench.mobility.trace import Trace

_PLACES_M = {"a": 100.0, "b": 900.0}


def drawn_trace(rows: Sequence[str]) -> Trace:
    """APs a and b lie 1 km apart on a line, devices 100 m from the one they are at."""
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
