"""What a selection takes a training to cost, and whom FedZero leaves out, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from roambench.contract.phases import Phase
from roambench.energy.energy_value import Energy, total
from roambench.extras.energy_systems.counts import TrainingCosts
from roambench.extras.energy_systems.fedzero import FedZeroParameters, fedzero
from roambench.systems.catalogue import make_system
from roambench.systems.options import SystemOptions
from roambench.systems.system import Candidates, Memory, SpentEnergy


def spent(**joules: float) -> SpentEnergy:
    phases = {Phase(name): Energy(value) for name, value in joules.items()}
    return SpentEnergy(total(phases.values()), phases)


def offered(step: int, energy: dict[int, SpentEnergy], memory: Memory, **more: object) -> Candidates:
    count = len(energy)
    return Candidates(
        step, 3, tuple(energy), (0,) * count, {}, -1, (1.0,) * count, memory=memory, energy=energy, **more
    )  # type: ignore[arg-type]


def test_a_training_costs_its_work_and_counts_once_its_joules_are_seen() -> None:
    memory: Memory = {}
    # Device 0 idles for a day between trainings; device 1's second order fails; device 2 drains late.
    seen = [
        ({}, {}, {}),
        ({"train": 6.0, "upload": 2.0}, {"train": 6.0, "upload": 2.0}, {}),
        ({"train": 6.0, "upload": 2.0, "idle": 9e4}, {"train": 6.0, "upload": 2.0}, {"train": 6.0}),
        ({"train": 12.0, "upload": 4.0, "idle": 9e4}, {"train": 12.0, "upload": 4.0}, {"train": 12.0}),
    ]
    found = []
    for step, row in enumerate(seen):
        costs = TrainingCosts(offered(step, {n: spent(**joules) for n, joules in enumerate(row)}, memory))
        found.append([costs.of(device, 40.0) for device in range(3)])
        memory = costs.kept_with([0, 1, 2] if step == 0 else [1, 2] if step == 1 else [0, 1])
    assert found == [[40.0, 40.0, 40.0], [8.0, 8.0, 40.0], [8.0, 8.0, 6.0], [8.0, 8.0, 6.0]]
    assert costs.ordered.tolist() == [3.0, 4.0, 2.0]


def test_trainings_count_by_their_joules_however_they_come() -> None:
    """Late readings raise what was counted, two arrive at once, an order fails as an estimate is revised."""
    memory: Memory = {}
    seen_j = (0.0, 3.0, 3.1, 9.2, 9.21, 9.21)
    orders = (1, 0, 2, 1, 0, 0)
    counted = []
    for step, (train_j, ordered) in enumerate(zip(seen_j, orders, strict=True)):
        costs = TrainingCosts(offered(step, {0: spent(train=train_j)}, memory))
        counted.append(train_j / costs.of(0, 40.0) if train_j else 0.0)
        memory = costs.kept_with([0] * bool(ordered)) | {"trainings": costs.ordered + max(0, ordered - 1)}
    assert counted == pytest.approx([0.0, 1.0, 1.0, 3.0, 3.0, 3.0])


def test_eafl_does_not_take_an_idle_board_for_a_dear_one() -> None:
    made, memory, full = make_system("eafl", SystemOptions(per_ap=1), {"f": 0.0}), {}, {0: 0.6, 1: 0.5}
    first = made.selection.choose(offered(0, {0: spent(), 1: spent()}, memory, charges=full))
    memory = first.memory | {"trainings": np.ones(2)}
    worked = {0: spent(train=20.0, idle=9e4), 1: spent(train=20.0)}
    assert list(made.selection.choose(offered(9, worked, memory, charges=full)).devices) == [0]


def fedzero_chooses(step: int, devices: int, own: FedZeroParameters, **memory: list[float]) -> list[int]:
    energy = {device: spent() for device in range(devices)}
    seen = {"steps seen": np.full(24, 50.0), "steps present": np.full(24 * devices, 50.0)}
    kept = seen | {name.replace("_", " "): np.array(values) for name, values in memory.items()}
    chosen = fedzero(SystemOptions(), own).selection.choose(offered(step, energy, kept))
    return sorted(chosen.devices)


def test_fedzero_trains_the_others_where_one_device_is_blocked_or_cannot_be_carried() -> None:
    own = FedZeroParameters(clouds=0.0)
    many = [1.0, 1.0, 1.0, 400.0]
    assert fedzero_chooses(12, 4, own, blocked=[0, 0, 0, 1], trainings=many) == [0, 1, 2]
    poor = FedZeroParameters(clouds=0.0, excess_j=100.0, longest_steps=1)
    assert fedzero_chooses(12, 3, poor) == []  # 3 x 40 J
    assert fedzero_chooses(12, 2, poor) == [0, 1]


@pytest.mark.parametrize("step", range(6, 200, 12))
def test_fedzero_has_no_energy_at_sunrise_and_sunset_of_any_day(step: int) -> None:
    assert FedZeroParameters().clear_j(step) == 0.0
    assert fedzero_chooses(step, 1, FedZeroParameters(clients=1)) == []


def test_fedzero_releases_by_any_alpha() -> None:
    own = FedZeroParameters(clouds=0.0, alpha=400.0)
    trainings = [1.0] * 9 + [1.1]  # 0.09 above the mean
    assert 9 in fedzero_chooses(12, 10, own, blocked=[0.0] * 9 + [1.0], trainings=trainings)
