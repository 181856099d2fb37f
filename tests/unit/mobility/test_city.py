from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from roambench.contract.errors import ConfigError
from roambench.mobility.files import content_hash
from roambench.mobility.outages import marked_outages
from roambench.mobility.paper import CHECKIN_TARGETS, PAPER_TARGETS
from roambench.mobility.statistics import trace_statistics
from roambench.mobility.walks import GENERATORS
from roambench.mobility.walks.city import awake, city
from roambench.mobility.walks.city_parameters import CityParameters

SMALL = CityParameters(devices=60, steps=96, places=300, aps=12)


@pytest.fixture(scope="module")
def mohawk():
    return city(CityParameters(), 42)


@pytest.mark.parametrize("seed", [42, 182, 392])
@pytest.mark.parametrize(("preset", "targets"), [("mohawk", PAPER_TARGETS), ("checkins", CHECKIN_TARGETS)])
def test_every_statistic_of_a_preset_lies_within_15_percent_of_its_target(preset, targets, seed):
    found = trace_statistics(GENERATORS.load("city").generate(seed, {"preset": preset}))
    far = {target.label: target.deviation(found) for target in targets}
    assert {label: round(off, 3) for label, off in far.items() if abs(off) > 0.15} == {}


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "targets"), [("mohawk", PAPER_TARGETS), ("checkins", CHECKIN_TARGETS)])
def test_over_the_seeds_every_statistic_is_centred_on_its_target(preset, targets):
    row = GENERATORS.load("city")
    found = [
        trace_statistics(row.generate(seed, {"preset": preset})) for seed in (42, 182, 392, *range(1, 10))
    ]
    means = {
        target.label: target.off(float(np.mean([target.ours(one) for one in found]))) for target in targets
    }
    assert {label: round(off, 3) for label, off in means.items() if abs(off) > 0.15} == {}


def test_the_default_city_is_the_preset_of_the_paper(mohawk):
    assert content_hash(mohawk) == content_hash(GENERATORS.load("city").generate(42, {"preset": "mohawk"}))
    found = trace_statistics(mohawk)
    assert 10 <= found.empty_steps <= 60  # sometimes none, at night
    night, afternoon = min(found.hour_profile), np.mean(found.hour_profile[12:18])
    assert night < 2 < 50 < afternoon


def test_the_outages_of_a_city_are_holes_that_its_trace_marks():
    parameters = {"preset": "checkins", "devices": 60, "steps": 240, "outages": 4, "outage_steps": 31}
    trace = GENERATORS.load("city").generate(1, parameters)
    runs = marked_outages(trace)
    assert (len(runs), sum(length for _, length in runs)) == (4, 31)
    for (first, length), (after, _) in pairwise(runs):
        assert first + length < after
    present = np.bincount(trace.step, minlength=240)
    for first, length in runs:
        assert present[first : first + length].sum() == 0
    found = trace_statistics(trace)
    assert (found.outages, found.outage_steps) == (4, 31)
    assert found.empty_steps > 31  # nights in which none of 60 checks in
    assert found.steps_per_device.min >= 1


def test_a_preset_is_a_start_from_which_single_parameters_may_differ():
    row = GENERATORS.load("city")
    assert row.settings({"preset": "checkins", "devices": 5})["devices"] == 5
    assert row.settings({"preset": "checkins"})["devices"] == 882
    assert row.settings({"devices": 5}) == {"devices": 5}
    with pytest.raises(ConfigError, match="expected a preset of mohawk, checkins, got 'austin'"):
        row.generate(1, {"preset": "austin"})
    with pytest.raises(ConfigError, match="unknown parameter 'preset'"):
        GENERATORS.load("ring-walk").generate(1, {"preset": "mohawk"})


def test_positions_stay_in_the_box(mohawk):
    for column in (mohawk.x_m, mohawk.y_m, mohawk.place_x_m, mohawk.place_y_m):
        assert column.min() >= 0
        assert column.max() <= 17_500


def test_devices_are_ranked_by_the_steps_they_are_present(mohawk):
    hours = np.bincount(mohawk.device, minlength=1000)
    assert (np.diff(hours) <= 0).all()
    assert sorted(mohawk.device_names) == [f"d{number:04d}" for number in range(1000)]


def test_equal_seeds_give_equal_cities_and_others_do_not():
    assert content_hash(city(SMALL, 1)) == content_hash(city(SMALL, 1))
    assert content_hash(city(SMALL, 1)) != content_hash(city(SMALL, 2))


@pytest.mark.parametrize("presence", ["routine", "checkins"])
def test_more_devices_do_not_change_what_the_first_ones_do(presence):
    small = replace(SMALL, presence=presence)
    few, many = city(small, 1), city(replace(small, devices=90), 1)
    for name in few.device_names:
        tracks = []
        for trace in (few, many):
            rows = trace.device == trace.device_names.index(name)
            tracks.append((trace.step[rows].tolist(), trace.x_m[rows].tolist(), trace.y_m[rows].tolist()))
        assert tracks[0] == tracks[1]


def test_everyone_is_always_present_where_asked_and_still_moves():
    trace = city(replace(SMALL, presence="always"), 1)
    assert [len(trace.present(step)) for step in range(96)] == [60] * 96
    x_m = trace.x_m.reshape(96, 60)
    moved = (np.diff(x_m, axis=0) != 0).mean()
    assert 0.2 < moved < 0.8
    asleep = awake(SMALL) < 0.03
    assert asleep.any()
    assert (np.ptp(x_m[asleep], axis=0) == 0).mean() > 0.9  # at night nearly everyone is at home


def test_whoever_is_seen_tends_to_be_at_the_same_place_an_hour_later(mohawk):
    order = np.lexsort((mohawk.step, mohawk.device))
    next_hour = (np.diff(mohawk.device[order]) == 0) & (np.diff(mohawk.step[order]) == 1)
    same_place = (np.diff(mohawk.x_m[order]) == 0) & (np.diff(mohawk.y_m[order]) == 0)
    assert same_place[next_hour].mean() > 0.55


def test_the_day_follows_local_time():
    by_hour = awake(replace(SMALL, steps=24, start_utc_s=0, utc_offset_h=0.0))
    assert int(np.argmin(by_hour)) in (3, 4)
    shifted = awake(replace(SMALL, steps=24, start_utc_s=0, utc_offset_h=-5.0))
    assert np.allclose(np.roll(by_hour, 5), shifted)


def test_the_table_makes_the_city_from_named_parameters():
    row = GENERATORS.load("city")
    trace = row.generate(3, {"devices": 5, "steps": 4, "aps": 2, "places": 9, "presence": "always"})
    assert (len(trace.device_names), trace.steps, len(trace.ap_names), len(trace.step)) == (5, 4, 2, 20)
    assert trace.provenance["seed"] == 3


def test_all_impossible_parameters_are_told_at_once():
    with pytest.raises(ConfigError) as caught:
        CityParameters(devices=0, linger=1.5, stay=0.7, pause=0.7, outing_tail=1.0, places=10)
    assert len(caught.value.problems) == 5
    with pytest.raises(ConfigError, match="unknown parameter 'device'"):
        GENERATORS.load("city").generate(1, {"device": 5})
