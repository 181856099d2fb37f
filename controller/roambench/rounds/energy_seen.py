"""The joules that rules see: looked at once, written down, and the same again in a replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from roambench.contract.phases import Phase
from roambench.energy.energy_value import Energy
from roambench.rounds.ports import EnergySoFar, Journal
from roambench.rounds.records import EnergyRules, EnergySeen
from roambench.systems.system import SpentEnergy


@dataclass(frozen=True, slots=True)
class RulesEnergy:
    """Without `so_far` devices have no joules. `recorded` is what rules saw in the run that is replayed, by
    step and rules."""

    so_far: EnergySoFar | None = None
    recorded: Mapping[tuple[int, EnergyRules], EnergySeen] = field(default_factory=dict)

    async def at(
        self, journal: Journal, step: int, rules: EnergyRules, devices: Sequence[int]
    ) -> Mapping[int, SpentEnergy]:
        """The energy of these devices, as it is written down."""
        if self.so_far is None:
            return dict.fromkeys(devices, SpentEnergy())
        record = self.recorded.get((step, rules))
        if record is None:
            record = energy_record(step, rules, await self.so_far.of(devices))
        journal.append(record)
        return energy_of(record)


NO_ENERGY: Final = RulesEnergy()


def energy_record(step: int, rules: EnergyRules, seen: Mapping[int, SpentEnergy]) -> EnergySeen:
    """The journal's line of what rules see."""
    rows = [
        (device, phase, energy)
        for device, its in sorted(seen.items())
        for phase, energy in (("", its.total), *((one.value, energy) for one, energy in its.phases.items()))
    ]
    return EnergySeen(
        step,
        tuple(device for device, _, _ in rows),
        tuple(phase for _, phase, _ in rows),
        tuple(energy.joules for _, _, energy in rows),
        tuple(energy.u_joules for _, _, energy in rows),
        tuple(energy.covered_s for _, _, energy in rows),
        tuple(energy.gap_s for _, _, energy in rows),
        rules,
    )


def energy_of(record: EnergySeen) -> dict[int, SpentEnergy]:
    """Inverse of `energy_record`: rules see what is written down, and no more."""
    found: dict[int, dict[str, Energy]] = {}
    columns = (record.joules, record.u_joules, record.covered_s, record.gap_s)
    for device, phase, *figures in zip(record.devices, record.phases, *columns, strict=True):
        found.setdefault(device, {})[phase] = Energy(*figures)
    return {
        device: SpentEnergy(rows.pop(""), {Phase(phase): energy for phase, energy in rows.items()})
        for device, rows in found.items()
    }
