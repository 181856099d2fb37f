"""Host samples from the real /proc and from a /sys tree made of files, as a Pi has them."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from roambench.agent.readings.host_metrics import HostMetrics, watch_host
from roambench.agent.settings import HostSettings
from roambench.contract.device_time import DeviceClock
from roambench.contract.records import HostSample


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    """hwmon0 is something else and thermal comes second, so only names can find the right ones."""
    for path, text in {
        "class/hwmon/hwmon0/name": "nvme\n",
        "class/hwmon/hwmon0/temp1_input": "11000\n",
        "class/hwmon/hwmon0/in0_lcrit_alarm": "1\n",
        "class/hwmon/hwmon1/name": "cpu_thermal\n",
        "class/hwmon/hwmon1/temp1_input": "61234\n",
        "class/hwmon/hwmon2/name": "rpi_volt\n",
        "class/hwmon/hwmon2/in0_lcrit_alarm": "0\n",
        "devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "1200000\n",
        "devices/platform/soc/soc:firmware/get_throttled": "80008\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def metrics(sysfs: Path, *, emulated: bool = False, interface: str = "lo", vcgencmd: str = "") -> HostMetrics:
    return HostMetrics(
        HostSettings(sysfs=str(sysfs), interface=interface, vcgencmd=vcgencmd), emulated=emulated
    )


def test_what_a_pi_says_in_its_sys_tree_is_read_by_name(sysfs: Path) -> None:
    sample = metrics(sysfs).sample(7)
    assert (sample.monotonic_ns, sample.temperature_c, sample.cpu_mhz) == (7, 61.234, 1200.0)
    assert sample.throttle_bits == 0b1000 | 0b1000 << 16  # soft temperature limit, now and since boot


def test_without_the_firmwares_bits_the_voltage_alarm_alone_tells_of_bit_0(sysfs: Path) -> None:
    (sysfs / "devices/platform/soc/soc:firmware/get_throttled").unlink()
    alarm = sysfs / "class/hwmon/hwmon2/in0_lcrit_alarm"
    watching = metrics(sysfs)
    assert watching.sample(1).throttle_bits == 0
    alarm.write_text("1\n")
    assert watching.sample(2).throttle_bits == 1
    alarm.unlink()  # the driver was unloaded meanwhile
    assert watching.sample(3).throttle_bits == -1


@pytest.mark.parametrize("damaged", ["", "garbage", "\xff", "0xZZ"])
def test_a_damaged_file_is_not_known_and_not_an_error(sysfs: Path, damaged: str) -> None:
    (sysfs / "devices/platform/soc/soc:firmware/get_throttled").write_bytes(damaged.encode("latin-1"))
    (sysfs / "class/hwmon/hwmon1/temp1_input").write_bytes(damaged.encode("latin-1"))
    (sysfs / "class/hwmon/hwmon2/in0_lcrit_alarm").unlink()
    sample = metrics(sysfs).sample(1)
    assert sample.throttle_bits == -1
    assert math.isnan(sample.temperature_c)


def test_a_machine_that_is_no_pi_leaves_open_what_it_does_not_know(tmp_path: Path) -> None:
    sample = metrics(tmp_path, interface="no-such-interface").sample(1)
    assert math.isnan(sample.temperature_c)
    assert math.isnan(sample.cpu_mhz)
    assert (sample.throttle_bits, sample.sent_bytes, sample.received_bytes) == (-1, -1, -1)
    assert sample.memory_used_bytes == pytest.approx(psutil.virtual_memory().used, rel=0.5)


def test_vcgencmd_is_asked_only_where_it_is_named_and_the_tree_says_nothing(sysfs: Path) -> None:
    command = sysfs / "vcgencmd"
    command.write_text('#!/bin/sh\n[ "$1" = get_throttled ] && echo throttled=0x50005\n')
    command.chmod(0o755)
    assert metrics(sysfs, vcgencmd=str(command)).sample(1).throttle_bits == 0x80008
    (sysfs / "devices/platform/soc/soc:firmware/get_throttled").unlink()
    assert metrics(sysfs, vcgencmd=str(command)).sample(1).throttle_bits == 0x50005
    assert metrics(sysfs).sample(1).throttle_bits == 0  # the voltage alarm's word
    assert metrics(sysfs, vcgencmd=str(sysfs / "absent")).sample(1).throttle_bits == 0


def test_an_emulated_board_is_not_given_the_laptops_temperature(sysfs: Path) -> None:
    sample = metrics(sysfs, emulated=True).sample(9)
    assert sample.agent_cpu_s > 0.0
    assert repr(sample) == repr(HostSample(9, agent_cpu_s=sample.agent_cpu_s))


def test_bytes_of_the_named_interface_are_counted(sysfs: Path) -> None:
    """Loopback is named here; 2 MB go over it. Other traffic of this machine may add to it."""
    watching = metrics(sysfs)
    before = watching.sample(1)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as there,
        server.accept()[0] as back,
    ):
        for _ in range(32):
            there.sendall(bytes(65536))
            left = 65536
            while left:
                left -= len(back.recv(left))
    after = watching.sample(2)
    assert after.sent_bytes - before.sent_bytes >= 32 * 65536
    assert after.received_bytes - before.received_bytes >= 32 * 65536


def test_cpu_share_is_that_of_all_cores_since_the_sample_before(sysfs: Path) -> None:
    watching = metrics(sysfs)
    watching.sample(1)
    end_s = time.monotonic() + 0.5
    while time.monotonic() < end_s:
        pass
    share = watching.sample(2).cpu_share
    assert 0.4 / (os.cpu_count() or 1) < share <= 1.0


_FAMILY = """
import sys
from roambench.agent.orders.worker import start_trainer_fork_server

