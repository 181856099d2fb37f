from __future__ import annotations

import numpy as np
import pytest

from roambench.contract.errors import TraceError
from roambench.mobility.selection import (
    busiest_devices,
    busiest_window_start,
    draw_places,
    repeated,
    window,
    with_aps,
)

APS = [(0.0, 0.0)]
#: present:  dev-0 at 3; dev-1 at 0, 1; dev-2 at 1, 3; dev-3 at 1, 2, 3
FIXES = [
    (0, 1, 10.0, 0.0),
    (1, 1, 11.0, 0.0),
    (1, 2, 20.0, 0.0),
    (1, 3, 30.0, 0.0),
    (2, 3, 31.0, 0.0),
    (3, 0, 0.0, 0.0),
    (3, 2, 21.0, 0.0),
    (3, 3, 32.0, 0.0),
]


def test_a_device_is_ranked_by_steps_present_then_by_its_first_step(make_trace):
    kept = busiest_devices(make_trace(FIXES, APS, devices=4, steps=4), 3)
    assert kept.device_names == ("dev-3", "dev-1", "dev-2")
    assert [kept.present(step).tolist() for step in range(4)] == [[1], [0, 1, 2], [0], [0, 2]]
    assert kept.x_m.tolist() == [10.0, 30.0, 11.0, 20.0, 31.0, 32.0, 21.0]


def test_of_two_equally_busy_devices_the_one_seen_first_ranks_first(make_trace):
    trace = make_trace([(0, 1, 0.0, 0.0), (1, 0, 0.0, 0.0)], APS, devices=2, steps=2)
    assert busiest_devices(trace, 2).device_names == ("dev-1", "dev-0")


def test_devices_alike_in_both_keep_their_order(make_trace):
    trace = make_trace([(0, 1, 0.0, 0.0), (0, 2, 0.0, 0.0)], APS, devices=4, steps=1)
    assert busiest_devices(trace, 4).device_names == ("dev-1", "dev-2", "dev-0", "dev-3")


def test_a_window_is_renumbered_and_keeps_its_hour(make_trace):
    cut = window(make_trace(FIXES, APS, devices=4, steps=4, start_utc_s=7200), 1, 2)
    assert (cut.steps, cut.start_utc_s) == (2, 10800)
    assert cut.step.tolist() == [0, 0, 0, 1]
    assert cut.device.tolist() == [1, 2, 3, 3]
    assert cut.provenance["derived"] == [{"window": {"first": 1, "steps": 2}}]


def test_the_busiest_window_counts_only_its_own_busiest_devices(make_trace):
    trace = make_trace(FIXES, APS, devices=4, steps=4)
    # pairs by window of two steps: 1+3, 3+1, 1+3; of its single busiest device: 2, 2, 2
    assert busiest_window_start(trace, 2, 4) == 0
    assert busiest_window_start(trace, 3, 1) == 1  # dev-3 at 1, 2 and 3
    assert busiest_window_start(trace, 1, 4) == 1
    chosen = busiest_devices(window(trace, busiest_window_start(trace, 3, 2), 3), 2)
    assert (chosen.steps, chosen.device_names) == (3, ("dev-3", "dev-2"))
    assert [entry.popitem()[0] for entry in map(dict, chosen.provenance["derived"])] == [
        "window",
        "busiest_devices",
    ]


def test_another_draw_of_aps_takes_distinct_places_by_seed(make_trace):
    places = [(float(index), 2.0 * index) for index in range(50)]
    trace = make_trace(FIXES, APS, devices=4, steps=4, places=places)
    drawn = with_aps(trace, 20, 42)
    assert len(set(drawn.ap_x_m.tolist())) == 20
    assert drawn.ap_x_m.tolist() == sorted(drawn.ap_x_m.tolist())
    assert np.array_equal(drawn.ap_y_m, 2 * drawn.ap_x_m)
    assert drawn.ap_x_m.tolist() == with_aps(trace, 20, 42).ap_x_m.tolist()
    assert drawn.ap_x_m.tolist() != with_aps(trace, 20, 182).ap_x_m.tolist()
    expected = np.random.Generator(np.random.PCG64(42)).choice(50, 20, replace=False)
    assert draw_places(50, 20, 42).tolist() == sorted(expected.tolist())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda trace: window(trace, 3, 2), r"steps 3\.\.4 lie outside"),
        (lambda trace: window(trace, -1, 2), "outside"),
        (lambda trace: busiest_devices(trace, 5), "5 busiest of 4"),
        (lambda trace: busiest_window_start(trace, 5, 1), "does not fit"),
        (lambda trace: with_aps(trace, 1, 0), "from 0 places"),
    ],
)
def test_what_the_trace_does_not_hold_is_refused(make_trace, wrong, message):
    with pytest.raises(TraceError, match=message):
        wrong(make_trace(FIXES, APS, devices=4, steps=4))


@pytest.mark.parametrize(
    ("places", "seed", "sampled"),
    [
        (12, 42, [10, 9, 0, 8, 5]),
        (12, 182, [4, 1, 7, 3, 6]),
        (12, 392, [0, 5, 2, 1, 8]),
        (37_994, 42, [4824, 6756, 12706, 26913, 31117]),
        (37_994, 182, [16038, 29341, 426, 7423, 21895]),
        (37_994, 392, [1091, 12470, 21965, 21959, 23817]),
    ],
)
def test_mohawks_draw_is_that_of_pandas(places, seed, sampled):
    # What pandas 3.1.1 gives: numpy.random.seed(seed); pandas.DataFrame(range(places)).sample(n=100).index
    # (n=5 of 12).
    assert draw_places(places, min(100, places // 2 - 1), seed, "mohawk").tolist()[:5] == sampled


def test_a_repeated_trace_plays_its_steps_again(make_trace):
    trace = make_trace([(0, 1, 1.0, 2.0), (2, 0, 3.0, 4.0)], APS, devices=2, steps=3)
    twice = repeated(trace, 2)
    assert (twice.steps, twice.step.tolist(), twice.device.tolist()) == (6, [0, 2, 3, 5], [1, 0, 1, 0])
    assert twice.x_m.tolist() == [1.0, 3.0, 1.0, 3.0]
    assert twice.provenance["derived"] == [{"repeated": {"times": 2}}]
    assert repeated(trace, 1) is trace
    with pytest.raises(TraceError, match="0 times"):
        repeated(trace, 0)
    with pytest.raises(TraceError, match="cannot play 3 steps 1,000,000,000 times: a trace holds"):
        repeated(trace, 1_000_000_000)
