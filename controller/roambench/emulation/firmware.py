"""A meter's firmware in device time: boots, reads its sensor once a period, prints, goes wrong on demand.

Pure: `advance` returns what was printed, where and when; nothing sleeps here.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from roambench.contract.draws import generator
from roambench.emulation.electric.sensor import SensorChip
from roambench.emulation.lines import Printout
from roambench.emulation.outlet import Outlet
from roambench.emulation.panel import Panel
from roambench.emulation.profiles import FirmwareProfile, Transport, WattHours
from roambench.emulation.spec import Fault, FaultKind

#: Ten bits a byte.
BITS_PER_BYTE: Final = 10
#: The longest line that keeps a Smart Power 3 busy.
_LINE_BYTES: Final = 81


class Printed(NamedTuple):
    """Bytes that left by `transport`; `ns` is the device time of the last one."""

    ns: int
    transport: Transport
    data: bytes


class Firmware:
    """One meter. `boots`: it is plugged in at `start_ns`; otherwise it has been running before.

    `interval_ms` None is the profile's own; `uptime_s` (None: drawn) is how long it has been running, which
    shows where it prints its own clock.
    """

    def __init__(
        self,
        profile: FirmwareProfile,
        sensor: SensorChip,
        outlet: Outlet,
        *,
        seed: int,
        device: int,
        start_ns: int,
        transports: Iterable[Transport],
        interval_ms: int | None = None,
        ppm: float | None = None,
        uptime_s: float | None = None,
        autorun: bool = True,
        noise_per_line: float = 0.0,
        boots: bool = False,
        faults: Iterable[Fault] = (),
    ) -> None:
        self.profile = profile
        self.panel = Panel(autorun=autorun)
        self.boots = 0
        self._sensor = sensor
        self._outlet = outlet
        self._lines = [(transport, profile.lines[transport]) for transport in transports]
        self._period_s = profile.period(interval_ms)
        self._byte_ns = round(BITS_PER_BYTE * 1e9 / profile.baud(interval_ms))
        self._busy_ns = round(profile.busy_s * 1e9) + _LINE_BYTES * self._byte_ns if profile.busy_s else 0
        self._seed = seed
        self._device = device
        draws = generator(seed, "meter crystal", device)
        drawn_ppm, first = float(draws.uniform(-20.0, 20.0)), float(draws.random())
        self._ppm = drawn_ppm if ppm is None else ppm
        uptime_s = float(draws.uniform(10.0, 100_000.0)) if uptime_s is None else uptime_s
        self._clock_at_ns, self._clock_ms = start_ns, uptime_s * 1e3
        self._noise_per_line = noise_per_line
        self._noises = 0
        self._next_noise = self._draw_noise()
        self._messages = 0
        self._garbled = 0
        self._left = dict.fromkeys(_COUNTED, 0)
        self._busy_until_ns = 0
        self._silent_until_ns = 0
        self._line_free_ns = 0
        self._script: list[tuple[int, bytes]] = []
        self._faults: list[tuple[int, int, Fault]] = []
        self._injected = 0
        self._switches: list[tuple[int, bool]] = []
        self._lateness = self._draw_lateness()
        self._wanted_ns = start_ns + round(first * self._period_ns)  # when the timer wants the next line
        self._next_tick_ns = self._wanted_ns
        if boots:
            self._boot(start_ns)
        for fault in faults:
            self.inject(fault, start_ns)

    @property
    def due_ns(self) -> int:
        """The time at which `advance` has something to do next."""
        due = self._next_tick_ns
        for agenda in (self._script, self._faults, self._switches):
            if agenda and agenda[0][0] < due:
                due = agenda[0][0]
        return due

    @property
    def booting(self) -> bool:
        """Between a reset and the first line: no network."""
        return bool(self._script)

    def inject(self, fault: Fault, now_ns: int) -> None:
        """Let `fault` happen `fault.at_s` after `now_ns`."""
        self._injected += 1
        heapq.heappush(self._faults, (now_ns + round(fault.at_s * 1e9), self._injected, fault))

    def advance(self, now_ns: int) -> list[Printed]:
        """Everything printed up to `now_ns`, in order."""
        out: list[Printed] = []
        while (due_ns := self.due_ns) <= now_ns:
            self._step(due_ns, out)
        return out

    def switch(self, ns: int, *, on: bool) -> None:
        """Output on or off; off also clears the watt-hours."""
        if on:
            self._outlet.on(ns)
        else:
            self._outlet.off(ns)
            self.panel.watt_s = 0.0
        self.panel.on = on

    @property
    def _period_ns(self) -> int:
        return round(self._period_s * 1e9 * (1.0 + self._ppm * 1e-6))

    def _step(self, ns: int, out: list[Printed]) -> None:
        if self._faults and self._faults[0][0] == ns:
            self._strike(heapq.heappop(self._faults)[2], ns)
        elif self._switches and self._switches[0][0] == ns:
            self.switch(ns, on=self._switches.pop(0)[1])
        elif self._script and self._script[0][0] == ns:
            self._chat(*self._script.pop(0), out)
        else:
            if ns >= self._silent_until_ns:
                self._print(ns, out)
            # The timer adds its period to the last due time, so after a stall it catches up.
            self._wanted_ns += self._period_ns
            self._next_tick_ns = max(self._wanted_ns, ns + self._busy_ns, self._busy_until_ns)
            if self._busy_ns:
                self._next_tick_ns += next(self._lateness)

    def _strike(self, fault: Fault, ns: int) -> None:
        end_ns = ns + round(fault.duration_s * 1e9)
        match fault.kind:
            case FaultKind.STALL:
                self._busy_until_ns = max(self._busy_until_ns, end_ns)
                self._next_tick_ns = max(self._next_tick_ns, self._busy_until_ns)
            case FaultKind.SILENCE:
                self._silent_until_ns = max(self._silent_until_ns, end_ns)
            case FaultKind.OFF:
                self.switch(ns, on=False)
                self._switches = sorted([*self._switches, (end_ns, True)])
            case FaultKind.RESET:
                self._boot(ns)
            case FaultKind.SKEW:
                self._clock_ms, self._clock_at_ns = self._millis(ns), ns
                self._ppm = fault.ppm
            case FaultKind.UNPLUG | FaultKind.SECOND_CLIENT:
                pass  # happen to the port, not to the firmware
            case kind:
                self._left[kind] += fault.count

    def _boot(self, ns: int) -> None:
        profile = self.profile
        self.boots += 1
        self._busy_until_ns = self._silent_until_ns = 0
        self.switch(ns, on=False)
        self.panel.reset()
        self._switches = [(ns + round(profile.output_s * 1e9), True)] if self.panel.autorun else []
        self._script = [(ns + round(at_s * 1e9), text) for at_s, text in profile.boot]
        if profile.rom:  # it talks at 74880 baud
            self._script.insert(0, (ns + 60_000_000, self._random_bytes(70)))
        self._clock_at_ns, self._clock_ms = ns, 0.0
        self._wanted_ns = self._next_tick_ns = ns + round(profile.boot_s * 1e9)

    def _print(self, ns: int, out: list[Printed]) -> None:
        """One line per transport, with all that is wrong with it."""
        printout = self._printout(ns)
        spelled = [
            (transport, line) for transport, spell in self._lines if (line := spell(printout)) is not None
        ]
        if not spelled:
            return
        if self._take(FaultKind.GARBAGE):
            garbage = self._random_bytes(24)
            for transport, _ in spelled:
                self._send(ns, transport, garbage, out)
        self._next_noise -= 1
        if self._next_noise == 0:
            self._next_noise = self._draw_noise()
            self._chat(ns, self._message(), out)
        if self._take(FaultKind.DROP):
            return
        truncated = self._take(FaultKind.TRUNCATE)
        message = self._message() if self._take(FaultKind.NOISE) else None
        for transport, line in spelled:
            if truncated:
                line = line[: 1 + len(line) // 2]
            if message is not None and transport is Transport.SERIAL:
                line = line[:9] + message + line[9:]
            self._send(ns, transport, line, out)

    def _printout(self, ns: int) -> Printout:
        panel = self.panel
        meter_ms = int(self._millis(ns)) % 2**32
        before_wh = panel.watt_s / 3600.0
        if not panel.on:
            return Printout(False, 0.0, 0.0, 0.0, before_wh, before_wh, meter_ms)
        read = self._sensor.read(self._outlet.signal, ns, panel.supply_v)
        if self.profile.watt_hours is WattHours.ELAPSED:
            panel.watt_s += read.watts * self._period_s
        elif self.profile.watt_hours is WattHours.BROWSER and panel.browser and panel.counting:
            panel.watt_s += read.watts  # a tick counts as a second, of any length
        return Printout(
            True,
            read.volts,
            read.amps,
            read.watts,
            panel.watt_s / 3600.0,
            before_wh,
            meter_ms,
            read.shunt_v,
        )

    def _millis(self, ns: int) -> float:
        return self._clock_ms + (ns - self._clock_at_ns) * 1e-6 / (1.0 + self._ppm * 1e-6)

    def _chat(self, ns: int, data: bytes, out: list[Printed]) -> None:
        """Text that only the serial port carries."""
        if any(transport is Transport.SERIAL for transport, _ in self._lines):
            self._send(ns, Transport.SERIAL, data, out)

    def _send(self, ns: int, transport: Transport, data: bytes, out: list[Printed]) -> None:
        if transport is Transport.SERIAL:
            ns = self._line_free_ns = max(ns, self._line_free_ns) + len(data) * self._byte_ns
        out.append(Printed(ns, transport, data))

    def _take(self, kind: FaultKind) -> bool:
        if self._left[kind]:
            self._left[kind] -= 1
            return True
        return False

    def _message(self) -> bytes:
        if not self.profile.messages:
            return b"\r\n"  # what breaks a line in two, of a firmware that prints nothing else
        self._messages += 1
        return self.profile.messages[self._messages % len(self.profile.messages)]

    def _random_bytes(self, count: int) -> bytes:
        self._garbled += 1
        return generator(self._seed, "meter garbage", self._device, self._garbled).bytes(count)

    def _draw_noise(self) -> int:
        """After how many lines the next debug message comes (-1: never)."""
        if self._noise_per_line <= 0.0 or not self.profile.messages:
            return -1
        self._noises += 1
        draws = generator(self._seed, "meter noise", self._device, self._noises)
        return int(draws.geometric(min(1.0, self._noise_per_line)))

    def _draw_lateness(self) -> Iterator[int]:
        """By how many ns another task holds up each line, drawn a thousand at a time."""
        block = 0
        while True:
            draws = generator(self._seed, "meter lateness", self._device, block)
            held = draws.random(1000) < self.profile.late_share
            yield from (held * draws.random(1000) * self.profile.late_s * 1e9).astype("int64").tolist()
            block += 1


_COUNTED: Final = (FaultKind.DROP, FaultKind.TRUNCATE, FaultKind.GARBAGE, FaultKind.NOISE)
