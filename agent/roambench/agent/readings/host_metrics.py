"""State of the board itself: CPU, memory, temperature, frequency, network bytes, throttle bits.
Sampled into the spool as the settings or the present run want it.

Cheap enough to run beside a measurement: a sample reads six small files that were looked up once, forks
nothing, sends nothing (it goes to the spool), and is taken less often than asked for when it would cost more
than 0.5 % of a core.

On an emulated board the machine's CPU share, memory, temperature and frequency are those of the laptop, which
carries a whole fleet: they are left NaN or -1. Only what is really the agent's is kept, its CPU seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

import psutil

from roambench.agent.reporter import RecordPort
from roambench.agent.settings import HostSettings
from roambench.contract.device_time import DeviceClock
from roambench.contract.phases import MEASURED_PHASES, Phase
from roambench.contract.records import HostSample, RecordKind

#: The share of one core that sampling may cost; a dearer sample is taken less often.
MOST_CPU_SHARE: Final = 0.005
_GET_THROTTLED: Final = "devices/platform/soc/soc:firmware/get_throttled"
_FREQUENCY: Final = "devices/system/cpu/cpu0/cpufreq/scaling_cur_freq"
_TEMPERATURE_NAMES: Final = ("cpu_thermal", "cpu-thermal")
_UNDER_VOLTAGE: Final = 1  # bit 0 of `vcgencmd get_throttled`


class HostMetrics:
    """Takes samples. `emulated`: this machine stands for a board and is not one."""

    def __init__(self, settings: HostSettings, *, emulated: bool) -> None:
        self._settings = settings
        self._emulated = emulated
        sysfs = Path(settings.sysfs)
        # Found by name once: hwmon numbers change from boot to boot, and looking for them costs 0.2 ms.
        self._temperature = _first(
            _hwmon(sysfs, _TEMPERATURE_NAMES, "temp1_input"), _thermal_zone(sysfs, _TEMPERATURE_NAMES)
        )
        self._under_voltage = _hwmon(sysfs, ("rpi_volt",), "in0_lcrit_alarm")
        self._throttled = _first(sysfs / _GET_THROTTLED)
        self._frequency = _first(sysfs / _FREQUENCY)
        self._self = psutil.Process()
        self._family: list[psutil.Process] | None = None
        self._busy_s, self._all_s = _cpu_seconds()

    def sample(self, ns: int) -> HostSample:
        """Take a sample at `ns` of device time. Values that the board does not give stay NaN or -1.

        `cpu_share` covers the time since the sample before (or since this object was made).
        """
        agent_cpu_s = self._agent_cpu_s()
        if self._emulated:
            return HostSample(ns, agent_cpu_s=agent_cpu_s)
        sent, received = self._network()
        return HostSample(
            ns,
            cpu_share=self._cpu_share(),
            agent_cpu_s=agent_cpu_s,
            memory_used_bytes=psutil.virtual_memory().used,
            temperature_c=_scaled(self._temperature, 1e-3),
            cpu_mhz=_scaled(self._frequency, 1e-3),
            sent_bytes=sent,
            received_bytes=received,
            throttle_bits=self._throttle_bits(),
        )

    def _cpu_share(self) -> float:
        busy_s, all_s = _cpu_seconds()
        busy, passed = busy_s - self._busy_s, all_s - self._all_s
        self._busy_s, self._all_s = busy_s, all_s
        return min(1.0, max(0.0, busy / passed)) if passed > 0.0 else math.nan

    def _agent_cpu_s(self) -> float:
        """CPU seconds of reader, fork server and trainers; a trainer that died is in its fork server's
        account."""
        if self._family is None:  # 5 ms with 300 processes: only when one died or was born
            self._family = self._self.children(recursive=True)
        used_s = time.process_time()
        for process in self._family:
            try:
                times = process.cpu_times()
            except psutil.Error:
                self._family = None
                break
            used_s += times.user + times.system + times.children_user + times.children_system
        return used_s

    def _network(self) -> tuple[int, int]:
        """Bytes sent and received since boot: of the interface asked for, else of all but loopback."""
        counters = psutil.net_io_counters(pernic=True, nowrap=False)
        wanted = self._settings.interface
        if wanted:
            found = [counters[wanted]] if wanted in counters else []
        else:
            found = [count for name, count in counters.items() if name != "lo"]
        if not found:
            return -1, -1
        return sum(count.bytes_sent for count in found), sum(count.bytes_recv for count in found)

    def _throttle_bits(self) -> int:
        """Bits as `vcgencmd get_throttled` spells them; of the under-voltage alarm alone only bit 0 is
        known."""
        text = _text(self._throttled)
        if text is None and self._settings.vcgencmd:
            text = _ask_vcgencmd(self._settings.vcgencmd)
        if text is not None:
            try:
                return int(text.removeprefix("throttled="), 16) & 0xF000F
            except ValueError:
                return -1
        alarm = _text(self._under_voltage)
        return -1 if alarm is None else _UNDER_VOLTAGE * (alarm == "1")


class SampleTaker(Protocol):
    """Port to where samples go."""

    @property
    def wants_none(self) -> bool:
        """Return whether no sample may be taken now (in a measured phase, if `during_phases` is off)."""
        ...

    def take(self, sample: HostSample) -> None:
        """Keep a sample."""
        ...


async def watch_host(
    metrics: HostMetrics, settings: HostSettings, clock: DeviceClock, taker: SampleTaker
) -> None:
    """Give `taker` a sample every `settings.period_s` of device time, until cancelled.

    The pause between two samples is long enough that they cost no more than MOST_CPU_SHARE of a core.
    """
    while True:
        cost_s = 0.0
        if not taker.wants_none:
            before_s = time.thread_time()
            taker.take(metrics.sample(clock.now_ns()))
            cost_s = time.thread_time() - before_s
        await asyncio.sleep(max(clock.host_seconds(settings.period_s), cost_s / MOST_CPU_SHARE))


def _cpu_seconds() -> tuple[float, float]:
    times = psutil.cpu_times()
    # Guest time is in user time already.
    passed_s = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    return passed_s - times.idle - getattr(times, "iowait", 0.0), passed_s


def _hwmon(sysfs: Path, names: tuple[str, ...], file: str) -> Path | None:
    """`file` of the sensor that calls itself one of `names`."""
    return _named(sysfs / "class/hwmon", "hwmon*", "name", names, file)


def _thermal_zone(sysfs: Path, names: tuple[str, ...]) -> Path | None:
    return _named(sysfs / "class/thermal", "thermal_zone*", "type", names, "temp")


def _named(folder: Path, pattern: str, label: str, names: tuple[str, ...], file: str) -> Path | None:
    for place in sorted(folder.glob(pattern)):
        if _text(place / label) in names and (place / file).exists():
            return place / file
    return None


def _first(*paths: Path | None) -> Path | None:
    return next((path for path in paths if path is not None and path.exists()), None)


def _text(path: Path | None) -> str | None:
    if path is None:
        return None
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return path.read_text(encoding="ascii").strip()
    return None


def _scaled(path: Path | None, factor: float) -> float:
    text = _text(path)
    if text is not None:
        with contextlib.suppress(ValueError):
            return int(text) * factor
    return math.nan


def _ask_vcgencmd(command: str) -> str | None:
    """A fork and some milliseconds of a Pi per sample: only where the settings ask for it."""
    try:
        answer = subprocess.run(
            [command, "get_throttled"], capture_output=True, text=True, timeout=1.0, check=True
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return answer.stdout.strip()


class HostWatch:
    """Samples while an agent lives. While it is `hushed`, it takes no sample in any phase."""

    def __init__(
        self, settings: HostSettings, clock: DeviceClock, records: RecordPort, *, emulated: bool
    ) -> None:
        self._settings = self._now = settings
        self._clock = clock
        self._records = records
        self._emulated = emulated
        self._in_measured_phase = False
        self.hushed = False
        self._changed = asyncio.Event()

    def follow(self, phase: Phase, ns: int = 0, mbit_s: float = 0.0) -> None:
        """Call when a phase has begun."""
        self._in_measured_phase = phase in MEASURED_PHASES

    @property
    def wants_none(self) -> bool:
        """Return whether no sample may be taken now."""
        return self.hushed or (self._in_measured_phase and not self._now.during_phases)

    def take(self, sample: HostSample) -> None:
        """Keep a sample."""
        self._records.append(RecordKind.HOST, sample.to_bytes())

    def sample_every(self, period_s: float, *, during_phases: bool) -> None:
        """Sample from now on as a run wants it."""
        self._sample(replace(self._settings, period_s=max(0.0, period_s), during_phases=during_phases))

    def forget_run(self) -> None:
        """Sample from now on as the settings have it."""
        self._sample(self._settings)

    def _sample(self, settings: HostSettings) -> None:
        if settings != self._now:
            self._now = settings
            self._changed.set()

    async def run(self) -> None:
        """Sample for ever, with the period of the moment; cancel it to stop. Raises what a sample raises."""
        while True:
            self._changed.clear()
            tasks = [asyncio.create_task(self._wait_for_a_change())]
            if self._now.period_s > 0:
                tasks.append(asyncio.create_task(self._keep_samples(self._now)))
            try:
                ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            for task in ended:
                task.result()

    async def _wait_for_a_change(self) -> None:
        await self._changed.wait()

    async def _keep_samples(self, settings: HostSettings) -> None:
        metrics = HostMetrics(settings, emulated=self._emulated)
        await watch_host(metrics, settings, self._clock, self)
