"""Movement of two people that one can count on paper."""

from __future__ import annotations

import numpy as np

from roambench.mobility.trace import Trace


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
