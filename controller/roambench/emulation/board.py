"""One emulated board with its meter: what it does, what that draws, what the meter prints."""

from __future__ import annotations

from collections.abc import Iterable

from roambench.emulation.electric.draw import BoardDraw
from roambench.emulation.electric.kernel_chips import INA219, INA226, INA3221
from roambench.emulation.electric.pac1933 import Pac1933
from roambench.emulation.electric.period_mean import PeriodMean
from roambench.emulation.electric.power import IDLE, Activity
from roambench.emulation.electric.sensor import WINDOW_NS, Ina231, SensorChip
from roambench.emulation.electric.signal import PowerSignal
from roambench.emulation.firmware import Firmware, Printed
from roambench.emulation.outlet import Outlet
from roambench.emulation.profiles import FirmwareProfile, Sensor, Transport, profile
from roambench.emulation.spec import EmulatedDevice, EmulatorSpec, Fault
from roambench.meters.traits import TRAITS

_KERNEL_CHIPS = {Sensor.INA219: INA219, Sensor.INA226: INA226, Sensor.INA3221: INA3221}
#: The signal begins this long before the first tick, so that the first window lies inside it.
LEAD_NS = 1_000_000_000


class EmulatedBoard:
    """Device `index` of `spec`, idle from `start_ns` on (device time).

    Its meter speaks by `transports` (None: those that the spec gives the device an address for).
    """

    def __init__(
        self, spec: EmulatorSpec, index: int, start_ns: int, transports: Iterable[Transport] | None = None
    ) -> None:
        device = spec.devices[index]
        row = profile(device.profile or spec.profile)
        self.name = device.name
        self.draw = BoardDraw(device.power, device.shape, spec.seed, index, start_ns - LEAD_NS)
        boot_w = device.power.watts(Activity(busy_cores=1.0))
        self.outlet = Outlet(start_ns - LEAD_NS, device.power.watts(IDLE), device.board_boot_s, boot_w)
        self.firmware = Firmware(
            row,
            _sensor(spec, row, device, index),
            self.outlet,
            seed=spec.seed,
            device=index,
            start_ns=start_ns,
            transports=device.transports if transports is None else transports,
            interval_ms=None if device.profile and not row.intervals_ms else spec.interval_ms,
            ppm=device.ppm,
            uptime_s=device.uptime_s,
            autorun=device.autorun,
            noise_per_line=spec.noise_per_line,
            boots=spec.boots,
            faults=device.faults,
        )

    @property
    def signal(self) -> PowerSignal:
        """The true power."""
        return self.outlet.signal

    @property
    def due_ns(self) -> int:
        """Device time of the next thing that the firmware does."""
        return self.firmware.due_ns

    def work(self, activity: Activity, ns: int) -> None:
        """From `ns` on the board does `activity`, or would if it had power."""
        self._want(self.draw.work(activity, ns))

    def advance(self, now_ns: int) -> list[Printed]:
        """The lines that the meter printed up to `now_ns`."""
        self.draw_until(now_ns)
        return self.firmware.advance(now_ns)

    def draw_until(self, now_ns: int) -> None:
        """Let the true power be known up to `now_ns`."""
        self._want(self.draw.until(now_ns))

    def prune(self, before_ns: int) -> None:
        """Forget the past; its readers have taken the changes."""
        self.draw.prune(before_ns)
        self.outlet.prune(before_ns)

    def _want(self, changes: Iterable[tuple[int, float]]) -> None:
        for ns, watts in changes:
            self.outlet.want(ns, watts)

    def inject(self, fault: Fault, now_ns: int) -> None:
        """Let a fault happen, now or after its own delay."""
        self.firmware.inject(fault, now_ns)


def _sensor(spec: EmulatorSpec, row: FirmwareProfile, device: EmulatedDevice, index: int) -> SensorChip:
    if row.sensor is Sensor.PAC1933:
        interval_ms = round(1e3 * row.period(spec.interval_ms))
        return Pac1933.drawn(
            spec.seed, index, interval_ms, scale=spec.tolerance, gain=device.gain, offset_w=device.offset_w
        )
    if row.sensor in _KERNEL_CHIPS:
        return _KERNEL_CHIPS[row.sensor].drawn(
            spec.seed, index, scale=spec.tolerance, gain=device.gain, offset_w=device.offset_w
        )
    if row.sensor is Sensor.MEAN:
        return PeriodMean.drawn(
            spec.seed,
            index,
            TRAITS.load(row.traits),
            row.period_s,
            scale=spec.tolerance,
            gain=device.gain,
            offset_w=device.offset_w,
        )
    return Ina231.drawn(
        spec.seed,
        index,
        scale=spec.tolerance,
        gain=device.gain,
        offset_w=device.offset_w,
        window_ns=round(device.window_ms * 1e6) or WINDOW_NS,
        held_ns=round(device.held_ms * 1e6),
    )
