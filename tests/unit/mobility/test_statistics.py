from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from roambench.mobility.importing import import_trace
from roambench.mobility.paper import PAPER_TARGETS, PaperTarget
from roambench.mobility.projection import Box
from roambench.mobility.recipe import Recipe
from roambench.mobility.selection import busiest_devices
from roambench.mobility.statistics import (
    aggregated_at_next_step,
    aggregated_dynamically,
    aggregated_per_step,
    trace_statistics,
)

#: a is present at 0, 1, 2; b at 0, 3; c at 1, 4. APs at x = 0 and x = 1000.
FIXES = [
    (0, 0, 0.0, 0.0),
    (0, 1, 400.0, 0.0),
    (1, 0, 900.0, 0.0),
    (1, 2, 1000.0, 0.0),
    (2, 0, 900.0, 0.0),
    (3, 1, 700.0, 0.0),
    (4, 2, 1000.0, 0.0),
]
APS = [(0.0, 0.0), (1000.0, 0.0)]


@pytest.fixture
def three_devices(make_trace):
    return make_trace(FIXES, APS, devices=3, steps=6, start_utc_s=22 * 3600)


def test_presence_is_counted_per_step_device_and_hour(three_devices):
    found = trace_statistics(three_devices)
    assert (found.present.min, found.present.mean, found.present.max) == (0, 7 / 6, 2)
    assert found.empty_steps == 1
    assert (found.steps_per_device.min, found.steps_per_device.max) == (2, 3)
    assert found.hour_profile[22:] == (2, 2)
    assert found.hour_profile[:4] == (1, 1, 1, 0)
    assert math.isnan(found.hour_profile[4])
    assert trace_statistics(three_devices, utc_offset_h=-5).hour_profile[17] == 2


def test_appearances_give_gaps_and_changes_of_ap(three_devices):
    found = trace_statistics(three_devices)
    # a: AP0, AP1, AP1; b: AP0, AP1 after 3 steps; c: AP1, AP1 after 3 steps
    assert found.ap_change_rate == 2 / 4
    assert (found.gap_steps.median, found.gap_steps.mean) == (2, (1 + 1 + 3 + 3) / 4)


def test_changes_of_ap_between_consecutive_steps_are_told_apart(three_devices):
    # Only a is seen in consecutive steps: AP0 to AP1, then AP1 still.
    assert trace_statistics(three_devices).ap_change_rate_next_step == 1 / 2
    assert trace_statistics(three_devices).busiest_ap_share == 5 / 7


def test_recorded_aps_count_where_there_are_any(three_devices):
    recorded = replace(three_devices, ap=np.array([0, 0, 0, 0, 0, 1, 0], np.int32))
    found = trace_statistics(recorded)
    assert found.recorded_aps
    assert (found.busiest_ap_share, found.ap_change_rate) == (6 / 7, 1 / 4)
    assert found.nearest_m.mean == trace_statistics(three_devices).nearest_m.mean


def test_empty_steps_are_split_where_the_trace_marks_its_outages(three_devices):
    assert trace_statistics(three_devices).outage_steps is None
    # Step 5 is empty. Of a marked outage over steps 4 and 5 only the empty one counts as lost.
    marked = replace(three_devices, provenance={"outages": [[4, 2]]})
    found = trace_statistics(marked)
    assert (found.empty_steps, found.outages, found.outage_steps) == (1, 1, 1)
    assert found.present_mean_nonempty == 7 / 5


def test_devices_cut_by_the_import_are_told(three_devices):
    assert trace_statistics(three_devices).devices_before_cut == 3
    counted = replace(three_devices, provenance={"counts": {"devices_before_cut": 12_866}})
    assert trace_statistics(counted).devices_before_cut == 12_866
    assert trace_statistics(busiest_devices(three_devices, 2)).devices_before_cut == 3


def test_a_target_is_missed_by_so_much_of_it(three_devices):
    found = trace_statistics(three_devices)  # at most 2 present
    target = PaperTarget("most", 4, "", "", lambda s: s.present.max)
    assert target.deviation(found) == -0.5
    assert replace(target, paper=1.0, to=3.0).deviation(found) == 0
    assert replace(target, paper=1.0, to=1.6).deviation(found) == pytest.approx(0.25)


def test_occupied_aps_and_distances_follow_the_nearest_ap(three_devices):
    found = trace_statistics(three_devices)
    # step 0: both at AP0; step 1: both at AP1; then one each
    assert (found.occupied_aps.max, found.occupied_aps.mean) == (1, 1)
    assert (found.devices_per_occupied_ap.max, found.devices_per_occupied_ap.mean) == (2, 7 / 5)
    assert found.nearest_m.mean == pytest.approx((0 + 400 + 100 + 0 + 100 + 300 + 0) / 7)
    assert found.nearest_m.median == 100
    assert found.share_on_wifi == pytest.approx(5 / 7)  # 100 m still is within reach
    # fixed: a and b belong to AP0 (floor of 0, .67), c to AP1
    assert found.fixed_m.mean == pytest.approx((0 + 400 + 900 + 0 + 900 + 700 + 0) / 7)


