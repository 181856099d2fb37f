"""A meter that samples without pause: each value is the mean of all of its period."""

from __future__ import annotations

from dataclasses import dataclass

from roambench.contract.draws import generator
from roambench.emulation.electric.sensor import Measurement, load
from roambench.emulation.electric.signal import PowerSignal
from roambench.meters.traits import MeterTraits


@dataclass(frozen=True, slots=True)
class PeriodMean:
    """A `SensorChip` that reads `gain` x true power + `offset_w`."""

    period_ns: int
    gain: float
    offset_w: float

    @classmethod
    def drawn(
        cls,
        seed: int,
        device: int,
        traits: MeterTraits,
        period_s: float,
        *,
        scale: float = 1.0,
        gain: float = 1.0,
        offset_w: float = 0.0,
    ) -> PeriodMean:
        """One meter off the shelf: its errors are drawn by its traits' u, times `scale`."""
        drawn = generator(seed, "meter tolerance", device).standard_normal(2)
        return cls(
            round(period_s * 1e9),
            gain * (1.0 + scale * traits.u_gain * float(drawn[0])),
            offset_w + scale * traits.u_offset_w * float(drawn[1]),
        )

    def read(self, signal: PowerSignal, ns: int, supply_v: float) -> Measurement:
        """The mean of the period that ends at `ns`."""
        start_ns = max(ns - self.period_ns, signal.start_ns)
        true_w = signal.mean_w(start_ns, max(ns, start_ns + 1))
        volts, amps = load(true_w, supply_v)
        watts = max(0.0, self.gain * true_w + self.offset_w)
        return Measurement(volts, amps * watts / true_w if true_w else 0.0, watts)
