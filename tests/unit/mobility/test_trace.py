from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from roambench.contract.errors import TraceError

APS = [(0.0, 0.0)]
FIXES = [(0, 0, 1.0, 2.0), (0, 1, 3.0, 4.0), (2, 1, 5.0, 6.0)]


def test_a_trace_tells_who_is_present(make_trace):
    trace = make_trace(FIXES, APS, devices=2, steps=3)
    assert [trace.present(step).tolist() for step in range(3)] == [[0, 1], [], [1]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x_m": np.array([1.0, math.nan, 5.0])}, "x_m holds NaN"),
        ({"ap_y_m": np.array([math.inf])}, "ap_y_m holds NaN or infinity"),
        ({"place_x_m": np.array([1.0])}, "place columns differ"),
        ({"x_m": np.array([1.0])}, "trace columns differ"),
        ({"steps": 2}, r"steps must lie in 0\.\.1"),
        ({"steps": 0}, "at least one step"),
        ({"step_s": 0.0}, "positive length"),
        ({"device_names": ("only",)}, r"sorted|devices must lie"),
        ({"device": np.array([1, 1, 1], np.int32)}, "each pair once"),
    ],
)
def test_columns_that_make_no_trace_are_refused(make_trace, change, message):
    trace = make_trace(FIXES, APS, devices=2, steps=3)
    with pytest.raises(TraceError, match=message):
        replace(trace, **change)
