"""A fleet as far as a plan has to know it: who takes part, how fast its devices and their links are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from roambench.emulation.electric.power import PiPower
from roambench.emulation.electric.shapes import SHAPES
from roambench.energy.modelled.device_power import drawn_step_s
from roambench.energy.uncertainty import MeterCalibration
from roambench.experiment.sections import Experiment
from roambench.meters.catalogue import USUAL
from roambench.meters.traits import TRAITS, MeterDescription, MeterTraits
from roambench.plan.costs import MachineCosts
from roambench.runner.bench_options import BenchOptions
from roambench.runner.places.place import dither_s_at, rest_s_at
from roambench.runner.places.table import place_of
from roambench.runs.fleet_kinds import FleetKind
from roambench.runs.measured.meters import meter_of


@dataclass(frozen=True, slots=True)
class PlannedFleet:
    """`experiment` has as many devices as take part; `names` is empty where the fleet has no own names.
    Devices rest for `rest_s` after every measured phase, and half of it before, and measured phases begin
    up to twice `dither_s` late. `meters`: traits of the devices' meters; what is not there has those of a
    Smart Power 2. `serials`: their serial numbers by the devices' names, as far as they are known."""

    kind: FleetKind
    experiment: Experiment
    names: tuple[str, ...] = ()
    rest_s: float = 0.0
    meters: tuple[MeterTraits, ...] = ()
    dither_s: float = 0.0
    serials: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_agents(self) -> bool:
        """True if agents do the work, read meters and keep device time."""
        return self.kind.has_agents

    @property
    def time_scale(self) -> float:
        """Device seconds per second of this machine."""
        return self.experiment.local.time_scale if self.kind.emulates else 1.0

    @property
    def up_mbit_s(self) -> float:
        """The rate of a link without pacing; 0: nothing takes time."""
        return self._mbit_s[0]

    @property
    def down_mbit_s(self) -> float:
        """The rate of a download without pacing; 0: it takes no time."""
        return self._mbit_s[1]

    @property
    def readings_hz(self) -> float:
        """The mean rate of the devices' meters."""
        meters = self.meters or (TRAITS.load(USUAL),)
        return math.fsum(1.0 / meter.nominal_s for meter in meters) / len(meters)

    def meter(self, device: int) -> MeterTraits:
        """The traits of a device's meter."""
        return self.meters[device] if device < len(self.meters) else TRAITS.load(USUAL)

    def calibration(self, device: int) -> MeterCalibration:
        """The calibration of a device's meter, as the run's own evaluation will know it."""
        row = self.meter(device)
        name = self.names[device] if device < len(self.names) else f"pi-{device + 1:02d}"
        described = MeterDescription("", "", row.name, serial=self.serials.get(name, ""), own=row)
        return meter_of(name, described, self.experiment.energy).calibration

    @property
    def radio_tail_s(self) -> float:
        """For how long an emulated radio stays on after a transfer; of others that is not known."""
        return SHAPES[self.experiment.local.power_shape].tail_s if self.kind.emulates and self.rest_s else 0.0

    def step_s(self, device: int, costs: MachineCosts) -> float:
        """Device seconds of an SGD step that costs this machine what `costs` says.

        A board of a bench is taken to be as much slower as one that is emulated.
        """
        if self.has_agents:
            local = self.experiment.local
            return local.sgd_step_s or costs.sgd_step_s * local.cpu_slowdown
        return self._virtual_s(device, costs.board_step_s, costs)

    def code_s(self, device: int, numbers: int, costs: MachineCosts) -> float:
        """Seconds in which a virtual device codes or decodes this many numbers; those of boards are not
        known."""
        seconds = 1e-6 * numbers * self.experiment.simulated.coding_s
        return 0.0 if self.has_agents else self._virtual_s(device, seconds, costs)

    def _virtual_s(self, device: int, seconds: float, costs: MachineCosts) -> float:
        slowness = costs.slowness[device] if costs.slowness else 1.0
        experiment = self.experiment
        return drawn_step_s(seconds * slowness, experiment.simulated.speed_spread, experiment.seed, device)

    def board(self, device: int) -> PiPower:
        """Power that a board draws."""
        spread = self.experiment.local.radio_spread if self.kind.emulates else 0.0
        return PiPower().with_drawn_radio(self.experiment.seed, device, spread) if spread > 0 else PiPower()

    @property
    def _mbit_s(self) -> tuple[float, float]:
        """Up and down."""
        if self.kind.own_clocks:
            return (self.experiment.links.port_mbit_s,) * 2
        section = self.experiment.local if self.kind.emulates else self.experiment.simulated
        return section.upload_mbit_s, section.download_mbit_s


def planned_fleet(experiment: Experiment, fleet: str, only: Sequence[str] = ()) -> PlannedFleet:
    """The fleet that `--fleet` names; of a bench the hosts of its file, or `only` those, and it is not asked.

    ConfigError for a fleet that is none or cannot run the experiment, and what is wrong with a bench's file.
    """
    place = place_of(experiment, fleet, BenchOptions(tuple(only)))
    names = place.names(place.experiment.fleet.agents) if place.kind.has_file else ()
    known, usual = place.meters, TRAITS.load(USUAL)
    meters = tuple(known.get(name, usual) for name in place.names(place.experiment.fleet.agents))
    return PlannedFleet(
        place.kind, place.experiment, names, rest_s_at(place), meters, dither_s_at(place), place.meter_serials
    )
