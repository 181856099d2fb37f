"""One emulated board with its meter: what it does, what that draws, what the meter prints."""

from __future__ import annotations

from roambench.meters.emulator.firmware import Chunk, Firmware
from roambench.meters.emulator.power import IDLE, Activity
from roambench.meters.emulator.profiles import profile
from roambench.meters.emulator.sensor import Ina231
from roambench.meters.emulator.signal import PowerSignal
from roambench.meters.emulator.spec import EmulatorSpec, Fault

#: The signal begins this long before the first tick, so that the first window lies inside it.
LEAD_NS = 1_000_000_000


class EmulatedBoard:
    """Device `index` of `spec`, idle from `start_ns` on (device time)."""

    def __init__(self, spec: EmulatorSpec, index: int, start_ns: int) -> None:
        device = spec.devices[index]
        self.name = device.name
        self._power = device.power
        self.signal = PowerSignal(start_ns - LEAD_NS, device.power.watts(IDLE))
        sensor = Ina231.drawn(
            spec.seed, index, scale=spec.tolerance, gain=device.gain, offset_w=device.offset_w
        )
        self._firmware = Firmware(
            profile(spec.profile),
            sensor,
            self.signal,
            seed=spec.seed,
            device=index,
            start_ns=start_ns,
            ppm=device.ppm,
            noise_per_line=spec.noise_per_line,
            boots=spec.boots,
            faults=device.faults,
        )

    @property
    def due_ns(self) -> int:
        return self._firmware.due_ns

    def work(self, activity: Activity, ns: int) -> float:
        """From `ns` on the board does `activity`; returns the watts that it draws."""
        watts = self._power.watts(activity)
        self.signal.change(ns, watts)
        return watts

    def advance(self, now_ns: int) -> list[Chunk]:
        """What the meter printed up to `now_ns`."""
        return self._firmware.advance(now_ns)

    def inject(self, fault: Fault, now_ns: int) -> None:
        self._firmware.inject(fault, now_ns)
