"""Many meter loggers, one process each, on emulated 10 Hz meters: what they read, and killing them."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from influx_servers import Influxd
from roambench.agent.readings.witness import Witnessed, read_witness
from roambench.agent.settings import AgentSettings, MeterSettings
from roambench.contract.device_time import DeviceClock
from roambench.contract.records import Reading
from roambench.emulation.control import stats
from roambench.emulation.spec import EmulatedDevice, EmulatorSpec
from roambench.spool.influx_settings import InfluxSettings

PERIOD_S = 0.1

#: As a fork server would have it, but for what its process has loaded.
_FORKED = "import sys; from roambench.fleet.agent_fork_server import forked; sys.exit(forked(sys.argv[1]))"

#: (device, seq, ns, volts, amps, watts, wh, flags, meter_ms): a reading as somebody remembers it.
Fact = tuple[str, int, int, float, float, float, float | None, int, int]


@dataclass
class Loggers:
    """Meter loggers of one fork server; `facts` is what they wrote into their notebooks."""

    folder: Path
    names: tuple[str, ...]
    clock: DeviceClock
    emulator_socket: Path
    fork_server: subprocess.Popen[bytes]
    reports: socket.socket  # the other end of its standard input
    pids: dict[str, int] = field(default_factory=dict)
    kills: int = 0

    def follow(self) -> None:
        with self.reports.makefile("rb") as lines:
            for line in lines:
                news = json.loads(line)
                if "started" in news:
                    self.pids[news["started"]] = news["pid"]
                else:
                    self.pids.pop(news["exited"], None)

    def kill(self, name: str) -> bool:
        """SIGKILL; False if it is not there just now."""
        pid = self.pids.pop(name, 0)
        if pid:
            os.kill(pid, signal.SIGKILL)
            self.kills += 1
        return bool(pid)

    def stop(self) -> None:
        """SIGTERM to all: each drains what it has and ends."""
        with contextlib.suppress(OSError):  # it is gone
            self.reports.shutdown(socket.SHUT_WR)
        self.fork_server.wait(60)

    def notebook(self, name: str) -> Witnessed:
        return read_witness(self.folder / name / "witness.txt")

    def everybody_reads(self) -> bool:
        return all(len(self.notebook(name).spooled) > 1 for name in self.names)

    def facts(self) -> tuple[set[Fact], set[tuple[str, int]]]:
        """What was read and spooled; and (device, ns) of readings in hand when their reader was killed."""
        notes = {name: self.notebook(name) for name in self.names}
        spooled = {_fact(name, seq, reading) for name in notes for seq, reading in notes[name].spooled}
        in_hand = {(name, reading.monotonic_ns) for name in notes for reading in notes[name].in_hand}
        return spooled, in_hand

    def lines_emitted(self) -> int:
        """Lines that all meters together have printed so far."""
        count = stats(self.emulator_socket)["chunks"]
        assert isinstance(count, int)
        return count


def _fact(name: str, seq: int, reading: Reading) -> Fact:
    hours = None if math.isnan(reading.watt_hours) else reading.watt_hours
    measured = reading.volts, reading.amps, reading.watts, hours
    return name, seq, reading.monotonic_ns, *measured, int(reading.flags), reading.meter_ms


def stored_facts(influxd: Influxd, database: str) -> list[Fact]:
    """Every reading that InfluxDB holds."""
    columns = "seq, monotonic_ns, volts, amps, watts, wh, flags, meter_ms"
    rows = influxd.rows(f'SELECT {columns} FROM "power" GROUP BY "device"', database)
    names = columns.split(", ")
    return [(row["device"], *(row[name] for name in names)) for row in rows]  # type: ignore[misc]


@contextmanager
def meter_loggers(folder: Path, count: int, time_scale: float, influxdb: InfluxSettings) -> Iterator[Loggers]:
    """`count` emulated meters of 10 Hz, each read by a process of its own, all draining to `influxdb`."""
    names = tuple(f"pi-{number:02d}" for number in range(1, count + 1))
    clock = DeviceClock(time.monotonic_ns(), time_scale)
    (folder / "truth").mkdir(parents=True)
    spec = EmulatorSpec(
        devices=tuple(EmulatedDevice(name, str(folder / f"{name}.tty")) for name in names),
        socket_path=str(folder / "work.sock"),
        truth_dir=str(folder / "truth"),
        seed=3,
        epoch_ns=clock.epoch_ns,
        time_scale=time_scale,
        profile="smartpower2-100ms",
        noise_per_line=0.0,
    )
    agents = [
        AgentSettings(
            name,
            state_dir=str(folder / name),
            run="kills",
            epoch_ns=clock.epoch_ns,
            time_scale=time_scale,
            meter=MeterSettings(
                "smartpower2-100ms", str(folder / f"{name}.tty"), reopen_allowed=True, witness=True
            ),
            influxdb=influxdb,
        )
        for name in names
    ]
    (folder / "emulator.json").write_text(spec.to_json())
    (folder / "agents.json").write_text(
        json.dumps({"agents": [asdict(agent) for agent in agents], "restart_delay_s": 0.5})
    )
    emulator = _spawn("roambench.emulation", "--until-eof", str(folder / "emulator.json"))
    try:
        while not Path(spec.socket_path).exists():
            assert emulator.poll() is None
            time.sleep(0.02)
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-c", _FORKED, folder / "agents.json"]
            fork_server = subprocess.Popen(command, stdin=theirs)
        loggers = Loggers(folder, names, clock, Path(spec.socket_path), fork_server, ours)
        news = threading.Thread(target=loggers.follow)
        news.start()
        try:
            yield loggers
        finally:
            loggers.stop()
            news.join()
            ours.close()
    finally:
        assert emulator.stdin is not None
        emulator.stdin.close()
        emulator.wait(20)
        _close(emulator)


def _spawn(module: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _close(process: subprocess.Popen[str]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
