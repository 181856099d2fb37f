"""Presence policies on a drawing: device 0 is seen at steps 1 and 4, device 1 at step 0, of six steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from roambench.contract.errors import ConfigError
from roambench.mobility.presence import with_presence

FIXES = [(0, 1, 50.0, 5.0), (1, 0, 10.0, 1.0), (4, 0, 40.0, 4.0)]


@pytest.fixture
def seen(make_trace):
    return make_trace(FIXES, [(0.0, 0.0), (100.0, 0.0)], devices=3, steps=6)


def pairs(trace):
    return list(zip(trace.step.tolist(), trace.device.tolist(), trace.x_m.tolist(), strict=True))


def test_event_is_what_was_seen(seen):
    assert with_presence(seen, "event") is seen
    assert with_presence(seen, "interval") is seen


def test_a_held_device_stays_where_it_was_for_so_many_steps_and_no_longer(seen):
    assert pairs(with_presence(seen, "hold:1")) == [
        (0, 1, 50.0),
        (1, 0, 10.0),
        (1, 1, 50.0),
        (2, 0, 10.0),
        (4, 0, 40.0),
        (5, 0, 40.0),
    ]


def test_a_hold_ends_at_the_next_fix_and_at_the_end_of_the_trace(seen):
    held = with_presence(seen, "hold:100")
    assert [x for _, device, x in pairs(held) if device == 0] == [10.0, 10.0, 10.0, 40.0, 40.0]
    assert [x for _, device, x in pairs(held) if device == 1] == [50.0] * 6
    assert len(held.step) == 11


def test_always_begins_before_the_first_fix_where_that_will_be(seen):
    always = with_presence(seen, "always")
    assert [x for _, device, x in pairs(always) if device == 0] == [10.0, 10.0, 10.0, 10.0, 40.0, 40.0]
    assert [len(always.present(step)) for step in range(6)] == [2] * 6  # device 2 was never seen


def test_a_held_device_keeps_its_recorded_ap(seen):
    recorded = replace(seen, ap=np.array([1, 0, 1], np.int32))
    assert with_presence(recorded, "hold:1").ap.tolist() == [1, 0, 1, 0, 1, 1]


@pytest.mark.parametrize("policy", ["", "hold", "hold:0", "hold:-1", "hold:x", "never", "hold:1 "])
def test_a_policy_that_is_none_is_told(seen, policy):
    with pytest.raises(ConfigError, match="expected event, hold:STEPS, interval or always"):
        with_presence(seen, policy)
