"""The recipe on real check-ins: New York, 17.5 km, 744 hours from 17 April 2012. Skips without the file."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from roambench.mobility.association import NearestAp
from roambench.mobility.outages import empty_runs, marked_outages
from roambench.mobility.projection import Box
from roambench.mobility.readers import READERS
from roambench.mobility.readers.opening import read_files
from roambench.mobility.recipe import Recipe, build_trace
from roambench.mobility.statistics import trace_statistics
from roambench.mobility.trace import Trace

RECIPE = Recipe(box=Box.square(40.7350, -73.9900), start_utc_s=1_334_620_800)
SEEDS = (42, 182, 392)

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def traced(nyc_checkins):
    fixes, _ = read_files(READERS.load("checkins"), [nyc_checkins], step_s=3600)
    made: dict[tuple[tuple[str, object], ...], Trace] = {}

    def trace(**changes: object) -> Trace:
        key = tuple(sorted(changes.items()))
        if key not in made:
            made[key] = build_trace(fixes, replace(RECIPE, **changes))
        return made[key]

    return trace


def test_882_devices_are_there_0_to_80_at_a_time(traced):
    trace = traced()
    present = np.bincount(trace.step, minlength=744)
    assert len(trace.device_names) == 882
    assert (present.min(), round(present.mean(), 1), present.max()) == (0, 24.3, 80)
    hours = np.bincount(trace.device)
    assert np.quantile(hours, (0, 0.25, 0.5, 0.75, 1)).tolist() == [1, 7, 16, 28, 155]


def test_149_empty_hours_in_15_runs_are_marked_as_outages(traced):
    trace = traced(outage="mark")
    runs = empty_runs(np.bincount(trace.step, minlength=744))
    assert (len(runs), sum(length for _, length in runs), max(length for _, length in runs)) == (15, 149, 41)
    assert marked_outages(trace) == runs
    counts = trace.provenance["counts"]
    assert (counts["empty_runs"], counts["outage_steps"], counts["quiet_steps"]) == (15, 149, 0)


def test_the_one_hour_that_is_short_and_at_night_hangs_on_how_its_hour_of_the_day_is_averaged(traced):
    present = np.bincount(traced().step, minlength=744)
    lone = [first for first, length in empty_runs(present) if length == 1]
    assert lone == [94, 151]  # 22 h UTC, and 7 h UTC: 3 o'clock local time
    at_three = present[7::24]
    assert round(float(at_three.mean()), 2) == 3.81  # of 31 nights 11 in outages: by this it were no outage
    assert round(float(at_three[at_three > 0].mean()), 2) == 5.90


def test_without_the_outages_595_steps_are_left_with_1_to_80_devices(traced):
    trace = traced(outage="drop")
    present = np.bincount(trace.step, minlength=trace.steps)
    assert (trace.steps, present.min(), present.max(), present.sum()) == (595, 1, 80, 18_054)
    assert round(float(present.mean()), 1) == 30.3


@pytest.mark.parametrize(
    ("seed", "median_m", "p90_km", "most_km", "change", "most_occupied", "together", "busiest"),
    [
        (42, 280, 1.28, 6.8, 0.69, 57, 9, 0.038),
        (182, 303, 1.23, 5.8, 0.70, 54, 8, 0.037),
        (392, 253, 1.15, 5.9, 0.69, 50, 8, 0.028),
    ],
)
def test_100_aps_give_the_known_distances_and_changes(
    traced, seed, median_m, p90_km, most_km, change, most_occupied, together, busiest
):
    """Published: median 253-303 m, p90 1.15-1.28 km, most 5.8-6.8 km; 69-70 % change; 23 APs of at most
    50-57 occupied, by 1.3 devices of at most 8-9; the busiest has 2.8-3.8 %."""
    found = trace_statistics(traced(seed=seed))
    assert found.aps == 100
    assert round(found.nearest_m.median) == median_m
    assert round(found.nearest_m.p90 / 1e3, 2) == p90_km
    assert round(found.nearest_m.max / 1e3, 1) == most_km
    assert round(found.ap_change_rate, 2) == change
    assert (round(found.occupied_aps.mean), found.occupied_aps.max) == (23, most_occupied)
    assert round(found.devices_per_occupied_ap.mean, 1) == 1.3
    assert found.devices_per_occupied_ap.max == together
    assert round(found.busiest_ap_share, 3) == busiest
    assert (found.gap_steps.median, round(found.gap_steps.mean, 1)) == (14.0, 28.5)


def test_other_draws_of_aps_from_the_same_places_give_much_the_same(traced):
    for draw in ("pcg64_text", "mohawk"):
        figures = [trace_statistics(traced(seed=seed, ap_draw=draw)) for seed in SEEDS]
        assert all(253 * 0.9 < found.nearest_m.median < 303 * 1.1 for found in figures)
        assert all(0.675 < found.ap_change_rate < 0.70 for found in figures)
        assert all(22 < found.occupied_aps.mean < 24 for found in figures)
        assert len({found.nearest_m.median for found in figures}) == 3
    # The order of earlier versions, from which the published tables were computed.
    assert round(trace_statistics(traced(seed=42, ap_draw="pcg64_text")).nearest_m.median, 1) == 326.5


def test_degrees_change_the_ap_of_about_one_fix_in_ten(traced):
    changed = [
        float((NearestAp(traced(seed=seed)).aps != NearestAp(traced(seed=seed, metric="degrees")).aps).mean())
        for seed in SEEDS
    ]
    assert all(0.075 < share < 0.125 for share in changed)
    assert 0.08 < float(np.mean(changed)) < 0.11


def test_who_is_held_an_hour_is_there_an_hour_longer(traced):
    seen, held = traced(), traced(presence="hold:1")
    assert held.device_names == seen.device_names
    before = {
        (step + 1, device) for step, device in zip(seen.step.tolist(), seen.device.tolist(), strict=True)
    }
    both = before | set(zip(seen.step.tolist(), seen.device.tolist(), strict=True))
    assert set(zip(held.step.tolist(), held.device.tolist(), strict=True)) == {
        pair for pair in both if pair[0] < 744
    }


def test_who_never_leaves_is_there_all_month(traced):
    assert len(traced(presence="always").step) == 744 * 882
