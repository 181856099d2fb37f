from __future__ import annotations

import numpy as np
import pytest

from roambench.contract.errors import TraceError
from roambench.mobility.contacts import walk_contacts, walk_motion
from roambench.mobility.selection import window
from roambench.mobility.walks.reflected_walk import ReflectedWalkParameters, reflected_walk

#: A small box with fast devices: many rebounds, some devices crossing it more than once in a step.
PARAMETERS = ReflectedWalkParameters(
    devices=20, fast_share=0.5, width_m=100.0, height_m=60.0, speed_max_m=10.0, beta=8.0, steps=30
)


@pytest.fixture(scope="module")
def trace():
    return reflected_walk(PARAMETERS, 5)


def places_m(trace, step):
    rows = trace.rows(step)
    return np.stack((trace.x_m[rows], trace.y_m[rows]), axis=1)


def test_the_motion_leads_from_each_step_of_the_trace_to_the_next(trace):
    most = 0
    for step in range(1, trace.steps):
        motion = walk_motion(trace, PARAMETERS, 5, step)
        np.testing.assert_allclose(motion.at(0.0), places_m(trace, step - 1), atol=1e-9)
        np.testing.assert_allclose(motion.at(1.0), places_m(trace, step), atol=1e-9)
        most = max(most, int(motion.pieces.max()))
    assert most >= 4


def test_at_iteration_0_only_oneself_and_later_whoever_was_met_on_the_way(trace):
    radius_m = 5.0
    assert walk_contacts(trace, PARAMETERS, 5, 0, radius_m).nnz == 0
    on_the_way = at_an_end = 0
    for step in range(1, trace.steps):
        found = walk_contacts(trace, PARAMETERS, 5, step, radius_m).toarray()
        ends = np.zeros_like(found)
        for moment in (step - 1, step):
            x_m, y_m = places_m(trace, moment).T
            ends |= np.hypot(x_m[:, None] - x_m, y_m[:, None] - y_m) <= radius_m - 1e-6
        np.fill_diagonal(ends, False)
        assert found[ends].all()
        on_the_way += int((found & ~ends).sum())
        at_an_end += int(ends.sum())
    assert on_the_way > at_an_end > 0


def test_a_step_that_nobody_walked_is_refused(trace):
    with pytest.raises(TraceError, match="step 30: a walk of 30 steps"):
        walk_motion(trace, PARAMETERS, 5, 30)
    other = ReflectedWalkParameters(devices=21)
    with pytest.raises(TraceError, match="20 of 21 walkers are present"):
        walk_motion(window(trace, 0, 2), other, 5, 1)