def load():
    def serve(link):
        while command := link.recv(1):
            if command == b"x":
                raise SystemExit(3)
            spent = 0
            for number in range(3_000_000):
                spent += number
            link.sendall(bytes(1))  # no byte of the news of a death
    return serve

link, _ = start_trainer_fork_server(0, load)
from roambench.agent.readings.host_metrics import HostMetrics
from roambench.agent.settings import HostSettings
metrics = HostMetrics(HostSettings(), emulated=True)
print(metrics.sample(1).agent_cpu_s, flush=True)
for command in sys.stdin:
    command = command.strip()
    if command == "work":
        link.sendall(b"w")
        while link.recv(1) != bytes(1):
            pass
    print(metrics.sample(1).agent_cpu_s, flush=True)
"""


@contextlib.contextmanager
def agent_family() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", _FAMILY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


def test_the_trainers_seconds_are_the_agents_and_stay_so_when_it_dies() -> None:
    """A real fork server with a real trainer; after its death the next one's work comes on top."""
    with agent_family() as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def ask(command: str) -> float:
            process.stdin.write(command + "\n")
            process.stdin.flush()
            return float(process.stdout.readline())

        start_s = float(process.stdout.readline())
        worked_s = ask("work")
        assert worked_s - start_s >= 0.05
        (fork_server,) = psutil.Process(process.pid).children()
        (trainer,) = fork_server.children()
        trainer.send_signal(signal.SIGKILL)
        psutil.wait_procs([trainer], timeout=60)
        for _ in range(200):
            if fork_server.children() and fork_server.children()[0].pid != trainer.pid:
                break
            time.sleep(0.02)
        after_death = [ask("look") for _ in range(3)]
        assert min(after_death[1:]) >= worked_s - 0.03  # the kernel counts in hundredths
        assert ask("work") - after_death[-1] >= 0.05


@pytest.mark.asyncio
async def test_samples_are_taken_seldom_enough_that_they_cost_no_more_than_half_a_per_cent() -> None:
    """A sample of 4 ms CPU every millisecond would be a core of its own: 0.8 s must pass between two."""

    class Dear(HostMetrics):
        def sample(self, ns: int) -> HostSample:
            end_s = time.thread_time() + 0.004
            while time.thread_time() < end_s:
                pass
            return HostSample(ns)

    settings = HostSettings(period_s=0.001)
    taken: list[int] = []
    task = asyncio.create_task(
        watch_host(
            Dear(settings, emulated=True),
            settings,
            DeviceClock(),
            SimpleNamespace(wants_none=False, take=lambda sample: taken.append(sample.monotonic_ns)),
        )
    )
    async with asyncio.timeout(30):
        while len(taken) < 2:
            await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert taken[1] - taken[0] >= 0.8e9


@pytest.mark.asyncio
async def test_no_sample_is_taken_while_it_is_unwanted() -> None:
    settings = HostSettings(period_s=0.02)
    taken: list[HostSample] = []
    taker = SimpleNamespace(wants_none=True, take=taken.append)
    task = asyncio.create_task(
        watch_host(HostMetrics(settings, emulated=True), settings, DeviceClock(), taker)
    )
    await asyncio.sleep(0.2)
    assert taken == []
    taker.wants_none = False
    async with asyncio.timeout(60):
        while not taken:
            await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
