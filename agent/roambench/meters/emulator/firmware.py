"""A meter's firmware in device time: boots, reads its sensor once a period, prints, goes wrong on demand.

Pure: `advance` returns what was printed and when; nobody sleeps here.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Final

from roambench.contract.draws import generator
from roambench.meters.emulator.profiles import FirmwareProfile
from roambench.meters.emulator.sensor import Ina231
from roambench.meters.emulator.signal import PowerSignal
from roambench.meters.emulator.spec import Fault, FaultKind

#: (device time at which the last byte left, bytes)
Chunk = tuple[int, bytes]

#: 115200 baud, ten bits a byte.
BYTE_NS: Final = round(1e10 / 115_200)


class Firmware:
    """One meter's line. `boots`: it is switched on at `start_ns`; otherwise it has been running before."""

    def __init__(
        self,
        profile: FirmwareProfile,
        sensor: Ina231,
        signal: PowerSignal,
        *,
        seed: int,
        device: int,
        start_ns: int,
        ppm: float | None = None,
        noise_per_line: float = 0.0,
        boots: bool = False,
        faults: Iterable[Fault] = (),
    ) -> None:
        self._profile = profile
        self._sensor = sensor
        self._signal = signal
        self._seed = seed
        self._device = device
        draws = generator(seed, "meter crystal", device)
        drawn_ppm, first = float(draws.uniform(-20.0, 20.0)), float(draws.random())
        self._ppm = drawn_ppm if ppm is None else ppm
        self._noise_per_line = noise_per_line
        self._noises = 0
        self._next_noise = self._draw_noise()
        self._messages = 0
        self._garbled = 0
        self._left = dict.fromkeys(_COUNTED, 0)
        self._busy_until_ns = 0
        self._silent_until_ns = 0
        self._missed = 0
        self._script: list[Chunk] = []
        self._faults: list[tuple[int, int, Fault]] = []
        self._injected = 0
        self._next_tick_ns = start_ns + round(first * self._period_ns)
        if boots:
            self._boot(start_ns)
        for fault in faults:
            self.inject(fault, start_ns)

    @property
    def due_ns(self) -> int:
        """When `advance` has something to do next."""
        due = self._next_tick_ns
        if self._script:
            due = min(due, self._script[0][0])
        if self._faults:
            due = min(due, self._faults[0][0])
        if self._missed:
            due = min(due, self._busy_until_ns)
        return due

    def inject(self, fault: Fault, now_ns: int) -> None:
        """Let `fault` happen `fault.at_s` after `now_ns`."""
        self._injected += 1
        heapq.heappush(self._faults, (now_ns + round(fault.at_s * 1e9), self._injected, fault))

    def advance(self, now_ns: int) -> list[Chunk]:
        """Everything printed up to `now_ns`, in order."""
        out: list[Chunk] = []
        while self.due_ns <= now_ns:
            self._step(self.due_ns, out)
        return out

    @property
    def _period_ns(self) -> int:
        return round(self._profile.period_s * 1e9 * (1.0 + self._ppm * 1e-6))

    def _step(self, ns: int, out: list[Chunk]) -> None:
        if self._faults and self._faults[0][0] == ns:
            self._strike(heapq.heappop(self._faults)[2], ns)
        elif self._script and self._script[0][0] == ns:
            out.append(self._script.pop(0))
        elif self._missed and self._busy_until_ns == ns:
            # The timer fires once for every period it missed, with no pause between.
            for _ in range(self._missed):
                self._print(ns, out)
            self._missed = 0
        else:
            self._next_tick_ns += self._period_ns
            if ns < self._busy_until_ns:
                self._missed += 1
            elif ns >= self._silent_until_ns:
                self._print(ns, out)

    def _strike(self, fault: Fault, ns: int) -> None:
        end_ns = ns + round(fault.duration_s * 1e9)
        match fault.kind:
            case FaultKind.STALL:
                self._busy_until_ns = max(self._busy_until_ns, end_ns)
            case FaultKind.SILENCE | FaultKind.OFF:
                self._silent_until_ns = max(self._silent_until_ns, end_ns)
            case FaultKind.RESET:
                self._boot(ns)
            case FaultKind.SKEW:
                self._ppm = fault.ppm
            case kind:
                self._left[kind] += fault.count

    def _boot(self, ns: int) -> None:
        self._missed = self._busy_until_ns = self._silent_until_ns = 0
        rom = (ns + 60_000_000, self._random_bytes(70))  # the ROM talks at 74880 baud
        texts = [(ns + round(at_s * 1e9), text) for at_s, text in self._profile.boot]
        self._script = [rom, *texts]
        self._next_tick_ns = ns + round(self._profile.boot_s * 1e9)

    def _print(self, ns: int, out: list[Chunk]) -> None:
        """One line, with whatever is wrong with it."""
        read = self._sensor.read(self._signal, ns)
        # The watt-hour counter only runs while a browser watches: on serial it stays at zero.
        line = (self._profile.line % (read.volts, read.amps, read.watts, 0.0)).encode()
        if self._take(FaultKind.GARBAGE):
            self._send(ns, self._random_bytes(24), out)
        self._next_noise -= 1
        if self._next_noise == 0:
            self._next_noise = self._draw_noise()
            self._send(ns, self._message(), out)
        if self._take(FaultKind.DROP):
            return
        if self._take(FaultKind.TRUNCATE):
            line = line[: 1 + len(line) // 2]
        if self._take(FaultKind.NOISE):
            line = line[:9] + self._message() + line[9:]
        self._send(ns, line, out)

    def _send(self, ns: int, data: bytes, out: list[Chunk]) -> None:
        begin_ns = max(ns, out[-1][0]) if out else ns
        out.append((begin_ns + len(data) * BYTE_NS, data))

    def _take(self, kind: FaultKind) -> bool:
        if self._left[kind]:
            self._left[kind] -= 1
            return True
        return False

    def _message(self) -> bytes:
        self._messages += 1
        return self._profile.messages[self._messages % len(self._profile.messages)]

    def _random_bytes(self, count: int) -> bytes:
        self._garbled += 1
        return generator(self._seed, "meter garbage", self._device, self._garbled).bytes(count)

    def _draw_noise(self) -> int:
        """After how many lines the next debug message comes (-1: never)."""
        if self._noise_per_line <= 0.0:
            return -1
        self._noises += 1
        draws = generator(self._seed, "meter noise", self._device, self._noises)
        return int(draws.geometric(min(1.0, self._noise_per_line)))


_COUNTED: Final = (FaultKind.DROP, FaultKind.TRUNCATE, FaultKind.GARBAGE, FaultKind.NOISE)
