"""The serial port of a Nordic PPK2: the library gives the commands, its samples are read as they come."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field
from typing import Any, Final

from roambench.contract.device_time import DeviceClock
from roambench.extras.meters.copier import Copier
from roambench.extras.meters.library import library
from roambench.extras.meters.ppk2_samples import COUNTER, RATE_HZ, Factors, SampleBytes
from roambench.extras.meters.sample_clock import SampleClock
from roambench.meters.frames.means import line
from roambench.meters.means import Means
from roambench.meters.sources.serial_port import follow
from roambench.meters.sources.source import Lost, Take
from roambench.meters.sources.unit import unit_of_device
from roambench.meters.traits import MeterTraits

#: Nordic's limit of both modes.
MOST_A: Final = 1.0
_TRIES: Final = 3
#: What a device still sends that an earlier reader did not stop.
_SETTLED_S: Final = 0.05


@dataclass
class Ppk2Port:
    """A `MeterSource`. `source`: the device powers the board with `volts`; else it measures the current of a
    board that something else powers with `volts`."""

    path: str
    source: bool
    volts: float
    period_s: float
    traits: MeterTraits
    clock: DeviceClock = field(default_factory=DeviceClock)
    unit: str = ""
    _device: Any = None
    _copier: Copier | None = None

    async def open(self, take: Take, lost: Lost) -> None:
        """Read the device's calibration, then measure."""
        ppk2 = library("ppk2_api.ppk2_api", "ppk2-api", "ppk2")
        device, factors = await asyncio.to_thread(self._begin, ppk2)
        self._device = device
        self.unit = unit_of_device(self.path)
        samples = _Readings(self, factors, take)

        def gone(why: str) -> None:
            self._release()
            lost(why)

        self._copier = Copier(self.path, device.ser.fileno())
        follow(self._copier.fileno(), samples.feed, gone)
        device.start_measuring()

    async def close(self) -> None:
        """Stop the samples; the board keeps its power."""
        if self._device is not None:
            with contextlib.suppress(OSError):
                self._device.stop_measuring()
            self._release()

    def _release(self) -> None:
        device, self._device = self._device, None
        copier, self._copier = self._copier, None
        if copier is not None:
            asyncio.get_running_loop().remove_reader(copier.fileno())
            copier.close()
        device.ser.close()

    def _begin(self, ppk2: Any) -> tuple[Any, Factors]:
        device = ppk2.PPK2_API(self.path, timeout=0, write_timeout=1.0, exclusive=True)
        try:
            factors = _factors(device)
            if self.source:
                device.use_source_meter()
            else:
                device.use_ampere_meter()
            device.set_source_voltage(round(1e3 * self.volts))
            device.toggle_DUT_power("ON")
        except BaseException:
            device.ser.close()
            raise
        return device, factors


def _factors(device: Any) -> Factors:
    """The calibration; the library waits half a second for it, and takes no text that comes in two parts."""
    for _ in range(_TRIES):
        device.stop_measuring()
        time.sleep(_SETTLED_S)
        device.ser.reset_input_buffer()
        with contextlib.suppress(UnicodeDecodeError):
            if device.get_modifiers():
                return Factors.of(device.modifiers)
    raise ValueError("it does not tell its calibration: is this a PPK2, and the first of its two ports?")


class _Readings:
    """Bytes to lines."""

    def __init__(self, port: Ppk2Port, factors: Factors, take: Take) -> None:
        self._port = port
        self._factors = factors
        self._take = take
        self._bytes = SampleBytes()
        self._means = Means(RATE_HZ, port.period_s)
        self._clock = SampleClock(RATE_HZ, COUNTER)

    def feed(self, data: bytes) -> None:
        volts, means = self._port.volts, self._means
        lines = []
        for lost, words in self._bytes.feed(data):
            if lost:
                means.skip(lost)
            for meter_ms, amps in means.feed(self._factors.amps(words, volts)):
                lines.append(line(volts * amps, meter_ms, amps=amps, full=amps > MOST_A))
        missed = self._clock.missed(means.count, self._port.clock.now_ns())
        if missed:
            means.skip(missed)
        if lines:
            self._take(b"".join(lines))
