"""A fleet on one laptop: certificates for the run, one meter emulator, one fork server that forks the
agents."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import signal
import sys
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

import psutil

from roambench.agent.settings import (
    AgentSettings,
    EmulationSettings,
    HostSettings,
    MeterSettings,
)
from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import ConfigError, FleetError
from roambench.contract.stillness import LOOK_S, STILL_S, Stillness, cpu_s_of
from roambench.emulation.control import switch_output
from roambench.emulation.drivers import reader
from roambench.emulation.spec import EmulatorSpec
from roambench.fleet.fork_server import ONE_THREAD, ForkedProcess, ForkServer
from roambench.fleet.left_processes import LeftProcesses, cpu_s_of_descendants
from roambench.identity.authority import Authority
from roambench.meters.ports import with_option
from roambench.spool.influx_settings import InfluxSettings

#: Host seconds for which the processes of a fleet may do nothing, all together: by then their fork server has
#: killed the agents that hang.
_PATIENCE_S: Final = 2 * STILL_S
_POLL_S: Final = 0.05
_LIVES: Final = 3  # that end by the same mistake are enough
#: The processes, as messages name them, and what runs in one of them.
_EMULATOR: Final = "meter emulator"
_FORK_SERVER: Final = "agent fork server"
_AGENTS: Final = "roambench.fleet.agent_fork_server"
_AGENTS_LOG: Final = "agent_fork_server.log"


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """Settings of a laptop that stands in for a bench."""

    cpu_slowdown: float | None  # None: training lasts as long as it does on this machine
    sgd_step_s: float = 0.0  # device seconds of an SGD step; 0: this machine's CPU-seconds x cpu_slowdown
    restart_delay_s: float = 1.0  # host seconds until a dead agent is started again
    host: HostSettings = field(default_factory=HostSettings)
    agent_cost: bool = False  # emulated boards draw what their agents compute, too
    run_id: str = ""
    bench: str = ""
    system: str = ""
    quiet: bool = False
    influxdb: InfluxSettings | None = None  # where agents write by themselves
    store_at_controller: bool = True
    witness: bool = False  # agents keep a second notebook of what they read
    meters: Mapping[str, MeterSettings] = field(default_factory=dict)  # real ones, by device
    unread: frozenset[str] = frozenset()  # devices whose emulated meter the controller reads


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of one agent, all its processes: largest RSS of a process, sum of PSS, bytes."""

    device: str
    reader_rss_bytes: int
    trainer_rss_bytes: int
    pss_bytes: int


@dataclass(frozen=True, slots=True)
class _Running:
    """A process that was started, and its exit status when it ends."""

    pid: int
    end: asyncio.Task[int]


