"""Batteries of a run's devices: what a step begins with is a fold over joules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import Final

from roambench.contract.draws import generator
from roambench.experiment.battery_section import BatterySection
from roambench.rounds.ports import EnergySoFar
from roambench.rounds.records import BatteriesSeen
from roambench.runs.folder import RunFolder
from roambench.runs.measured.accounts import outages_of
from roambench.runs.modelled.accounts import energy_model
from roambench.systems.system import SpentEnergy

_J_PER_WH: Final = 3600.0
_DAY_S: Final = 86_400.0


class _Fold(ABC):
    """`rounds.ports.Batteries` by joules. A run that goes on begins with its log's last record."""

    def __init__(
        self,
        section: BatterySection,
        energy: EnergySoFar,
        folder: RunFolder,
        step_s: float,
        start_utc_s: float = 0.0,
        now_ns: Callable[[], int] | None = None,
    ) -> None:
        """`step_s` and `start_utc_s` are the trace's, `now_ns` the clock of agents. RunError where the run's
        log cannot be read."""
        self._section = section
        self._energy = energy
        self._folder = folder
        self._now_ns = now_ns
        self._step_s = step_s
        self._start_utc_s = start_utc_s
        devices = range(len(folder.info.device_names))
        self._start = [_drawn_start(section, folder.info.seed, device) for device in devices]
        self._last = max(folder.read_log().only(BatteriesSeen), key=lambda one: one.step, default=None)

    async def seen(self, step: int, present: Collection[int]) -> BatteriesSeen:
        """The batteries at the beginning of a step; `present`: whom the trace has at access points."""
        section, last, devices = self._section, self._last, range(len(self._start))
        start_ns = self._folder.info.start_device_ns or 0
        at_s = 0.0 if self._now_ns is None else (self._now_ns() - start_ns) / 1e9
        spent = await self._energy.of(devices)
        charges = self._start if last is None else self._charges(last, spent, at_s)
        off = [
            device
            for device, charge in enumerate(charges)
            if charge <= section.cut_off
            or (last is not None and device in last.off and charge < section.back_at)
        ]
        before_j = (0.0,) * len(devices) if last is None else last.spent_j
        self._last = BatteriesSeen(
            step,
            tuple(charges),
            # Where a device's records are in doubt, no joules are known of it.
            tuple(max(spent[device].total.joules, before_j[device]) for device in devices),
            tuple(spent[device].total.covered_s for device in devices),
            tuple(sorted(self._charged(step, present))),
            tuple(off),
            at_s,
        )
        return self._last

    def _charged(self, step: int, present: Collection[int]) -> Collection[int]:
        section, everyone = self._section, range(len(self._start))
        match section.charging:
            case "never":
                return ()
            case "at_access_point":
                return present
            case "away":
                return set(everyone) - set(present)
            case "hours":
                hour = (self._start_utc_s + step * self._step_s) % _DAY_S / 3600.0
                from_h, until_h = section.charge_from_h, section.charge_until_h
                inside = from_h <= hour < until_h
                over_midnight = from_h > until_h and (hour >= from_h or hour < until_h)
                return everyone if inside or over_midnight else ()
            case "always":
                return everyone

    def _charges(self, last: BatteriesSeen, spent: Mapping[int, SpentEnergy], at_s: float) -> list[float]:
        """The shares after the step that `last` opened."""
        capacity_j, passed_s = self._section.capacity_wh * _J_PER_WH, self._passed_s(last, at_s)
        charges = []
        for device, before in enumerate(last.charges):
            drawn_j = self._drawn_j(last, device, spent[device])
            gained_j = self._section.charge_w * passed_s if device in last.charging else 0.0
            charges.append(min(1.0, max(0.0, before + (gained_j - drawn_j) / capacity_j)))
        return charges

    @abstractmethod
    def _passed_s(self, last: BatteriesSeen, at_s: float) -> float:
        """Seconds that the step lasted which `last` opened."""

    @abstractmethod
    def _drawn_j(self, last: BatteriesSeen, device: int, spent: SpentEnergy) -> float:
        """Joules out of a device's battery in that step; `spent`: since the run began."""


class ModelledBatteries(_Fold):
    """Batteries of virtual devices: what leaves one is the gross joules of a step's orders, and the idle
    power of a device that is on for the rest of the step's seconds."""

    @cached_property
    def _idle_w(self) -> list[float]:
        power = energy_model(self._folder)[0].power
        return [power.of(device).idle_w for device in range(len(self._start))]

    def _passed_s(self, last: BatteriesSeen, at_s: float) -> float:
        return self._step_s

    def _drawn_j(self, last: BatteriesSeen, device: int, spent: SpentEnergy) -> float:
        drawn_j = spent.total.joules - last.spent_j[device]
        if device in last.off:
            return drawn_j
        worked_s = spent.total.covered_s - last.worked_s[device]
        return drawn_j + self._idle_w[device] * max(0.0, self._step_s - worked_s)


class MeasuredBatteries(_Fold):
    """Batteries of agents: what leaves one is what a board's meter saw, as far as it is drained when a step
    begins; what comes later counts in the next. What no meter saw leaves no battery."""

    def _passed_s(self, last: BatteriesSeen, at_s: float) -> float:
        start_ns = self._folder.info.start_device_ns or 0
        outages = outages_of(self._folder.read_log())  # the run stood still, and nothing of it counts
        stood_s = sum(
            max(0.0, min(at_s, (to_ns - start_ns) * 1e-9) - max(last.at_s, (from_ns - start_ns) * 1e-9))
            for from_ns, to_ns in outages
        )
        return max(0.0, at_s - last.at_s - stood_s)

    def _drawn_j(self, last: BatteriesSeen, device: int, spent: SpentEnergy) -> float:
        if device in last.off and self._section.cut == "absent":
            return 0.0  # the board draws on, the device that it plays is off
        return max(0.0, spent.total.joules - last.spent_j[device])


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
