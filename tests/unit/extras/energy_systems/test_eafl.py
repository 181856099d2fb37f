"""EAFL against its rules, computed again from a run's records: movement, batteries, losses."""

from __future__ import annotations

import math

import numpy as np
import pytest

from roambench.contract.errors import ConfigError
from roambench.rounds.records import BatteriesSeen
from roambench.systems.catalogue import make_system
from roambench.systems.options import SystemOptions

CAPACITY_J = 0.05 * 3600.0


def rewards(run, step, here, f, capacity_j):
    """f Util + (1 - f) power of all that are there; and who of them trained before."""
    losses = {}
    for device, at in run.devices.trainings:
        if at < step:
            losses[device] = at, run.devices.samples[device] * math.sqrt(run.devices.losses[device, at])
    before = [device for device in here if device in losses]
    utility = dict.fromkeys(here, 0.0)
    if before:
        ordered = sorted(losses[device][1] for device in before)
        place = 0.95 * (len(ordered) - 1)
        low = math.floor(place)
        high = min(low + 1, len(ordered) - 1)
        most = ordered[low] + (place - low) * (ordered[high] - ordered[low])
        clipped = {device: min(losses[device][1], most) for device in before}
        least, largest = min(clipped.values()), max(clipped.values())
        for device in before:
            share = (clipped[device] - least) / (largest - least) if largest > least else 1.0
            utility[device] = share + math.sqrt(0.1 * math.log(step + 1) / (losses[device][0] + 1))
    found = {}
    for device in here:
        joules, work_j = run.joules()[step][device], run.joules("train", "upload")[step][device]
        times = sum(one == device for one, at in run.devices.trainings if at < step)
        charge = run.charges()[step][device] if run.charges() else 1.0 - joules / capacity_j
        power = charge - (work_j / times / capacity_j if times else 0.0)
        found[device] = f * utility[device] + (1.0 - f) * power
    return found, set(before)


@pytest.mark.parametrize("f", [0.25, 0.0, 1.0])
@pytest.mark.parametrize("batteries", [True, False])
def test_the_devices_of_the_highest_rewards_train_and_some_that_never_did(played, f, batteries) -> None:
    per_ap, capacity_wh = 2, 0.05
    parameters = {"f": f, "exploration": 0.9, "exploration_decay": 0.9, "capacity_wh": capacity_wh}
    run = played("eafl", parameters, batteries=batteries)
    chosen_over_others = 0
    for step, here in run.steps():
        found, before = rewards(run, step, here, f, CAPACITY_J)
        exploring = math.floor(max(0.2, 0.9 * 0.9**step) * per_ap + 0.5)
        trained = run.trained(step)
        for ap in set(here.values()):
            at = [device for device in here if here[device] == ap]
            new = sorted((device for device in at if device not in before), key=lambda one: -found[one])
            old = sorted((device for device in at if device in before), key=lambda one: -found[one])
            of_new = min(len(new), exploring)
            of_old = min(len(old), per_ap - of_new)
            of_new = min(len(new), per_ap - of_old)
            for ranked, count in ((new, of_new), (old, of_old)):
                got = sorted((found[one] for one in ranked if one in trained), reverse=True)
                assert got == pytest.approx([found[one] for one in ranked[:count]])
                chosen_over_others += len(ranked) > count > 0
    assert chosen_over_others > 15
    if batteries:
        assert len({device for record in run.of(BatteriesSeen) for device in record.off}) >= 3


def test_more_is_left_in_the_emptiest_battery_than_by_utility_alone(played) -> None:
    def least(f: float) -> float:
        charges = np.array(list(played("eafl", {"f": f}).charges().values()))
        return float(charges.min(axis=1).mean())

    assert least(0.0) > least(1.0)


def test_numbers_out_of_range_are_named() -> None:
    with pytest.raises(ConfigError, match=r"f: expected a share of 0 to 1, got 2"):
        make_system("eafl", SystemOptions(), {"f": 2.0})
    with pytest.raises(ConfigError, match=r"capacity_wh: expected a number above 0, got 0"):
        make_system("eafl", SystemOptions(), {"capacity_wh": 0.0})
