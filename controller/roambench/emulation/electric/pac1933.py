"""The measuring part of a Smart Power 3: a PAC1933 behind 15 mOhm, read into a ring as fast as it goes.

The chip averages its last 8 samples at 1024 a second; the firmware reads that average 600 to 1000 times a
second into a ring of 1000 and prints the mean of the newest interval_ms / 2 entries, cut to whole mA.
Watts are the newest volts times those amperes, cut to whole milliwatts: power itself is never averaged, and
both cuts make the meter read low, by 0.5 mA and 3 mW in the mean (0.15 % of an idle Pi).
"""

from __future__ import annotations

from typing import Final

from roambench.contract.draws import generator
from roambench.emulation.electric.sensor import Measurement, load
from roambench.emulation.electric.signal import PowerSignal

#: 32 V and 100 mV over 65,536 steps; the shunt is 15 mOhm.
BUS_LSB_V: Final = 32.0 / 65_536
CURRENT_LSB_A: Final = 0.100 / 65_536 / 0.015
#: 8 samples at 1024 a second.
AVERAGE_NS: Final = 7_812_500
#: Unlike the rest this is a guess at the chip's limits: the shunt 1 %, 0.5 % each for current and voltage.
SHUNT_LIMIT: Final = 0.01
GAIN_LIMIT: Final = 0.005
OFFSET_LIMIT_STEPS: Final = 10.0


class Pac1933:
    """One meter's channel 0. `sample_ns` is how far apart the ring's entries are."""

    def __init__(
        self,
        interval_ms: int = 100,
        sample_ns: int = 1_250_000,
        phase_ns: int = 0,
        current_gain: float = 1.0,
        voltage_gain: float = 1.0,
        offset_a: float = 0.0,
        offset_w: float = 0.0,
    ) -> None:
        self.entries = max(1, interval_ms // 2)
        self.sample_ns = sample_ns
        self.phase_ns = phase_ns
        self._current_gain = current_gain
        self._voltage_gain = voltage_gain
        self._offset_a = offset_a
        self._offset_w = offset_w
        self._known: dict[tuple[float, float], tuple[float, float]] = {}

    @classmethod
    def drawn(
        cls,
        seed: int,
        device: int,
        interval_ms: int,
        *,
        scale: float = 1.0,
        gain: float = 1.0,
        offset_w: float = 0.0,
    ) -> Pac1933:
        """A meter off the shelf: its own sampling rate and tolerances, these times `scale`."""
        draws = generator(seed, "meter sampling", device)
        sample_ns = round(1e9 / float(draws.uniform(600.0, 1000.0)))
        shunt, current, voltage, offset = generator(seed, "meter tolerance", device).uniform(-scale, scale, 4)
        return cls(
            interval_ms,
            sample_ns,
            int(draws.integers(sample_ns)),
            gain * (1.0 + SHUNT_LIMIT * float(shunt) + GAIN_LIMIT * float(current)),
            1.0 + GAIN_LIMIT * float(voltage),
            OFFSET_LIMIT_STEPS * CURRENT_LSB_A * float(offset),
            offset_w,
        )

    def read(self, signal: PowerSignal, ns: int, supply_v: float) -> Measurement:
        """The values printed at `ns`: whole mV, mA and mW."""
        newest = ns - (ns - self.phase_ns) % self.sample_ns
        oldest = newest - (self.entries - 1) * self.sample_ns
        steady = signal.steady_w(oldest - AVERAGE_NS, newest)
        if steady is not None:
            volts, amps = self._entry(steady, supply_v)
        else:
            total = 0.0
            volts = 0.0
            for end in range(oldest, newest + 1, self.sample_ns):
                volts, amps = self._entry(signal.mean_w(end - AVERAGE_NS, end), supply_v)
                total += amps
            amps = total / self.entries
        milliamps = int(1e3 * amps + 1e-9)
        return Measurement(int(1e3 * volts) * 1e-3, milliamps * 1e-3, int(volts * milliamps) * 1e-3)

    def _entry(self, watts: float, supply_v: float) -> tuple[float, float]:
        """(volts, amperes) of one ring entry."""
        key = (watts, supply_v)
        known = self._known.get(key)
        if known is None:
            if len(self._known) > 4096:
                self._known.clear()
            known = self._known[key] = self._converted(watts, supply_v)
        return known

    def _converted(self, watts: float, supply_v: float) -> tuple[float, float]:
        volts, amps = load(watts, supply_v)
        amps = amps * self._current_gain + self._offset_a
        if volts > 0.0:
            amps += self._offset_w / volts
        volts *= self._voltage_gain
        return int(volts / BUS_LSB_V) * BUS_LSB_V, max(0, int(amps / CURRENT_LSB_A)) * CURRENT_LSB_A
