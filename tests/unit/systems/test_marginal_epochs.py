"""Epochs by marginal accuracy per joule: by hand, and where a training gains a power of its epochs."""

from __future__ import annotations

import math
from typing import Any

import pytest

from roambench.contract.errors import ConfigError
from roambench.contract.phases import Phase
from roambench.energy.energy_value import Energy, total
from roambench.systems.catalogue import make_system
from roambench.systems.marginal_epochs import marginal_epochs
from roambench.systems.options import SystemOptions
from roambench.systems.system import Candidates, Memory, SpentEnergy

#: Joules of an epoch, and of a training's transfers, by device; other phases count as nothing.
EPOCH_J, LINK_J = (1.0, 2.0, 0.5), (6.0, 6.0, 8.0)


def spent(trainings: int, epochs: int, device: int) -> SpentEnergy:
    phases = {
        Phase.DOWNLOAD: Energy(trainings * LINK_J[device] / 3),
        Phase.TRAIN: Energy(epochs * EPOCH_J[device]),
        Phase.UPLOAD: Energy(trainings * LINK_J[device] * 2 / 3),
        Phase.IDLE: Energy(1000.0),
    }
    return SpentEnergy(total(phases.values()), phases if trainings else {})


def offered(step: int, energy: dict[int, SpentEnergy], memory: Memory, **more: Any) -> Candidates:
    devices = tuple(energy)
    sync = more.pop("last_sync_step", -1)
    return Candidates(step, 1, devices, (0,) * 3, {}, sync, (1.0,) * 3, memory=memory, energy=energy, **more)


def test_before_any_score_the_exponent_is_one_half_and_what_is_unknown_takes_the_usual() -> None:
    fresh = {device: spent(0, 0, device) for device in range(3)}
    first, memory = marginal_epochs(offered(0, fresh, {}), (0, 1), 3, 10)
    assert first == {0: round(3 / math.sqrt(2)), 1: round(3 / math.sqrt(2))}
    known = {0: spent(1, 2, 0), 1: spent(1, 2, 1), 2: spent(0, 0, 2)}
    second, _ = marginal_epochs(offered(1, known, memory), (0, 1, 2), 3, 10)
    # e = c / t: 6 and 3, and fewer of them by the square root of 2.
    assert second == {0: 4, 1: 2, 2: 2}
    few, _ = marginal_epochs(offered(1, known, memory), (0,), 3, 3)
    assert few == {0: 3}


def test_the_exponent_is_learned_from_scores_alone() -> None:
    a, k2, accuracy = 0.8, 5, 0.0
    memory: Memory = {}
    trainings, epochs, gained = [0] * 3, [0] * 3, 0.0
    sync = -1
    for step in range(401):
        if step and step % k2 == 0:
            sync = step  # aggregates what was trained before this step; its score comes after it
            pending, gained = gained, 0.0
        energy = {device: spent(trainings[device], epochs[device], device) for device in range(3)}
        now = offered(step, energy, memory, last_sync_step=sync, accuracy=accuracy)
        found, memory = marginal_epochs(now, (0, 1, 2), 1, 40)
        for device, count in found.items():
            trainings[device] += 1
            epochs[device] += count
            gained += 1e-5 * count**a
        if step == sync:
            accuracy += pending
    # 79 windows are scored, 39 of them of the kind that has fewer.
    learned = (10 * 0.5 + 39 * a) / 49
    for device, count in found.items():
        best = learned / (1 - learned) * LINK_J[device] / EPOCH_J[device]
        ratio = count / best / math.sqrt(2.0 if count > best else 0.5)
        assert 0.75 < ratio < 1.25, (count, best)
    assert found[2] > found[0] > found[1]


def test_mistakes_are_told() -> None:
    with pytest.raises(ConfigError, match=r"most_epochs: expected 0 or more, got -1"):
        make_system("mohawk", SystemOptions(), {"most_epochs": -1})
    with pytest.raises(ConfigError, match=r"most_epochs: expected 0 beside learning\.local_steps"):
        make_system("mohawk", SystemOptions(local_steps=5), {"most_epochs": 4})
    assert not make_system("mohawk", SystemOptions()).selection.sees_energy
