from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from roambench.contract.draws import generator
from roambench.contract.errors import TraceError
from roambench.mobility.association import (
    ASSOCIATIONS,
    FixedAp,
    NearestAp,
    RingWalkAp,
    all_pair_statistics,
    assignment_hash,
    distance_statistics,
    fixed_assignment,
    hash_of_steps,
)

SQUARE = [(0.0, 0.0), (100.0, 0.0), (0.0, 100.0), (100.0, 100.0)]


def test_the_nearest_ap_is_chosen_at_every_step_from_where_the_device_is_now(make_trace):
    trace = make_trace([(0, 0, 3.0, 4.0), (0, 1, 90.0, 10.0), (1, 0, 97.0, 96.0)], SQUARE, devices=2, steps=2)
    rule = NearestAp(trace)
    first, second = rule.placement(0), rule.placement(1)
    assert first.devices.tolist() == [0, 1]
    assert first.aps.tolist() == [0, 1]
    assert first.distances_m.tolist() == pytest.approx([5.0, 200**0.5])
    assert (second.devices.tolist(), second.aps.tolist(), second.distances_m.tolist()) == ([0], [3], [5.0])


def test_a_tie_goes_to_the_lowest_ap_index(make_trace):
    middle = [(0, 0, 50.0, 50.0), (0, 1, 100.0, 50.0), (0, 2, 50.0, 100.0)]
    rule = NearestAp(make_trace(middle, SQUARE, devices=3, steps=1))
    assert rule.placement(0).aps.tolist() == [0, 1, 2]
    reversed_rule = NearestAp(make_trace(middle, SQUARE[::-1], devices=3, steps=1))
    assert reversed_rule.placement(0).aps.tolist() == [0, 0, 0]


def test_two_aps_at_one_place_leave_the_second_without_devices(make_trace):
    aps = [(900.0, 900.0), (5.0, 5.0), (5.0, 5.0)]
    rule = NearestAp(make_trace([(0, 0, 5.0, 5.0), (0, 1, 7.0, 5.0)], aps, devices=2, steps=1))
    assert rule.placement(0).aps.tolist() == [1, 1]


@pytest.mark.parametrize(("count", "side"), [(60, 40), (300, 100)])  # few and many
def test_the_nearest_ap_agrees_with_a_search_through_all_of_them(make_trace, count, side):
    draw = generator(7, "test points")
    points = draw.integers(0, side, (500, 2)).astype(float)
    aps = draw.integers(0, side, (count, 2)).astype(float)
    trace = make_trace([(0, row, *point) for row, point in enumerate(points)], aps, devices=500, steps=1)
    squared = ((points[:, None] - aps[None]) ** 2).sum(axis=2)  # whole numbers: ties are exact
    assert (np.sort(squared, axis=1)[:, 0] == np.sort(squared, axis=1)[:, 1]).sum() > 50
    assert NearestAp(trace).placement(0).aps.tolist() == squared.argmin(axis=1).tolist()


def test_a_single_ap_serves_everybody(make_trace):
    trace = make_trace([(0, 0, 0.0, 0.0), (0, 1, 6.0, 8.0)], [(0.0, 0.0)], devices=2, steps=1)
    assert NearestAp(trace).placement(0).aps.tolist() == [0, 0]
    assert NearestAp(trace).placement(0).distances_m.tolist() == [0.0, 10.0]


def test_the_fixed_assignment_gives_consecutive_ranks_to_an_ap():
    assert fixed_assignment(8, 4).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert fixed_assignment(5, 3).tolist() == [0, 0, 1, 1, 2]  # floor of 0, .6, 1.2, 1.8, 2.4
    assert fixed_assignment(2, 4).tolist() == [0, 2]


def test_a_fixed_device_keeps_its_ap_and_its_distance_changes(make_trace):
    trace = make_trace([(0, 1, 100.0, 3.0), (1, 1, 100.0, 30.0)], SQUARE, devices=2, steps=2)
    rule = FixedAp(trace)
    assert [rule.placement(step).aps.tolist() for step in (0, 1)] == [[2], [2]]
    assert rule.distances_m.tolist() == pytest.approx([np.hypot(100, 97), np.hypot(100, 70)])
    assert distance_statistics(rule) == pytest.approx(
        ((np.hypot(100, 97) + np.hypot(100, 70)) / 2, (np.hypot(100, 97) - np.hypot(100, 70)) / 2)
    )


def test_the_ring_walk_starts_fixed_and_moves_one_ap_at_most_half_of_the_time(make_trace):
    devices, steps, aps = 40, 100, 10
    trace = make_trace(
        [(step, device, 0.0, 0.0) for step in range(steps) for device in range(devices)],
        [(float(index), 0.0) for index in range(aps)],
        devices=devices,
        steps=steps,
    )
    walk = RingWalkAp(trace, 5).aps.reshape(steps, devices)
    assert walk[0].tolist() == fixed_assignment(devices, aps).tolist()
    moves = np.diff(walk, axis=0) % aps
    assert set(np.unique(moves)) == {0, 1, aps - 1}
    shares = [float((moves == move).mean()) for move in (0, 1, aps - 1)]
    assert shares == pytest.approx([0.5, 0.25, 0.25], abs=0.03)  # 3,960 moves: sd 0.008


