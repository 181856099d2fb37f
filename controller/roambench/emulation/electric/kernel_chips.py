"""Chips behind the kernel's driver: INA219, INA226, INA3221. The driver gives whole mV, mA and uW.

A chip converts bus and shunt one after the other without pause; its values are those of the newest finished
round of `window_ns`, which an INA226 averages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from roambench.contract.draws import generator
from roambench.emulation.electric.sensor import SUPPLY_V, Measurement, load
from roambench.emulation.electric.signal import PowerSignal


@dataclass(frozen=True, slots=True)
class KernelChip:
    """Limits by the data sheet, steps by the kernel's driver. `power_step_w` 0: the driver gives no power."""

    window_ns: int
    shunt_ohm: float
    shunt_step_v: float
    shunt_range_v: float
    bus_step_v: float
    current_gain_limit: float
    bus_gain_limit: float
    offset_limit_v: float
    bus_offset_limit_v: float
    power_step_w: float = 0.0

    def drawn(
        self, seed: int, device: int, *, scale: float = 1.0, gain: float = 1.0, offset_w: float = 0.0
    ) -> DrawnChip:
        """One chip off the shelf, its parts' errors times `scale`; its shunt within 1 %."""
        drawn = generator(seed, "meter tolerance", device).uniform(-scale, scale, 5)
        shunt, current, bus, offset, bus_offset = map(float, drawn)
        return DrawnChip(
            self,
            int(generator(seed, "meter window phase", device).integers(self.window_ns)),
            gain * (1.0 + 0.01 * shunt + self.current_gain_limit * current),
            1.0 + self.bus_gain_limit * bus,
            self.offset_limit_v * offset,
            self.bus_offset_limit_v * bus_offset,
            offset_w,
        )


@dataclass(frozen=True, slots=True)
class DrawnChip:
    """A `SensorChip`."""

    kind: KernelChip
    phase_ns: int
    current_gain: float
    bus_gain: float
    shunt_offset_v: float
    bus_offset_v: float
    offset_w: float

    def read(self, signal: PowerSignal, ns: int, supply_v: float = SUPPLY_V) -> Measurement:
        """The newest finished values at `ns`, as the driver gives them."""
        kind = self.kind
        end_ns = ns - (ns - self.phase_ns) % kind.window_ns
        start_ns = max(end_ns - kind.window_ns, signal.start_ns)
        watts = signal.mean_w(start_ns, max(end_ns, start_ns + 1))
        volts, amps = load(watts, supply_v)
        shunt_v = (amps * self.current_gain + self.offset_w / volts) * kind.shunt_ohm + self.shunt_offset_v
        shunt_v = min(kind.shunt_range_v, round(shunt_v / kind.shunt_step_v) * kind.shunt_step_v)
        volts = round((volts * self.bus_gain + self.bus_offset_v) / kind.bus_step_v) * kind.bus_step_v
        amps = shunt_v / kind.shunt_ohm
        step_w = kind.power_step_w
        seen_w = step_w * int(volts * amps / step_w) if step_w else round(volts, 3) * round(amps, 3)
        return Measurement(volts, amps, max(0.0, seen_w), shunt_v)


#: A breakout with 0.1 Ohm; 0.01 Ohm and the mean of 64 rounds of 2.2 ms; 0.01 Ohm and one channel of three.
INA219: Final = KernelChip(1_064_000, 0.1, 10e-6, 0.32, 4e-3, 0.01, 0.01, 200e-6, 0.0, 20e-4)
INA226: Final = KernelChip(
    140_800_000, 0.01, 2.5e-6, 0.0819175, 1.25e-3, 0.001, 0.001, 10e-6, 7.5e-3, 25 * 0.25e-3
)
INA3221: Final = KernelChip(6_600_000, 0.01, 40e-6, 0.16384, 8e-3, 0.0025, 0.0025, 80e-6, 16e-3)
