"""FedZero against its program, solved again by trying every set of devices, from a run's records."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
import scipy

from roambench.contract.draws import generator
from roambench.contract.errors import ConfigError
from roambench.rounds.records import BatteriesSeen, StepOpened
from roambench.systems.catalogue import make_system
from roambench.systems.options import SystemOptions

WANTED, LONGEST, PERIOD, EXCESS_J, CLOUDS, ASSUMED_J = 2, 3, 12, 60.0, 0.6, 25.0
PARAMETERS = {
    "clients": WANTED,
    "longest_steps": LONGEST,
    "period_steps": PERIOD,
    "excess_j": EXCESS_J,
    "clouds": CLOUDS,
    "training_j": ASSUMED_J,
}


def forecast(run, step, device, later):
    """The chance that the device is there at a later step, by the steps up to now."""
    there = {record.step: set(record.devices) for record in run.of(StepOpened) if record.step <= step}
    overall = (sum(device in there[s] for s in there) + 1) / (len(there) + 2)
    alike = [s for s in there if s % PERIOD == later % PERIOD]
    return (sum(device in there[s] for s in alike) + overall) / (len(alike) + 1)


def excess_j(seed, ap, step):
    """The panel's joules at this step and the next ones, with the clouds of now."""
    clouds = 1.0 - CLOUDS * generator(seed, "fedzero clouds", ap, step).random()
    return [
        EXCESS_J * clouds * max(0.0, -math.cos(2 * math.pi * later / PERIOD))
        for later in range(step, step + LONGEST)
    ]


def fits(group, needed_j, spare, ap_of, joules, steps):
    """Whether every device of the group gets its energy within these steps: a linear program."""
    shares = len(group) * steps
    whole = np.zeros((len(group), shares))
    for place in range(len(group)):
        whole[place, place * steps : (place + 1) * steps] = 1.0
    limits, bounds = [], []
    for ap in {ap_of[device] for device in group}:
        for t in range(steps):
            row = np.zeros(shares)
            for place, device in enumerate(group):
                if ap_of[device] == ap:
                    row[place * steps + t] = needed_j[device]
            limits.append(row)
            bounds.append(joules[ap][t])
    upper = [(0.0, spare[device][t]) for device in group for t in range(steps)]
    found = scipy.optimize.linprog(
        np.zeros(shares), np.array(limits), bounds, whole, np.ones(len(group)), bounds=upper
    )
    return found.status == 0


@pytest.mark.parametrize("seed", [3, 4])
def test_the_most_useful_devices_train_that_the_excess_energy_carries(played, seed) -> None:
    run = played("fedzero", PARAMETERS, seed=seed, devices=7, aps=2)
    blocked: set[int] = set()
    count = dict.fromkeys(range(7), 0)
    met: set[int] = set()
    rounds, longer, held_back = 0, 0, 0
    for step, here in run.steps():
        met |= here.keys()
        mean = sum(count[device] for device in met) / len(met) if met else 0.0
        for device in sorted(blocked):
            more = count[device] - mean
            chance = 1.0 if more <= 0 else min(1.0, 1.0 / more)
            if generator(seed, "fedzero release", device, step).random() < chance:
                blocked.discard(device)
        last = {device: at for device, at in run.devices.trainings if at < step}
        utility = {
            device: run.devices.samples[device] * math.sqrt(run.devices.losses[device, last[device]])
            for device in here
            if device in last
        }
        most = max(utility.values(), default=1.0)
        utility |= {device: most for device in here if device not in utility}
        joules = run.joules("train", "upload")[step]
        needed = {one: joules[one] / count[one] if count[one] else ASSUMED_J for one in here}
        spare = {
            device: [1.0, *(forecast(run, step, device, step + t) for t in range(1, LONGEST))]
            for device in here
        }
        power = {ap: excess_j(seed, ap, step) for ap in range(2)}
        free = [device for device in here if device not in blocked and power[here[device]][0] > 0.0]
        held_back += len(free) < len(here)
        carried = [one for one in free if fits([one], needed, spare, here, power, LONGEST)]
        wanted, best = min(WANTED, len(carried)), None
        for steps in range(1, LONGEST + 1):
            worth = [
                sum(utility[device] for device in group)
                for group in combinations(free, wanted)
                if group and fits(group, needed, spare, here, power, steps)
            ]
            if worth:
                best, longer = max(worth), longer + (steps > 1)
                break
        trained = run.trained(step)
        if best is None:
            assert not trained
        else:
            assert len(trained) == wanted
            assert trained <= set(free)
            assert sum(utility[device] for device in trained) == pytest.approx(best)
            assert fits(sorted(trained), needed, spare, here, power, steps)
            rounds += 1
        blocked |= trained
        for device in trained:
            count[device] += 1
    assert 6 < rounds < 30
    assert longer >= 2
    assert held_back >= 2
    assert run.of(BatteriesSeen)


def test_nobody_trains_at_night(played) -> None:
    run = played("fedzero", {"excess_j": 1e6, "period_steps": 12})
    trained = {step for step, _ in run.steps() if run.trained(step)}
    assert trained <= {step for step, _ in run.steps() if 3 < step % 12 < 9}
    assert len(trained) > 9


def test_numbers_out_of_range_are_named() -> None:
    for number, message in (
        ({"clients": 0}, "clients: expected 1 or more, got 0"),
        ({"excess_j": 0.0}, r"excess_j: expected a number above 0, got 0"),
        ({"clouds": 1.5}, r"clouds: expected a share of 0 to 1, got 1.5"),
        ({"alpha": -1.0}, r"alpha: expected 0 or more, got -1"),
    ):
        with pytest.raises(ConfigError, match=message):
            make_system("fedzero", SystemOptions(), number)