class LocalAgents:
    """Starts and stops the processes; the agents then dial the controller like any others."""

    def __init__(
        self,
        folder: Path,
        names: tuple[str, ...],
        controller: str,
        authority: Authority,
        clock: DeviceClock,
        settings: LocalSettings,
        emulator: EmulatorSpec,
        log: Callable[[str], None],
    ) -> None:
        self._folder = folder
        self._names = names
        self._controller = controller
        self._authority = authority
        self._clock = clock
        self._settings = settings
        self._emulator = emulator
        self._log = log
        self._processes: dict[str, _Running] = {}
        self._fork_server = ForkServer([_AGENTS], folder / _AGENTS_LOG)
        self._agents: ForkedProcess | None = None  # what forks them
        self._stopping = False
        self._turn = -1
        self._down: set[str] = set()
        self.pids: dict[str, int] = {}
        self.hopeless: dict[str, str] = {}  # agents that ended by the same mistake each time, and by which
        self._mistakes: Counter[tuple[str, str]] = Counter()

    async def start(self) -> None:
        """Start emulator and fork server; agents say hello when they are ready. FleetError where those of an
        earlier controller of the run, who end by themselves when it dies, do not."""
        await self._start_emulator()
        agents = [self.settings_of(index, name) for index, name in enumerate(self._names)]
        spec_path = self._folder / "agents.json"
        spec_path.write_text(
            json.dumps(
                {
                    "agents": [asdict(agent) for agent in agents],
                    "restart_delay_s": self._settings.restart_delay_s,
                }
            )
        )
        self._agents = await self._fork_server.fork(
            _AGENTS, str(spec_path), self._folder / _AGENTS_LOG, tells_end=True, holds=(self._turn,)
        )
        if self._agents is None:
            raise FleetError(
                f"local agents cannot start: what forks them died at once; see {self._folder / _AGENTS_LOG}"
            )
        end = asyncio.create_task(self._follow(self._agents))
        self._processes[_FORK_SERVER] = _Running(self._agents.pid, end)

    async def _start_emulator(self) -> None:
        await self._take_turn()
        if self._emulator.devices:  # no board is emulated where every device has a real meter
            spec_path = self._folder / "emulator.json"
            spec_path.write_text(self._emulator.to_json())
            emulator = await self._spawn(_EMULATOR, "roambench.emulation", "--until-eof", str(spec_path))
            self._processes[_EMULATOR] = emulator
            await self._wait_for_socket(Path(self._emulator.socket_path), emulator)

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """While the body runs, both processes have to live: the end of either ends it with FleetError."""
        body = asyncio.current_task()
        assert body is not None
        ends = {process.end: name for name, process in self._processes.items()}
        gone: list[str] = []

        def ended(end: asyncio.Task[int]) -> None:
            if not end.cancelled() and not gone:
                gone.append(self._reason(ends[end], end.result()))
                body.cancel()

        for end in ends:
            end.add_done_callback(ended)
        try:
            yield
        except asyncio.CancelledError:
            if not gone or body.uncancel():  # the caller wants the run to end, too
                raise
            raise FleetError(f"the fleet is gone: {gone[0]}") from None
        finally:
            for end in ends:
                end.remove_done_callback(ended)

    async def stop(self) -> None:
        """Stop the fork server (and with it every agent still there), then the emulator."""
        self._stopping = True
        fork_server = self._processes.pop(_FORK_SERVER, None)
        if fork_server is not None and self._agents is not None:
            self._agents.close_input()
            await self._end(_FORK_SERVER, fork_server)
            self._agents.orders.close()
        await self._fork_server.end()
        emulator = self._processes.pop(_EMULATOR, None)
        if emulator is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(emulator.pid, signal.SIGTERM)
            await self._end(_EMULATOR, emulator)
        if self._turn >= 0:
            os.close(self._turn)
            self._turn = -1

    async def switch(self, name: str, *, on: bool) -> None:
        """Cut the power of a device's board, or give it again: its agent is killed and kept down, and its
        emulated meter has no load."""
        assert self._agents is not None
        emulator = Path(self._emulator.socket_path)
        if on:
            self._down.discard(name)
            await asyncio.to_thread(switch_output, emulator, name, on=True)
        else:
            self._down.add(name)
        self._agents.orders.write(json.dumps({"up" if on else "down": name}).encode() + b"\n")
        await self._agents.orders.drain()
        if not on:
            while name in self.pids:  # noqa: ASYNC110 until it is reaped
                await asyncio.sleep(_POLL_S)
            await asyncio.to_thread(switch_output, emulator, name, on=False)

    @property
    def may_come_back(self) -> bool:
        """True if agents that are not there would be started again."""
        fork_server = self._processes.get(_FORK_SERVER)
        return fork_server is not None and not fork_server.end.done()

    def memory(self) -> list[Memory]:
        """Memory of every living agent (all its processes), read from /proc."""
        return [_memory(name, pid) for name, pid in sorted(self.pids.items()) if psutil.pid_exists(pid)]

    def settings_of(self, index: int, name: str) -> AgentSettings:
        """Return what one agent starts with; makes its certificate and its state folder.

        Tests override it where they want other agents, such as late ones.
        """
        identity = self._folder / "identity" / name
        self._authority.issue(name).save(identity)
        state = self._folder / "agents" / name
        state.mkdir(parents=True, exist_ok=True)
        return AgentSettings(
            device=name,
            controller=self._controller,
            identity_dir=str(identity),
            state_dir=str(state),
            machine_id=uuid.uuid4().hex,
            epoch_ns=self._clock.epoch_ns,
            time_scale=self._clock.time_scale,
            ahead_ns=self._clock.ahead_ns,
            meter=self._meter(name),
            host=self._settings.host,
            run=self._settings.run_id,
            bench=self._settings.bench,
            system=self._settings.system,
            quiet=self._settings.quiet,
            influxdb=self._settings.influxdb,
            store_at_controller=self._settings.store_at_controller,
            emulation=None
            if name in self._settings.meters
            else EmulationSettings(
                self._settings.cpu_slowdown,
                str(self._emulator.socket_path),
                self._settings.agent_cost,
                self._settings.sgd_step_s,
            ),
        )

    def _meter(self, name: str) -> MeterSettings:
        if name in self._settings.unread:
            return MeterSettings()
        return self._settings.meters.get(name) or self.emulated_meter(name)

    def emulated_meter(self, name: str) -> MeterSettings:
        """The driver that reads what the emulator's firmware says on its serial port, or in its folder."""
        spec = self._emulator
        (device,) = (device for device in spec.devices if device.name == name)
        (transport,) = device.transports
        address = device.link_path or device.sysfs_dir
        driver, port = reader(device.profile or spec.profile, transport, address, spec.interval_ms)
        port = with_option(port, "site", device.site)
        return MeterSettings(driver, port, reopen_allowed=True, witness=self._settings.witness)

    async def _spawn(self, name: str, module: str, *arguments: str) -> _Running:
        """A process that ends when the pipe to its standard input does, also by our own kill -9."""
        with self._log_of(name).open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                module,
                *arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=(self._turn,),
                start_new_session=True,  # Ctrl-C reaches the controller alone; it ends the others in order
                env={**os.environ, **ONE_THREAD},
            )
        return _Running(process.pid, asyncio.create_task(process.wait()))

    async def _take_turn(self) -> None:
        """Wait until all processes of the folder's last fleet are gone: they write to the same files. Each
        holds the lock, from its parent, until it ends."""
        path = self._folder / "fleet.lock"
        self._turn = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        others, began_s, reported = LeftProcesses(path), time.monotonic(), False
        while True:
            try:
                fcntl.flock(self._turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if others.hang(_PATIENCE_S):
                    raise FleetError(
                        f"local agents cannot start: others still live in {self._folder}, though their "
                        f"controller died, and did nothing for {_PATIENCE_S:.0f} s; find them with: "
                        f"fuser {path}"
                    ) from None
            if not reported and time.monotonic() - began_s > _PATIENCE_S:
                self._log(f"agents of the controller that died end slowly; who they are: fuser {path}")
                reported = True
            await asyncio.sleep(_POLL_S)

    async def _wait_for_socket(self, path: Path, process: _Running) -> None:
        stillness = Stillness()
        while not path.exists():
            if process.end.done():
                why = self._reason(_EMULATOR, process.end.result())
                raise FleetError(f"local agents cannot start: {why}")
            if stillness.seconds({process.pid: cpu_s_of(process.pid)}) > _PATIENCE_S:
                raise FleetError(
                    f"local agents cannot start: the meter emulator serves nothing at {path} and did nothing "
                    f"for {_PATIENCE_S:.0f} s; see {self._log_of(_EMULATOR)}"
                )
            await asyncio.sleep(_POLL_S)

    async def _end(self, name: str, process: _Running) -> None:
        """Wait for the end of a process that was asked to end, however slow this machine is. One that hangs
        is killed, which is logged."""
        stillness = Stillness()
        while not (await asyncio.wait({process.end}, timeout=LOOK_S))[0]:
            if (
                stillness.seconds({process.pid: cpu_s_of(process.pid)} | cpu_s_of_descendants(process.pid))
                > _PATIENCE_S
            ):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
                self._log(
                    f"asked to end, the {name} did nothing for {_PATIENCE_S:.0f} s and was killed; see "
                    f"{self._log_of(name)}"
                )
                await asyncio.wait({process.end})

    def _log_of(self, name: str) -> Path:
        """Return what a process printed, whose name is "meter emulator" or "agent fork server"."""
        return self._folder / f"{name.removeprefix('meter ').replace(' ', '_')}.log"

    def _reason(self, name: str, status: int) -> str:
        """The process's last line, if it ended by an error that it knows, and where the rest is."""
        path = self._log_of(name)
        line = _last_line(path) if status in (1, 2) else ""
        return f"the {name} ended with status {status}{f': {line}' if line else ''}; see {path}"

    async def _follow(self, agents: ForkedProcess) -> int:
        """Heed what is reported of the agents, to the end of what forks them; returns its exit status."""
        async for line in agents.answers:
            report = json.loads(line)
            if "started" in report:
                self.pids[report["started"]] = report["pid"]
            elif "killed" in report:
                self._log(f"{report['killed']}: {report['reason']}")
            elif "exited" in report:
                self.pids.pop(report["exited"], None)
                if report["status"] != 0 and not self._stopping and report["exited"] not in self._down:
                    self._log(
                        f"{report['exited']}: agent ended with status {report['status']}, starting it again"
                    )
                    self._note_mistake(report["exited"], report["status"])
            else:
                return int(report["status"])
        return -signal.SIGKILL  # who forked it and would tell its end was killed, and it with it

    def _note_mistake(self, name: str, status: int) -> None:
        """An agent that finds its settings wrong finds them so in its next life."""
        if status != ConfigError.exit_code:
            return
        reason = _last_line(self._folder / "agents" / name / "agent.log")
        self._mistakes[name, reason] += 1
        if self._mistakes[name, reason] == _LIVES:
            self.hopeless[name] = reason


def _last_line(path: Path) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    return lines[-1] if lines else ""


def _memory(device: str, pid: int) -> Memory:
    """The reader is the agent's own process; its trainer is the fork server's child."""
    reader = psutil.Process(pid)
    family = [reader, *reader.children(recursive=True)]
    maps = [process.memory_full_info() for process in family]
    trainers = [entry.rss for process, entry in zip(family, maps, strict=True) if process.pid != pid]
    return Memory(device, maps[0].rss, max(trainers, default=0), sum(entry.pss for entry in maps))
