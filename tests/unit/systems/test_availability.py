"""The forecast of who will be there, counted on paper, and MOHAWK's option that is led by it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from roambench.contract.errors import ConfigError
from roambench.systems.availability import PresenceForecast
from roambench.systems.catalogue import make_system
from roambench.systems.options import SystemOptions
from roambench.systems.system import Candidates

#: One row per device, one letter per step: "x" while it is there.
THERE = ("x-x-x-", "xxxx--", "---x-x")


def offered(step, memory):
    devices = tuple(device for device, row in enumerate(THERE) if row[step] == "x")
    return Candidates(step, 1, devices, (0,) * len(devices), {}, -1, (1.0,) * len(devices), memory)


def after(steps: int, period: int) -> PresenceForecast:
    memory = {}
    for step in range(steps):
        known = PresenceForecast.at(offered(step, memory), period)
        memory = known.memory
    return known


def test_chances_are_shares_of_the_steps_at_the_same_place_of_the_period():
    known = after(5, 2)
    # Steps 0, 2, 4 and 1, 3 were seen. Device 0 was there at all even ones, device 1 at 0, 1, 2, 3.
    overall = (4 / 7, 5 / 7, 2 / 7)
    assert known.chance(0, 6) == pytest.approx((3 + overall[0]) / 4)
    assert known.chance(0, 7) == pytest.approx((0 + overall[0]) / 3)
    assert known.chance(1, 6) == pytest.approx((2 + overall[1]) / 4)
    assert known.chance(2, 5) == pytest.approx((1 + overall[2]) / 3)
    away = (1 - known.chance(0, 5)) * (1 - known.chance(0, 6))
    assert known.chance_within(0, 4, 2) == pytest.approx(1 - away)
    assert known.chance_within(0, 4, 0) == 0.0


def test_what_comes_later_changes_no_earlier_forecast():
    before = [after(steps, 3).chance(0, steps) for steps in range(1, 6)]
    assert [after(steps, 3).chance(0, steps) for steps in range(1, 6)] == before
    assert len(set(before)) > 2


def test_mohawk_trains_those_that_are_likely_to_come_back_before_the_cloud_aggregates():
    system = make_system("mohawk", SystemOptions(k2=3), {"least_chance": 0.7, "period_steps": 2})
    memory, chosen = {}, []
    for step in range(5):
        answer = system.selection.choose(offered(step, memory))
        memory = answer.memory
        chosen.append(tuple(answer.devices))
    by_hand = []
    for step in range(5):
        there = [device for device, row in enumerate(THERE) if row[step] == "x"]
        likely = []
        for device in there:
            seen = [THERE[device][s] == "x" for s in range(step + 1)]
            overall = (sum(seen) + 1) / (step + 3)
            away = []
            for later in range(step + 1, step - step % 3 + 3 + 1):
                alike = [there for s, there in enumerate(seen) if s % 2 == later % 2]
                away.append(1 - (sum(alike) + overall) / (len(alike) + 1))
            if 1 - math.prod(away) >= 0.7:
                likely.append(device)
        by_hand.append(tuple(likely))
    assert chosen == by_hand
    assert any(chosen)
    assert any(set(one) < {d for d, row in enumerate(THERE) if row[s] == "x"} for s, one in enumerate(chosen))


def test_mohawk_spares_devices_whose_batteries_are_low():
    system = make_system("mohawk", SystemOptions(), {"least_charge": 0.3})
    with_batteries = replace(offered(3, {}), charges={1: 0.29, 2: 0.3})
    assert tuple(system.selection.choose(with_batteries).devices) == (2,)
    assert tuple(system.selection.choose(offered(3, {})).devices) == (1, 2)


def test_mohawk_draws_a_share_of_those_that_may_train():
    system = make_system("mohawk", SystemOptions(), {"share": 0.25, "least_charge": 0.3})
    many = tuple(range(400))
    step = Candidates(3, 1, many, (0,) * 400, {}, -1, (5.0,) * 400, charges=dict.fromkeys(range(200), 0.2))
    trained = system.selection.choose(step).devices
    assert min(trained) >= 200
    assert 30 <= len(trained) <= 70
    assert system.selection.choose(step).devices == trained
    assert system.selection.choose(replace(step, step=4)).devices != trained


def test_without_the_options_everyone_trains():
    system = make_system("mohawk", SystemOptions())
    assert tuple(system.selection.choose(offered(3, {}))) == (1, 2)


def test_numbers_out_of_range_are_named():
    with pytest.raises(ConfigError, match=r"least_chance: expected a share of 0 to 1, got 2"):
        make_system("mohawk", SystemOptions(), {"least_chance": 2.0})
    with pytest.raises(ConfigError, match=r"least_charge: expected a share of 0 to 1, got -1"):
        make_system("mohawk", SystemOptions(), {"least_charge": -1.0})
    with pytest.raises(ConfigError, match=r"period_steps: expected 1 or more, got 0"):
        make_system("mohawk", SystemOptions(), {"period_steps": 0})
