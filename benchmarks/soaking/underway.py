"""A run that is under way: its processes, its ports, its switches, and what has been done to it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

from roambench.contract.device_time import DeviceClock
from roambench.contract.events import EventKind
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState
from soaking.faults import KINDS
from soaking.hosts import SoakedHosts
from soaking.influxd import Influxd, free_port
from soaking.plan import Fault, PlannedRun
from soaking.processes import output_of, processes_of
from soaking.sockets import Found, both_ends, tcp_sockets
from soaking.worlds import WORLDS, World

#: Host seconds until a run has begun its first step, and until it has ended after that, on a slow machine.
BEGIN_PATIENCE_S: Final = 180.0
END_PATIENCE_S: Final = 420.0
#: Host seconds that processes of a run may outlive it.
ORPHAN_PATIENCE_S: Final = 45.0
_DATABASE: Final = "soak"
_TRANSFERS: Final = (EventKind.DOWNLOAD_STARTED, EventKind.UPLOAD_STARTED, EventKind.EXCHANGE_STARTED)


class Broken(Exception):
    """The run did not even get so far that it could be judged."""


@dataclass(frozen=True)
class Switches:
    """Faults of disks and clocks by a preloaded library (shim.c), which a file each turns on."""

    library: Path
    folder: Path

    @contextmanager
    def on(self, name: str, text: str) -> Iterator[None]:
        self.keep(name, text)
        try:
            yield
        finally:
            (self.folder / name).unlink(missing_ok=True)

    def keep(self, name: str, text: str) -> None:
        draft = self.folder / f"{name}.new{threading.get_ident()}"
        draft.write_text(text)
        draft.replace(self.folder / name)
        (self.folder / "armed").touch()


def compiled_shim(folder: Path) -> Path | None:
    """The library; None without a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    made = folder / "shim.so"
    source = str(Path(__file__).with_name("shim.c"))
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", str(made), source, "-ldl"], check=True)
    return made


def fleet_words(world: World, hosts: SoakedHosts | None) -> list[str]:
    """What a command says of the fleet of such a world."""
    if hosts is None:
        return ["--fleet", world.fleet]
    return ["--fleet", hosts.fleet, "--no-preflight", "--unproven"]


@dataclass(frozen=True)
class Struck:
    """What was really done: `begun_ns` to `ended_ns` of device time (0 where that is modelled)."""

    fault: Fault
    what: str
    begun_ns: int
    ended_ns: int


