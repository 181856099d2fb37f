"""A sweep visits every point in an order that a drifting board cannot spoil."""

from __future__ import annotations

from collections import Counter

import pytest

from roambench.contract.errors import ConfigError
from roambench.energy.links.sweep import SweepPoint, SweepSettings, plan_sweep, sweep_s

SMALL = SweepSettings((1_000_000, 4_000_000), (2.0, 20.0), windows=3, idle_s=4.0)


def test_every_point_is_visited_once_per_round_and_every_second_round_runs_backwards():
    plan = plan_sweep(SMALL, seed=1, device=0)
    rounds = [[w.point for w in plan[at : at + 8]] for at in (0, 8, 16)]
    assert all(set(visited) == set(SMALL.points()) for visited in rounds)
    assert rounds[1] == rounds[0][::-1]
    assert rounds[2] not in (rounds[0], rounds[1])
    assert [w.index for w in plan] == list(range(24))
    assert Counter(w.point.direction for w in plan) == {"up": 12, "down": 12}


def test_the_order_is_keyed_by_seed_and_device():
    assert plan_sweep(SMALL, 1, 0) == plan_sweep(SMALL, 1, 0)
    assert plan_sweep(SMALL, 1, 0) != plan_sweep(SMALL, 1, 1)
    assert plan_sweep(SMALL, 1, 0) != plan_sweep(SMALL, 2, 0)


def test_a_window_lasts_ten_seconds_or_as_many_transfers_as_are_allowed():
    settings = SweepSettings(repeats=20)
    # 1 MB at 2 Mbit/s is 4 s, at 20 it is 0.4 s; 16 MB at 2 is 64 s.
    assert settings.repeats_at(SweepPoint("up", 1_000_000, 2.0)) == 3
    assert settings.repeats_at(SweepPoint("up", 1_000_000, 20.0)) == 20
    assert settings.repeats_at(SweepPoint("down", 16_000_000, 2.0)) == 1
    assert settings.repeats_at(SweepPoint("down", 1_250_000, 2.0)) == 2  # 5 s each: exactly ten


def test_the_duration_is_told_beforehand():
    one = SweepSettings((1_000_000,), (2.0, 20.0), windows=1, idle_s=4.0, repeats=10)
    # each way 3 x 4 s and 10 x 0.4 s; five idle stretches around four windows
    assert sweep_s(plan_sweep(one, 0, 0), 4.0) == pytest.approx(2 * (12.0 + 4.0) + 5 * 4.0)


def test_no_window_of_the_default_sweep_is_too_short_to_count():
    assert SweepSettings().too_short() == []


def test_windows_that_will_not_count_are_known_beforehand_with_the_options_that_mend_it():
    """1 MB at 40 Mbit/s is 0.2 s: fifty of them are ten seconds."""
    few = SweepSettings((1_000_000, 4_000_000), (2.0, 40.0), repeats=10)
    assert [(p.size_bytes, p.mbit_s) for p in few.too_short()] == [(1_000_000, 40.0), (4_000_000, 40.0)] * 2
    assert few.remedy() == "--repeats 50"
    assert SweepSettings((1_000_000,), (2.0, 40.0), min_s=8.0).remedy() == "--min-s 10 --repeats 50"
    assert SweepSettings((1_000_000, 4_000_000), (2.0, 40.0), repeats=50).too_short() == []


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"sizes_bytes": ()}, "sizes"),
        ({"sizes_bytes": (100,)}, "sizes"),
        ({"rates_mbit_s": (5.0,)}, "rates"),
        ({"rates_mbit_s": (5.0, 5.0)}, "rates"),
        ({"rates_mbit_s": (0.0, 5.0)}, "rates"),
        ({"windows": 0}, "windows"),
        ({"min_s": 0.0}, "min-s"),
        ({"repeats": 0}, "repeats"),
        ({"idle_s": 1.0}, "idle-s"),
    ],
)
def test_settings_that_measure_nothing_are_refused(wrong, named):
    with pytest.raises(ConfigError, match=f"calibration: {named} is"):
        SweepSettings(**wrong)
