"""A maker of tiny traces, and where the real recordings are, if they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from roambench.mobility.trace import Trace

TinyTrace = Callable[..., Trace]


def tiny_trace(
    fixes: Sequence[tuple[int, int, float, float]],
    aps: Sequence[tuple[float, float]],
    *,
    devices: int,
    steps: int,
    places: Sequence[tuple[float, float]] = (),
    start_utc_s: int = 0,
) -> Trace:
    """A trace of (step, device, x, y) rows."""
    points = np.array([fix[2:] for fix in fixes], np.float64).reshape(-1, 2)
    stations = np.array(aps, np.float64).reshape(-1, 2)
    spots = np.array(places, np.float64).reshape(-1, 2)
    return Trace(
        steps=steps,
        step_s=3600.0,
        device_names=tuple(f"dev-{index}" for index in range(devices)),
        step=np.array([fix[0] for fix in fixes], np.int32),
        device=np.array([fix[1] for fix in fixes], np.int32),
        x_m=points[:, 0],
        y_m=points[:, 1],
        ap_names=tuple(f"AP{index}" for index in range(len(aps))),
        ap_x_m=stations[:, 0],
        ap_y_m=stations[:, 1],
        start_utc_s=start_utc_s,
        place_x_m=spots[:, 0],
        place_y_m=spots[:, 1],
    )


@pytest.fixture
def make_trace() -> TinyTrace:
    return tiny_trace


@pytest.fixture(scope="session")
def nyc_checkins(data_folder: Path) -> Path:
    """The real New York check-ins."""
    return data_folder / "traces" / "fsq_tsmc2014_nyc_147938.csv.xz"
