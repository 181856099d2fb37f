"""Uploads that are coded where it saves joules, by hand."""

from __future__ import annotations

from roambench.contract.phases import Phase
from roambench.energy.energy_value import Energy, total
from roambench.systems.catalogue import make_system
from roambench.systems.coded_uploads import costly_to_code
from roambench.systems.options import SystemOptions
from roambench.systems.system import Candidates, Memory, SpentEnergy

#: Joules of a coded upload (coding, transfer) and of a plain one, by device: near ones lose by coding.
CODED_J = {0: (3.0, 0.5), 1: (3.0, 2.0), 2: (3.0, 1.0)}
PLAIN_J = {0: 2.0, 1: 8.0, 2: 3.9}


def test_each_device_does_what_costs_it_less_once_both_are_known() -> None:
    spent: dict[int, dict[Phase, float]] = {device: {} for device in CODED_J}
    memory: Memory = {}
    plain_at: list[set[int]] = []
    for step in range(40):
        energy = {}
        for device, joules in spent.items():
            phases = {phase: Energy(value) for phase, value in joules.items()} | {Phase.TRAIN: Energy(99.0)}
            energy[device] = SpentEnergy(total(phases.values()), phases)
        offered = Candidates(step, 1, (0, 1, 2), (0,) * 3, {}, -1, (1.0,) * 3, memory=memory, energy=energy)
        answer = costly_to_code(offered)
        memory = answer.memory
        plain_at.append(set(answer.devices))
        for device, joules in spent.items():
            if device in answer.devices:
                joules[Phase.UPLOAD] = joules.get(Phase.UPLOAD, 0.0) + PLAIN_J[device]
            else:
                for phase, more in zip((Phase.ENCODE, Phase.UPLOAD), CODED_J[device], strict=True):
                    joules[phase] = joules.get(phase, 0.0) + more
    # Ten of each kind take turns; then near devices send plain, the far one codes.
    assert plain_at[:4] == [{1}, {0, 2}, {1}, {0, 2}]
    assert plain_at[10:] == [{0, 2}] * 30


def test_an_upload_that_failed_is_not_one_that_cost_nothing() -> None:
    """Device 1's coded uploads never arrive; on virtual devices they have no joules then."""
    spent_j, memory, plain = [0.0, 0.0], {}, list[int]()
    for step in range(60):
        energy = {
            device: SpentEnergy(Energy(joules), {Phase.UPLOAD: Energy(joules)})
            for device, joules in enumerate(spent_j)
        }
        offered = Candidates(step, 1, (0, 1), (0, 0), {}, -1, (1.0,) * 2, memory=memory, energy=energy)
        answer = costly_to_code(offered)
        memory, plain = answer.memory, list(answer.devices)
        for device in (0, 1):
            if device in plain or device == 0:
                spent_j[device] += 0.9 if device in plain else 1.0
    assert plain == [0, 1]


def test_it_is_an_option() -> None:
    assert make_system("mohawk", SystemOptions()).plain_uploads is None
    made = make_system("mohawk", SystemOptions(), {"code_by_joules": True})
    assert made.plain_uploads is costly_to_code
    assert made.sees_energy
