"""What one sample of the board itself costs the agent, and how much of a Pi's core that is.

    python benchmarks/host_metrics.py [--samples 2000]

The goal is 0.5 % of one core of a Raspberry Pi 3B+ at the default period of 5 s: 25 ms of its CPU per sample.
A Pi's core needs some 12 times the CPU seconds of this one (`local.cpu_slowdown`), so 2 ms here. The parts
are measured alone, too, and the calls that were left out: looking for children and sensors every time.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from setting.figures import keep

from roambench.agent.readings.host_metrics import MOST_CPU_SHARE, HostMetrics
from roambench.agent.settings import HostSettings
from roambench.contract.records import RecordKind
from roambench.spool.spool import Spool

PI_SLOWDOWN = 12.0
PERIOD_S = HostSettings().period_s
ROUNDS = 5


def cpu_us(work: Callable[[], object], times: int) -> float:
    """CPU microseconds of one call: the median of some rounds."""
    work()
    rounds = []
    for _ in range(ROUNDS):
        before_s = time.thread_time()
        for _ in range(times):
            work()
        rounds.append((time.thread_time() - before_s) / times * 1e6)
    return statistics.median(rounds)


def pi_tree(folder: Path) -> Path:
    """The files that a Pi has and this machine may lack."""
    for path, text in {
        "class/hwmon/hwmon0/name": "cpu_thermal\n",
        "class/hwmon/hwmon0/temp1_input": "61234\n",
        "class/hwmon/hwmon1/name": "rpi_volt\n",
        "class/hwmon/hwmon1/in0_lcrit_alarm": "0\n",
        "devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "1400000\n",
        "devices/platform/soc/soc:firmware/get_throttled": "0\n",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--samples", type=int, default=2000)
    count = parser.parse_args().samples
    with tempfile.TemporaryDirectory(prefix="roambench-") as name:
        folder = Path(name)
        metrics = HostMetrics(HostSettings(sysfs=str(pi_tree(folder / "sys"))), emulated=False)
        spool = Spool(folder / "spool.sqlite")
        sample_us = cpu_us(lambda: metrics.sample(1), count)
        kept_us = cpu_us(lambda: spool.append(RecordKind.HOST, metrics.sample(1).to_bytes()), count)
        process = psutil.Process()
        print(f"a sample             {sample_us:7.0f} us of CPU, {kept_us:.0f} us with its row in the spool")
        for what, work in (
            ("CPU times", psutil.cpu_times),
            ("memory", psutil.virtual_memory),
            ("network bytes", lambda: psutil.net_io_counters(pernic=True, nowrap=False)),
        ):
            print(f"  {what:18} {cpu_us(work, count):7.0f} us")
        print("left out of it:")
        for what, work in (
            ("children, each time", lambda: process.children(recursive=True)),
            ("sensors, each time", psutil.sensors_temperatures),
        ):
            print(f"  {what:18} {cpu_us(work, max(1, count // 20)):7.0f} us")
        share = kept_us * 1e-6 * PI_SLOWDOWN / PERIOD_S
        keep("host_metrics of a Pi's core", share * 100)
        print(
            f"on a Pi (x {PI_SLOWDOWN:.0f}) every {PERIOD_S:.0f} s: {share:.3%} of a core, "
            f"goal {MOST_CPU_SHARE:.1%}: {'met' if share <= MOST_CPU_SHARE else 'NOT MET'}"
        )
        spool.close()


if __name__ == "__main__":
    main()
