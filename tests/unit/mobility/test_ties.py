from __future__ import annotations

import numpy as np

from roambench.mobility.association import NearestAp
from roambench.mobility.ties import NearestApDrawn

#: a and b at equal distances from the middle, c where b is, d farther.
APS = [(0.0, 0.0), (10.0, 0.0), (10.0, 0.0), (5.0, 30.0)]


def crowd(make_trace, x_m, steps=300):
    return make_trace([(step, 0, x_m, 0.0) for step in range(steps)], APS, devices=1, steps=steps)


def test_a_tie_is_drawn_among_the_equally_near_aps_and_no_other(make_trace):
    rule = NearestApDrawn(crowd(make_trace, 5.0), seed=1)
    counts = np.bincount(rule.aps, minlength=4)
    assert counts[3] == 0
    # Each of three with probability 1/3 in 300 steps: 100, deviation 8.2.
    assert all(70 < count < 130 for count in counts[:3])
    assert rule.distances_m.tolist() == [5.0] * 300
    assert rule.placement(7).aps.tolist() == [rule.aps[7]]


def test_aps_at_one_place_are_a_tie_and_one_that_is_nearer_is_none(make_trace):
    assert set(NearestApDrawn(crowd(make_trace, 9.0), seed=1).aps.tolist()) == {1, 2}
    assert set(NearestApDrawn(crowd(make_trace, 4.999), seed=1).aps.tolist()) == {0}
    assert set(NearestAp(crowd(make_trace, 5.0)).aps.tolist()) == {0}


def test_a_draw_is_keyed_by_seed_device_and_step(make_trace):
    fixes = [(step, device, 5.0, 0.0) for step in range(40) for device in (0, 1)]
    both = NearestApDrawn(make_trace(fixes, APS, devices=2, steps=40), seed=3)
    alone = NearestApDrawn(make_trace(fixes[1::2], APS, devices=2, steps=40), seed=3)
    assert both.aps[1::2].tolist() == alone.aps.tolist()
    assert both.aps[0::2].tolist() != alone.aps.tolist()
    other = NearestApDrawn(make_trace(fixes[1::2], APS, devices=2, steps=40), seed=4)
    assert other.aps.tolist() != alone.aps.tolist()
