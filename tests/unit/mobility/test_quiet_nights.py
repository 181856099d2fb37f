"""Empty steps of people who come by chance, at rates that follow the hour of the day: nights are no holes.

The worlds are Poisson processes of published profiles, drawn here without any code of the project.
"""

from __future__ import annotations

import numpy as np
import pytest

from roambench.mobility.outages import empty_runs, outage_runs

HOUR_S = 3600.0
DAYS = 31
#: Gowalla in New York, devices an hour by UTC hour: 13.6 on average, and of 31 days 5, 11, 20, 21 and 5
#: without a device at 6 to 10 o'clock, which are 2 to 6 at night there.
GOWALLA = [
    *(21.0, 19.0, 16.0, 13.0, 8.0, 4.0, 1.82, 1.04, 0.44, 0.39, 1.82, 4.0),
    *(9.0, 14.0, 15.0, 16.0, 19.0, 20.0, 19.0, 18.0, 20.0, 24.0, 26.0, 24.0),
]
#: Foursquare in New York: devices an hour by local hour, outages included (published aggregates and what lies
#: between them).
FOURSQUARE = [
    *(13.0, 9.0, 6.5, 3.8, 4.2, 4.4, 11.5, 24.0, 41.0, 48.0, 36.0, 27.0, 30.0, 33.0, 31.0, 27.5, 26.0),
    *(34.0, 41.5, 36.0, 26.0, 25.0, 20.0, 17.0),
]


def world(profile: list[float], seed: int, share: float = 1.0) -> np.ndarray:
    """Devices present in every hour of a month."""
    return np.random.default_rng(seed).poisson(np.tile(profile, DAYS) * share)


@pytest.mark.parametrize(
    ("profile", "share", "empty"),
    [
        (GOWALLA, 1.0, 60),
        (GOWALLA, 0.1, 260),
        (FOURSQUARE, 0.1, 130),
        ([0.5] * 24, 1.0, 430),
        ([0.05] * 24, 1.0, 690),
    ],
)
def test_nobody_coming_is_hardly_ever_called_a_hole(profile: list[float], share: float, empty: int) -> None:
    months = [world(profile, seed, share) for seed in range(100)]
    assert np.mean([(month == 0).sum() for month in months]) > empty
    called = [bool(outage_runs(month, HOUR_S)) for month in months]
    assert sum(called) <= 25  # each trace has at most half a run so unlikely to expect


@pytest.mark.parametrize(("profile", "share"), [(GOWALLA, 1.0), (FOURSQUARE, 1.0), (FOURSQUARE, 0.3)])
@pytest.mark.parametrize("hours", [1, 8, 41])
def test_a_recorder_that_fails_by_day_leaves_a_hole(profile: list[float], share: float, hours: int) -> None:
    for seed in range(20):
        month = world(profile, seed, share)
        first = 15 * 24 + 16
        month[first : first + hours] = 0
        (hole,) = [(at, length) for at, length in outage_runs(month, HOUR_S) if at <= first < at + length]
        assert hole[1] >= hours


def test_holes_in_half_of_all_days_do_not_make_each_other_usual() -> None:
    month = world(FOURSQUARE, 1)
    for day in range(0, DAYS, 2):
        month[24 * day + 8 : 24 * day + 20] = 0
    assert len(outage_runs(month, HOUR_S)) == 16


def test_minutes_and_days_as_steps_ask_the_same_of_a_run() -> None:
    rng = np.random.default_rng(3)
    minutes = rng.poisson(np.repeat(np.tile(GOWALLA, 5), 60) / 60)  # most minutes are empty
    assert len(empty_runs(minutes)) > 500
    assert len(outage_runs(minutes, 60.0)) <= 1
    minutes[2 * 1440 + 900 : 2 * 1440 + 1260] = 0  # six hours by day
    assert any(first <= 2 * 1440 + 900 and length >= 360 for first, length in outage_runs(minutes, 60.0))
    days = rng.poisson(30.0, 60)
    days[[20, 21, 40]] = 0
    assert outage_runs(days, 86_400.0) == ((20, 2), (40, 1))
