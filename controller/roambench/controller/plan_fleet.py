"""A fleet as far as a plan has to know it: who takes part, how fast its devices and their links are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from roambench.controller.composition import BENCH, fleet_of, refuse_unfit
from roambench.controller.config.sections import Experiment
from roambench.energy.device_power import drawn_step_s
from roambench.meters.emulator.power import PiPower

Kind = Literal["local", "simulated", "rehearsal", "bench"]
#: What a Smart Power 2 prints.
_READINGS_HZ: Final = 1.0


@dataclass(frozen=True, slots=True)
class PlannedFleet:
    """`experiment` has as many devices as take part; `names` is empty where the fleet has none of its own."""

    kind: Kind
    experiment: Experiment
    names: tuple[str, ...] = ()

    @property
    def has_agents(self) -> bool:
        """Whether agents do the work, read meters and keep device time."""
        return self.kind in ("local", "bench")

    @property
    def time_scale(self) -> float:
        """Device seconds per second of this machine."""
        return self.experiment.local.time_scale if self.kind == "local" else 1.0

    @property
    def up_mbit_s(self) -> float:
        """Of a link that nobody paces; 0: nothing takes time."""
        return self._mbit_s[0]

    @property
    def down_mbit_s(self) -> float:
        return self._mbit_s[1]

    @property
    def readings_hz(self) -> float:
        """Of a device's meter."""
        interval_ms = self.experiment.local.meter_interval_ms if self.kind == "local" else 0
        return 1000.0 / interval_ms if interval_ms else _READINGS_HZ

    def step_s(self, device: int, machine_step_s: float) -> float:
        """Device seconds of an SGD step that takes this machine `machine_step_s` CPU-seconds.

        A board of a bench is taken to be as much slower as one that is emulated.
        """
        if self.has_agents:
            local = self.experiment.local
            return local.sgd_step_s or machine_step_s * local.cpu_slowdown
        section = self.experiment.simulated
        return drawn_step_s(section.sgd_step_s, section.speed_spread, self.experiment.seed, device)

    def board(self, device: int) -> PiPower:
        """What a board draws."""
        spread = self.experiment.local.radio_spread if self.kind == "local" else 0.0
        return PiPower().with_drawn_radio(self.experiment.seed, device, spread) if spread > 0 else PiPower()

    @property
    def _mbit_s(self) -> tuple[float, float]:
        """Up and down."""
        if self.kind == "bench":
            return (self.experiment.links.port_mbit_s,) * 2
        section = self.experiment.local if self.kind == "local" else self.experiment.simulated
        return section.upload_mbit_s, section.download_mbit_s


def planned_fleet(experiment: Experiment, fleet: str, only: Sequence[str] = ()) -> PlannedFleet:
    """The fleet that `--fleet` names; of a bench the hosts of its file, or `only` those, and it is not asked.

    ConfigError for a fleet that is none or cannot run the experiment, and what is wrong with a bench's file.
    """
    kind, file = fleet_of(fleet)
    if kind == BENCH:
        from roambench.controller.bench_run import taking_part
        from roambench.provision.inventory import load_bench

        refuse_unfit(experiment, BENCH)
        hosts, experiment, _ = taking_part(experiment, load_bench(Path(file)), only)
        return PlannedFleet("bench", experiment, tuple(host.name for host in hosts))
    refuse_unfit(experiment, fleet)
    found: dict[str, Kind] = {"local": "local", "simulated": "simulated", "rehearsal": "rehearsal"}
    return PlannedFleet(found[fleet], experiment)