def test_models_are_aggregated_as_the_algorithms_say(three_devices):
    # HierFAVG: a at 1 and 2. All 7 fixes are trainings (the last step has none).
    hierfavg = aggregated_at_next_step(three_devices)
    assert (hierfavg.per_step, hierfavg.trainings, hierfavg.wasted_share) == (2 / 5, 7, pytest.approx(5 / 7))
    # k2 = 10: a at 1 and 2, b at 3 (trained at 0), c at 4 (trained at 1).
    assert aggregated_dynamically(three_devices, 10).per_step == 4 / 5
    # k2 = 2: the cloud aggregates at 2 and 4; b's model of 0 and c's of 1 are gone by then.
    assert aggregated_dynamically(three_devices, 2).per_step == 2 / 5
    # k2 = 3: cleared at 3 after b was aggregated; c's model of 1 is not there at 4.
    assert aggregated_dynamically(three_devices, 3).per_step == 3 / 5
    assert aggregated_per_step(three_devices).tolist() == [0, 1, 1, 0, 0, 0]
    assert aggregated_per_step(three_devices, 10).tolist() == [0, 1, 1, 1, 1, 0]
    assert aggregated_per_step(three_devices, 3).tolist() == [0, 1, 1, 1, 0, 0]


@pytest.mark.parametrize("k2", [1, 2, 3, 7])
def test_dynamic_aggregation_is_what_the_algorithm_does_step_by_step(make_trace, k2):
    there = np.random.default_rng(k2).random((40, 12)) < 0.3
    fixes = [(int(step), int(device), 0.0, 0.0) for step, device in np.argwhere(there)]
    outstanding, expected = set(), []
    for step in range(40):
        present = set(np.flatnonzero(there[step]).tolist())
        expected.append(len(outstanding & present))
        outstanding -= present
        if step and step % k2 == 0:
            outstanding.clear()
        outstanding |= present
    trace = make_trace(fixes, APS, devices=12, steps=40)
    assert aggregated_per_step(trace, k2).tolist() == expected
    assert aggregated_dynamically(trace, k2).per_step == pytest.approx(sum(expected) / 39)


def test_a_model_trained_at_a_cloud_step_outlives_that_aggregation(make_trace):
    trace = make_trace([(2, 0, 0.0, 0.0), (3, 0, 0.0, 0.0)], APS, devices=1, steps=4)
    assert aggregated_dynamically(trace, 2).per_step == 1 / 3


def test_when_everyone_is_always_present_both_systems_waste_the_same(make_trace):
    trace = make_trace(
        [(step, device, 0.0, 0.0) for step in range(6) for device in range(3)], APS, devices=3, steps=6
    )
    for k2 in (2, 5, 10):
        assert aggregated_dynamically(trace, k2) == aggregated_at_next_step(trace)
    assert aggregated_at_next_step(trace).wasted_share == 0


def test_every_paper_figure_has_one_of_ours_beside_it(three_devices):
    found = trace_statistics(three_devices)
    ours = {target.label: target.ours(found) for target in PAPER_TARGETS}
    assert ours["most devices present at once"] == 2
    assert ours["models aggregated per step, HierFAVG"] == 2 / 5
    assert ours["distance to nearest AP, mean"] == pytest.approx(0.9 / 7)
    assert all(math.isfinite(value) for value in ours.values())


def test_the_new_york_trace_gives_the_known_figures(nyc_checkins):
    recipe = Recipe(box=Box.square(40.7350, -73.9900), start_utc_s=1334620800, devices=None)
    found = trace_statistics(import_trace("checkins", [nyc_checkins], recipe).trace)
    assert found.devices == 882
    assert (found.present.min, round(found.present.mean, 1), found.present.max) == (0, 24.3, 80)
    assert found.empty_steps == 149
    assert [
        round(models.per_step, 3)
        for models in (found.hierfavg, found.mohawk_k2_2, found.mohawk_k2_5, found.mohawk_k2_10)
    ] == [2.873, 3.693, 5.306, 7.206]
    assert [
        round(100 * models.wasted_share, 1)
        for models in (found.hierfavg, found.mohawk_k2_2, found.mohawk_k2_5, found.mohawk_k2_10)
    ] == [88.1, 84.8, 78.1, 70.3]
    assert (found.steps_per_device.min, found.steps_per_device.median, found.steps_per_device.max) == (
        1,
        16,
        155,
    )
    assert found.gap_steps.median == 14
    assert 0.65 < found.ap_change_rate < 0.75