@dataclass
class Underway:
    """`folder` is the run's; `base` has the experiment's file, the log and the runs folder."""

    planned: PlannedRun
    base: Path
    switches: Switches | None
    influxd: Influxd | None = None
    hosts: SoakedHosts | None = None
    struck: list[Struck] = field(default_factory=list)
    not_done: list[str] = field(default_factory=list)  # faults that failed themselves
    ended_by: int | None = None
    status: int | None = None
    control_port: int = 0
    data_port: int = 0
    _process: subprocess.Popen[bytes] | None = None
    _clock: DeviceClock | None = None
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def world(self) -> World:
        return WORLDS[self.planned.world]

    @property
    def folder(self) -> Path:
        return (self.base / "runs" / self.world.reference).resolve()

    @property
    def log(self) -> Path:
        return self.base / "run.log"

    @property
    def controller(self) -> psutil.Process:
        assert self._process is not None
        return psutil.Process(self._process.pid)

    def text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def carry_out(self) -> None:
        """From the first process to the last; raises Broken."""
        self.base.mkdir(parents=True)
        more = ""
        if self.world.influxdb:
            self.influxd = Influxd(self.base / "influxd", free_port())
            self.influxd.start()
            self.influxd.create_database(_DATABASE)
            more = f'[influxdb]\nurl = "{self.influxd.url}"\nbucket = "{_DATABASE}"\napi = "v1"\n'
        file = self.base / "soak.toml"
        file.write_text(self.world.text(more))
        self._start(
            "run", str(file), *fleet_words(self.world, self.hosts), "--runs-dir", str(self.base / "runs")
        )
        try:
            self._wait_for_steps()
            if self.world.fleet != "simulated":
                self._look()
            threads = [threading.Thread(target=self._strike, args=(fault,)) for fault in self.planned.faults]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self._wait_for_end()
        finally:
            if self._process is not None and self._process.poll() is None:
                self._process.kill()
                self._process.wait()

    def left_over(self) -> list[str]:
        """Command lines of processes that outlive the run; they are killed."""
        deadline_s = time.monotonic() + ORPHAN_PATIENCE_S
        while (left := self._others()) and time.monotonic() < deadline_s:
            time.sleep(0.2)
        named = []
        for process in left:
            try:
                named.append(" ".join(process.cmdline()))
                process.kill()
            except psutil.Error:
                continue
        return named

    def _others(self) -> list[psutil.Process]:
        server = str(self.base / "influxd")
        found = []
        for process in processes_of(self.base):
            try:
                if not any(server in part for part in process.cmdline()):
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def _start(self, *words: str) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1", "COLUMNS": "200"}
        if self.switches is not None:
            environment |= {
                "LD_PRELOAD": str(self.switches.library),
                "SOAK_FAULTS": str(self.switches.folder),
            }
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "roambench.cli.main", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
                cwd=self.base,
            )

    def _wait_for_steps(self) -> None:
        deadline_s = time.monotonic() + BEGIN_PATIENCE_S
        while not self.count("StepOpened"):
            if self._process is None or self._process.poll() is not None:
                raise Broken(f"the run ended before its first step: {self.text()[-500:]}")
            if time.monotonic() > deadline_s:
                raise Broken(f"no step within {BEGIN_PATIENCE_S:.0f} s: {self.text()[-500:]}")
            time.sleep(0.05)

    def _wait_for_end(self) -> None:
        """A resumed run's process is another one by now."""
        assert self._process is not None
        try:
            self.status = self._process.wait(END_PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise Broken(f"not ended {END_PATIENCE_S:.0f} s after the last fault") from None

    def _look(self) -> None:
        if self.hosts is not None:  # in containers there is one clock
            self._clock = DeviceClock()
            return
        told = json.loads((self.folder / "agents.json").read_text())["agents"][0]
        self._clock = DeviceClock(told["epoch_ns"], told["time_scale"])
        self.control_port = int(told["controller"].rpartition(":")[2])
        ports = {one.local for one in tcp_sockets(self.controller.pid) if not one.remote}
        self.data_port = min(ports - {self.control_port}, default=0)

    def _now_ns(self) -> int:
        return self._clock.now_ns() if self._clock is not None else 0

    def _strike(self, fault: Fault) -> None:
        time.sleep(fault.at_s)
        kind = KINDS[fault.kind]
        with self._lock if kind.resumes else nullcontext():  # one after the other
            if self._over():
                return
            begun_ns = self._now_ns()
            try:
                what = kind.act(self, fault)
            except psutil.Error:
                return  # it ended just now
            except Exception as error:
                self.not_done.append(f"{fault.kind} could not be done: {type(error).__name__}: {error}")
                return
            ended_ns = self._now_ns()
        if what is None:
            return
        with self._lock:
            self.struck.append(Struck(fault, what, begun_ns, ended_ns))
            if kind.ends is not None and self.ended_by is None:
                self.ended_by = kind.ends

    def _over(self) -> bool:
        return self.world.fleet != "simulated" and (self._process is None or self._process.poll() is not None)

    def count(self, kind: str, where: str = "1", *values: object) -> int:
        """Rows of the event log of that kind."""
        path = self.folder / "events.sqlite"
        if not path.is_file():
            return 0
        ask = f"SELECT count(*) FROM event WHERE kind = ? AND {where}"
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=20)) as journal:
            try:
                (found,) = journal.execute(ask, (kind, *values)).fetchone()
            except sqlite3.OperationalError:  # not a table yet
                return 0
        return int(found)

    def wait_for_transfer(self, name: str, patience_s: float) -> bool:
        """Until the device begins a transfer; False if it does not."""
        where = "body ->> 'name' = ? AND body ->> 'kind' IN (?, ?, ?)"
        before = self.count("FleetEvent", where, name, *_TRANSFERS)
        deadline_s = time.monotonic() + patience_s
        while time.monotonic() < deadline_s and not self._over():
            if self.count("FleetEvent", where, name, *_TRANSFERS) > before:
                return True
            time.sleep(0.02)
        return False

    def readers(self) -> dict[str, psutil.Process]:
        """Every agent's own process, by device."""
        found = {}
        try:
            family = self.controller.children(recursive=True)
        except psutil.Error:
            return {}
        for process in reversed(family):  # forked by it are its fork server and its trainer
            log = Path(output_of(process))
            if log.name == "agent.log":
                found[log.parent.name] = process
        return found

    def process_of(self, name: str, who: str) -> psutil.Process | None:
        """The `reader` (the agent itself), `fork_server` or `trainer` of a device; None while it has none."""
        process = self.readers().get(name)
        for _ in range({"reader": 0, "fork_server": 1, "trainer": 2}[who]):
            children = process.children() if process is not None else []
            process = children[0] if children else None
        return process

    def links(self, name: str) -> list[Found]:
        """The agent's ends of its connections."""
        reader = self.readers().get(name)
        return [] if reader is None else [one for one in tcp_sockets(reader.pid) if one.remote]

    def ports(self) -> list[Found]:
        """The controller's ports and its ends of all connections to them."""
        return tcp_sockets(self.controller.pid)

    def far_ends(self, mine: list[Found]) -> list[Found]:
        """`mine` and their other ends, at the controller or another agent."""
        pids = [self.controller.pid, *(process.pid for process in self.readers().values())]
        return both_ends(mine, [one for pid in pids for one in tcp_sockets(pid)])

    def emulator_socket(self) -> Path:
        return Path(json.loads((self.folder / "emulator.json").read_text())["socket_path"])

    def end_and_resume(self, number: signal.Signals) -> str | None:
        """End the run by the signal once it has a checkpoint, and have it gone on with; back when it does."""
        deadline_s = time.monotonic() + 60.0
        while not (self.folder / "checkpoint.json").is_file():
            if self._process is None or self._process.poll() is not None:
                return None
            if time.monotonic() > deadline_s:
                return None
            time.sleep(0.01)
        assert self._process is not None
        if self._process.poll() is not None:
            return None
        self._process.send_signal(number)
        try:
            status = self._process.wait(90)
        except subprocess.TimeoutExpired:
            return None  # told as a run that does not end
        if status == 0:
            return None  # it had finished by then
        with RunFolder.open(self.folder) as folder:
            if folder.info.state is RunState.FINISHED:  # and was writing its report
                self.ended_by = status
                return None
        steps, resumed = self.count("StepClosed"), self.count("RunResumed")
        self._start("resume", str(self.folder))
        while self.count("RunResumed") == resumed and self._process.poll() is None:
            time.sleep(0.05)
        if self.world.fleet != "simulated" and self._process.poll() is None:
            self._look()
        return f"{number.name} after {steps} steps, status {status}"

    def influx_readings(self) -> list[tuple[str, int, int]]:
        """(device, seq, ns) of every reading in the database."""
        assert self.influxd is not None
        rows = self.influxd.rows('SELECT seq, monotonic_ns FROM "power" GROUP BY "device"', _DATABASE)
        return [(row["device"], row["seq"], row["monotonic_ns"]) for row in rows]