def test_the_ring_walk_is_keyed_by_its_seed_and_goes_on_while_a_device_is_absent(make_trace):
    aps = [(float(index), 0.0) for index in range(10)]
    always = make_trace([(step, 0, 0.0, 0.0) for step in range(60)], aps, devices=1, steps=60)
    rarely = make_trace([(0, 0, 0.0, 0.0), (59, 0, 0.0, 0.0)], aps, devices=1, steps=60)
    assert RingWalkAp(always, 5).aps[59] == RingWalkAp(rarely, 5).aps[1]
    assert RingWalkAp(always, 5).aps.tolist() == RingWalkAp(always, 5).aps.tolist()
    assert RingWalkAp(always, 5).aps.tolist() != RingWalkAp(always, 6).aps.tolist()


def test_an_empty_step_has_an_empty_placement(make_trace):
    trace = make_trace([(0, 0, 0.0, 0.0), (2, 0, 0.0, 0.0)], SQUARE, devices=1, steps=3)
    for rule in ASSOCIATIONS.values():
        placement = rule(trace, 1).placement(1)
        assert (placement.step, len(placement.devices), len(placement.aps)) == (1, 0, 0)


@pytest.mark.parametrize("step", [-1, 3])
def test_a_step_outside_the_trace_is_refused(make_trace, step):
    trace = make_trace([(0, 0, 0.0, 0.0)], SQUARE, devices=1, steps=3)
    with pytest.raises(TraceError, match=r"outside the trace's 0\.\.2"):
        NearestAp(trace).placement(step)


def test_a_trace_without_aps_says_how_to_get_some(make_trace):
    trace = make_trace([(0, 0, 0.0, 0.0)], [], devices=1, steps=1)
    for rule in ASSOCIATIONS.values():
        with pytest.raises(TraceError, match="no access points"):
            rule(trace, 1).placement(0)


def test_there_are_no_distance_statistics_of_nobody(make_trace):
    with pytest.raises(TraceError, match="no device"):
        distance_statistics(NearestAp(make_trace([], SQUARE, devices=1, steps=1)))


def test_statistics_of_all_pairs_count_every_ap_of_every_fix(make_trace):
    trace = make_trace([(0, 0, 0.0, 0.0), (1, 0, 3.0, 4.0)], [(0.0, 0.0), (3.0, 0.0)], devices=1, steps=2)
    # 0 and 3 from the corner, 5 and 4 from (3, 4): mean 3, variance (9 + 0 + 4 + 1) / 4.
    assert all_pair_statistics(trace) == pytest.approx((3.0, 3.5**0.5))
    assert distance_statistics(NearestAp(trace)) == (2.0, 2.0)
    with pytest.raises(TraceError, match="no device"):
        all_pair_statistics(make_trace([], SQUARE, devices=1, steps=1))


FIXES = [(0, 0, 10.0, 0.0), (0, 2, 900.0, 0.0), (2, 1, 20.0, 0.0)]
APS = [(0.0, 0.0), (1000.0, 0.0)]


def test_it_is_that_of_counts_devices_and_aps_as_little_endian_numbers(make_trace):
    trace = make_trace(FIXES, APS, devices=3, steps=3)
    text = "0200000000000000 00000000 02000000 00000000 01000000"  # step 0: devices 0, 2 at APs 0, 1
    text += "0000000000000000"  # step 1
    text += "0100000000000000 01000000 00000000"  # step 2: device 1 at AP 0
    expected = hashlib.blake2b(bytes.fromhex(text), digest_size=32).hexdigest()
    assert assignment_hash(NearestAp(trace)) == expected
    assert hash_of_steps([((0, 2), (0, 1)), ((), ()), ((1,), (0,))]) == expected


def test_it_is_the_assignment_that_counts_not_the_metres(make_trace):
    trace = make_trace(FIXES, APS, devices=3, steps=3)
    nearby = replace(trace, x_m=trace.x_m + 1.0)
    assert assignment_hash(NearestAp(nearby)) == assignment_hash(NearestAp(trace))
    moved = replace(trace, x_m=np.array([10.0, 400.0, 20.0]))
    assert assignment_hash(NearestAp(moved)) != assignment_hash(NearestAp(trace))
    longer = replace(trace, steps=4)
    assert assignment_hash(NearestAp(longer)) != assignment_hash(NearestAp(trace))


def test_rules_and_seeds_give_other_worlds(make_trace):
    fixes = [(step, device, 10.0, 0.0) for step in range(6) for device in range(4)]
    trace = make_trace(fixes, APS, devices=4, steps=6)
    hashes = {assignment_hash(rule) for rule in (NearestAp(trace), FixedAp(trace))}
    hashes |= {assignment_hash(RingWalkAp(trace, seed)) for seed in (1, 2)}
    assert len(hashes) == 4
