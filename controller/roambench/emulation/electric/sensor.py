"""The measuring part of a Smart Power 2: an INA231 behind a 15 mOhm shunt, as the firmware configures it.

Configuration 0x45ff averages 16 conversions of 8.244 ms for each of bus and shunt, one after the other,
without pause: a new value every 263.8 ms. The firmware reads the value that was finished last, so a printed
value
is the mean of a window that ended 0 to 264 ms before, and three quarters of the time are never seen at 1 Hz.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Protocol

from roambench.contract.draws import generator
from roambench.emulation.electric.signal import PowerSignal

#: 16 averages x (bus + shunt) x 8.244 ms.
WINDOW_NS: Final = 16 * 2 * 8_244_000
BUS_LSB_V: Final = 1.25e-3
#: Calibration register 0x08bd with 15 mOhm: 5.12 mV / (2237 * 15 mOhm).
CHIP_CURRENT_LSB_A: Final = 0.00512 / (0x08BD * 0.015)
#: What the firmware multiplies the registers by: 0.01 % and 0.059 % above the chip's own steps.
PRINTED_CURRENT_LSB_A: Final = 0.1526e-3
PRINTED_POWER_LSB_W: Final = 3.81687e-3
#: Below these register values the firmware prints zero.
CURRENT_DEAD_BAND: Final = 59
POWER_DEAD_BAND: Final = 10
#: Three I2C reads, volts then watts then amperes; an update may fall between them.
READ_SPACING_NS: Final = 400_000
#: "5.1" on the meter's panel, from its digital potentiometer; the buck's output sinks a little under load.
SUPPLY_V: Final = 5.098
SUPPLY_OHM: Final = 0.020


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The differences of this meter's parts from their print: relative gains, offsets at the chip's
    inputs."""

    current_gain: float = 0.0
    voltage_gain: float = 0.0
    bus_offset_v: float = 0.0
    shunt_offset_a: float = 0.0

    @classmethod
    def drawn(cls, seed: int, device: int, scale: float = 1.0) -> Tolerance:
        """Uniform within the parts' limits, times `scale`.

        Shunt 1 %, INA231 gain 0.5 % each for current and voltage, bus offset 30 mV, shunt offset 50 uV.
        """
        shunt, current, voltage, bus, offset = generator(seed, "meter tolerance", device).uniform(
            -scale, scale, 5
        )
        return cls(
            current_gain=float(0.01 * shunt + 0.005 * current),
            voltage_gain=float(0.005 * voltage),
            bus_offset_v=float(0.030 * bus),
            shunt_offset_a=float(50e-6 / 0.015 * offset),
        )


@dataclass(frozen=True, slots=True)
class Measurement:
    """The values that the firmware holds after one read, before it prints three decimals."""

    volts: float
    amps: float
    watts: float
    shunt_v: float = 0.0


def load(watts: float, supply_v: float = SUPPLY_V) -> tuple[float, float]:
    """(volts, amperes) at the meter's output for a board that draws `watts`: V = V0 - R I, V I = P."""
    volts = 0.5 * (supply_v + math.sqrt(max(0.0, supply_v**2 - 4.0 * SUPPLY_OHM * watts)))
    return volts, watts / volts


class SensorChip(Protocol):
    """A measuring chip with what its firmware makes of it."""

    def read(self, signal: PowerSignal, ns: int, supply_v: float) -> Measurement:
        """The values that the firmware holds after reading at `ns`; `signal` must be known up to then."""
        ...


@dataclass(frozen=True, slots=True)
class Registers:
    """The chip's bus, current and power registers after one window."""

    bus: int
    current: int
    power: int

    def printed(self) -> Measurement:
        """The firmware's conversion with its dead bands (a negative current reads as above 32768: zero)."""
        amps = 0.0 if self.current < CURRENT_DEAD_BAND else self.current * PRINTED_CURRENT_LSB_A
        watts = 0.0 if self.power < POWER_DEAD_BAND else self.power * PRINTED_POWER_LSB_W
        return Measurement(self.bus * BUS_LSB_V, amps, watts)


@dataclass(frozen=True, slots=True)
class Ina231:
    """One meter's chip; its windows run freely from `phase_ns` on. `gain` and `offset_w` come on top.

    `held_ns`: the firmware prints what the chip held this long ago.
    """

    phase_ns: int = 0
    tolerance: Tolerance = Tolerance()
    gain: float = 1.0
    offset_w: float = 0.0
    window_ns: int = WINDOW_NS
    held_ns: int = 0

    @classmethod
    def drawn(
        cls,
        seed: int,
        device: int,
        *,
        scale: float = 1.0,
        gain: float = 1.0,
        offset_w: float = 0.0,
        window_ns: int = WINDOW_NS,
        held_ns: int = 0,
    ) -> Ina231:
        """A meter off the shelf: its own window phase and tolerances."""
        phase_ns = int(generator(seed, "meter window phase", device).integers(WINDOW_NS))
        return cls(phase_ns, Tolerance.drawn(seed, device, scale), gain, offset_w, window_ns, held_ns)

    def latched_window(self, ns: int) -> tuple[int, int]:
        """[start, end) of the newest window finished at `ns`."""
        end = ns - (ns - self.phase_ns) % self.window_ns
        return end - self.window_ns, end

    def registers(self, watts: float, supply_v: float = SUPPLY_V) -> Registers:
        """The registers that the chip holds after a window of `watts` in the mean."""
        part = self.tolerance
        volts, amps = load(watts, supply_v)
        amps *= self.gain * (1.0 + part.current_gain)
        amps += part.shunt_offset_a + self.offset_w / volts
        volts = volts * (1.0 + part.voltage_gain) + part.bus_offset_v
        bus = max(0, round(volts / BUS_LSB_V))
        current = min(32767, round(amps / CHIP_CURRENT_LSB_A))
        return Registers(bus, current, round(bus * current / 20_000))

    def read(self, signal: PowerSignal, ns: int, supply_v: float = SUPPLY_V) -> Measurement:
        """The firmware's three reads beginning at `ns`."""
        ns -= self.held_ns
        window = self.latched_window(ns)
        first = self.registers(_mean_w(signal, *window), supply_v).printed()
        next_ns = window[1] + self.window_ns
        if next_ns > ns + 2 * READ_SPACING_NS:
            return first
        second = self.registers(_mean_w(signal, window[1], next_ns), supply_v).printed()
        watts = second.watts if next_ns <= ns + READ_SPACING_NS else first.watts
        return Measurement(first.volts, second.amps, watts)


def _mean_w(signal: PowerSignal, start_ns: int, end_ns: int) -> float:
    """Return the mean of the known part of a window that began before the signal did."""
    start_ns = max(start_ns, signal.start_ns)
    return signal.mean_w(start_ns, max(end_ns, start_ns + 1))
