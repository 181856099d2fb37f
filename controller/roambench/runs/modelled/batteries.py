"""Batteries of virtual devices: what a step begins with is a fold over modelled joules."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from roambench.contract.draws import generator
from roambench.experiment.battery_section import BatterySection
from roambench.rounds.ports import EnergySoFar
from roambench.rounds.records import BatteriesSeen
from roambench.runs.folder import RunFolder
from roambench.runs.modelled.accounts import energy_model
from roambench.systems.system import SpentEnergy

_J_PER_WH = 3600.0


class ModelledBatteries:
    """`rounds.ports.Batteries`: what leaves a battery is the gross joules of a step's orders, and the idle
    power of a device that is on for the rest of the step's seconds. A run that goes on begins with its log's
    last record."""

    def __init__(
        self, section: BatterySection, energy: EnergySoFar, folder: RunFolder, step_s: float
    ) -> None:
        """RunError where the run's log cannot be read."""
        devices = range(len(folder.info.device_names))
        power = energy_model(folder)[0].power
        self._section = section
        self._energy = energy
        self._step_s = step_s
        self._idle_w = [power.of(device).idle_w for device in devices]
        self._start = [_drawn_start(section, folder.info.seed, device) for device in devices]
        self._last = max(folder.read_log().only(BatteriesSeen), key=lambda one: one.step, default=None)

    async def seen(self, step: int, present: Collection[int]) -> BatteriesSeen:
        """The batteries at the beginning of a step; `present`: whom the trace has at access points."""
        section, last = self._section, self._last
        spent = await self._energy.of(range(len(self._idle_w)))
        charges = self._start if last is None else self._charges(last, spent)
        off = [
            device
            for device, charge in enumerate(charges)
            if charge <= section.cut_off
            or (last is not None and device in last.off and charge < section.back_at)
        ]
        plugged = {"never": (), "at_access_point": present, "always": range(len(charges))}[section.charging]
        self._last = BatteriesSeen(
            step,
            tuple(charges),
            tuple(spent[device].total.joules for device in range(len(charges))),
            tuple(spent[device].total.covered_s for device in range(len(charges))),
            tuple(sorted(plugged)),
            tuple(off),
        )
        return self._last

    def _charges(self, last: BatteriesSeen, spent: Mapping[int, SpentEnergy]) -> list[float]:
        """The shares after the step that `last` opened."""
        capacity_j = self._section.capacity_wh * _J_PER_WH
        charges = []
        for device, before in enumerate(last.charges):
            total = spent[device].total
            drawn_j = total.joules - last.spent_j[device]
            if device not in last.off:
                worked_s = total.covered_s - last.worked_s[device]
                drawn_j += self._idle_w[device] * max(0.0, self._step_s - worked_s)
            gained_j = self._section.charge_w * self._step_s if device in last.charging else 0.0
            charges.append(min(1.0, max(0.0, before + (gained_j - drawn_j) / capacity_j)))
        return charges


class RecordedBatteries:
    """`rounds.ports.Batteries` of a run that is replayed: what its log says."""

    def __init__(self, records: Sequence[BatteriesSeen]) -> None:
        self._records = {record.step: record for record in records}

    async def seen(self, step: int, present: Collection[int]) -> BatteriesSeen:
        """The batteries as that run had them; `present` was the same."""
        return self._records[step]


def _drawn_start(section: BatterySection, seed: int, device: int) -> float:
    """The charge that a device begins with, fixed by (seed, device)."""
    if not section.start_spread:
        return section.start
    spread = section.start_spread
    draw = float(generator(seed, "battery start", device).uniform(1.0 - spread, 1.0 + spread))
    return min(1.0, section.start * draw)
