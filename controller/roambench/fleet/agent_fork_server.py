"""All agents of a local fleet from one warm process: torch is imported once and shared by fork.

It is forked itself, and given a file: {"agents": [agent settings...], "restart_delay_s": 1.0}. Its standard
input is one end of a socket pair, where its reports leave as JSON lines: {"started": name, "pid": n},
{"exited": name, "pid": n, "status": n}, {"killed": name, "pid": n, "reason": text}. An agent that dies is
started again, as systemd would do on a Pi. A line {"down": name} of its input kills an agent and keeps it
down, {"up": name} starts it again. When its input ends, the controller is gone or has enough: the agents are
asked to stop, and killed only where they hang.
36 agents forked like this were up in about 8 s with about 40 MB each that they do not share; spawning 36
interpreters took 53 s and 6 GB.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final

from roambench.agent.life.launch import load_trainer, run_agent
from roambench.agent.orders.worker import die_with_parent
from roambench.agent.settings import AgentSettings
from roambench.contract.errors import ConfigError
from roambench.contract.json_values import from_file
from roambench.contract.stillness import LOOK_S, STILL_S, Stillness, cpu_s_of
from roambench.emulation.board_load import load_of
from roambench.meters.catalogue import METERS

_POLL_S: Final = 0.05
#: While importing. With the usual 700 the collector takes a tenth of the time, and agents are no smaller.
_OBJECTS_PER_COLLECTION: Final = 50_000
#: CPU-seconds that an agent may take to end. It needs 0.3 on a laptop, ten times as many on a Pi 3.
_ENDING_CPU_S: Final = 60.0

# What agents share is imported before the forks. After them each paid for it alone: 10.5 MB and
# 0.11 CPU-seconds per agent, a third of them for certificates (Rust and OpenSSL). grpc is not among it, nor
# is anything that imports grpc: forked children of a process that holds it hang.

#: For every agent; a meter logger has no more.
READER: Final = (
    "roambench.agent.readings.meter_reader",
    "roambench.agent.reporter",
    "roambench.agent.readings.run_context",
    "roambench.agent.readings.stores",
)
#: For agents with a controller.
ORDERED: Final = (
    "cryptography.hazmat.backends.openssl",  # both late imports of libraries: 13 CPU-ms per agent
    "numpy.random",
    "roambench.agent.background",
    "roambench.agent.life.ctl_handler",
    "roambench.agent.life.ctl_server",
    "roambench.agent.life.notify",
    "roambench.agent.orders.held_model",
    "roambench.agent.orders.model_cache",
    "roambench.agent.orders.program_models",
    "roambench.agent.orders.program_process",
    "roambench.agent.orders.programs",
    "roambench.agent.orders.resume_point",
    "roambench.agent.orders.shard_store",
    "roambench.agent.peers.inbox",
    "roambench.agent.peers.offers",
    "roambench.agent.peers.radio",
    "roambench.agent.readings.meter",
    "roambench.agent.session.dial_trouble",
    "roambench.agent.session.identity_files",
    "roambench.agent.session.quiet",
    "roambench.agent.session.transfer_stamps",
    "roambench.contract.addresses",
    "roambench.contract.duty",
    "roambench.contract.pacing",
    "roambench.wire.fields",
    "roambench.wire.frames",
    "roambench.wire.server",
    "roambench.wire.v1.data_pb2",
    "roambench.wire.v1.methods",
    "roambench.wire.v1.peer_pb2",
)


@dataclass(frozen=True, slots=True)
class AgentsSpec:
    """An agent that died starts again after `restart_delay_s` of host time."""

    agents: tuple[AgentSettings, ...]
    restart_delay_s: float


@dataclass(slots=True)
class _Child:
    settings: AgentSettings
    pid: int = 0
    restart_at: float = 0.0  # host monotonic; only meaningful while pid is 0
    finished: bool = False
    is_down: bool = False  # and kept so


def forked(spec_path: str) -> int:
    """The agent fork server's process: import, fork agents, reap them; returns the exit status."""
    os.setsid()  # Ctrl-C reaches the controller alone; it ends the others in order
    try:
        spec = from_file(AgentsSpec, Path(spec_path))
    except ConfigError as error:
        print(f"agent fork server: {error}", file=sys.stderr)
        return 2
    die_with_parent(signal.SIGTERM)
    _catch_stop_signals()
    usual = gc.get_threshold()
    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    if any(settings.controller for settings in spec.agents):  # meter loggers do not train
        load_trainer()
    import_for(spec.agents)
    # Everything so far is shared by all agents; frozen objects keep their pages unwritten by the collector.
    # It runs during the imports, if seldom: what they leave would lie between what lasts, and agents that
    # write into its holes share less (36 of them took a tenth more memory).
    gc.collect()
    gc.freeze()
    gc.set_threshold(*usual)
    children = [_Child(settings) for settings in spec.agents]
    while not _stop_requested:
        _start_due(children)
        _reap(children, spec.restart_delay_s)
        _heed(_POLL_S, children)
    _stop_all(children)
    return 0


def import_for(agents: Sequence[AgentSettings]) -> None:
    """Import what `agents` have in common, and their meters' drivers (an unknown one is theirs to report)."""
    for module in READER:
        import_module(module)
    for driver in {settings.meter.driver for settings in agents if settings.meter.port}:
        with contextlib.suppress(ConfigError):
            METERS.load(driver)
    if any(settings.influxdb is not None for settings in agents):
        import_module("roambench.agent.readings.influx_store")
    if any(settings.controller for settings in agents):  # meter loggers take no orders
        for module in ORDERED:
            import_module(module)


_stop_requested = False


def _catch_stop_signals() -> None:
    def note(number: int, frame: object) -> None:
        global _stop_requested
        _stop_requested = True

    signal.signal(signal.SIGTERM, note)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the controller's to handle


def _start_due(children: list[_Child]) -> None:
    for child in children:
        if child.pid == 0 and not (child.finished or child.is_down) and time.monotonic() >= child.restart_at:
            child.pid = _fork_agent(child.settings)
            _report(started=child.settings.device, pid=child.pid)


def _fork_agent(settings: AgentSettings) -> int:
    server_pid = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        die_with_parent(signal.SIGTERM)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if os.getppid() == server_pid:
            _redirect_output(Path(settings.state_dir))
            status = run_agent(settings, load_of(settings))
    except BaseException as error:
        traceback.print_exception(error)  # into the agent's own log; its last line is one sentence
        print(f"agent {settings.device} ends: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(status)


def _redirect_output(folder: Path) -> None:
    """The agent's own log; standard input and the fork server's standard output are not the agent's."""
    folder.mkdir(parents=True, exist_ok=True)
    log = os.open(folder / "agent.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)


def _reap(children: list[_Child], restart_delay_s: float) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        for child in children:
            if child.pid == pid:
                code = os.waitstatus_to_exitcode(status)
                _report(exited=child.settings.device, pid=pid, status=code)
                child.pid = 0
                child.finished = code == 0  # an orderly end is not restarted
                child.restart_at = time.monotonic() + restart_delay_s


_unread = b""


def _heed(timeout_s: float, children: list[_Child]) -> None:
    """Wait for the next lines of the input, and do what they say; its end stops the fleet."""
    global _stop_requested, _unread
    readable, _, _ = select.select([0], [], [], timeout_s)
    if not readable:
        return
    if not (some := os.read(0, 65_536)):
        _stop_requested = True
    *lines, _unread = (_unread + some).split(b"\n")
    by_name = {child.settings.device: child for child in children}
    for line in lines:
        ((order, name),) = json.loads(line).items()
        child = by_name[name]
        child.is_down = order == "down"
        if child.is_down and child.pid:
            _kill(child.pid, signal.SIGKILL)


def _stop_all(children: list[_Child]) -> None:
    """Tell all agents to end, and wait until they have. One that hangs is killed, which is reported."""
    ends = {child.pid: _End(child.pid) for child in children if child.pid}
    for pid in ends:
        _kill(pid, signal.SIGTERM)
    look_s = time.monotonic()
    while any(child.pid for child in children):
        _reap(children, float("inf"))
        if time.monotonic() >= look_s:
            look_s = time.monotonic() + LOOK_S
            for child in children:
                if child.pid in ends and (why := ends[child.pid].hangs()):
                    del ends[child.pid]
                    _kill(child.pid, signal.SIGKILL)
                    where = Path(child.settings.state_dir)
                    reason = (
                        f"asked to end, the agent {why} and was killed: what it had not handed over is in "
                        f"{where / 'spool.sqlite'}, its log is {where / 'agent.log'}"
                    )
                    _report(killed=child.settings.device, pid=child.pid, reason=reason)
        time.sleep(_POLL_S)


class _End:
    """The end of an agent that was asked to end: how it comes along, by what the agent does and not by a
    clock, because a slow machine makes every wait longer."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._began_cpu_s = cpu_s_of(pid)
        self._stillness = Stillness()

    def hangs(self) -> str:
        """Return why the agent will never end by itself; empty as long as it may."""
        cpu_s = cpu_s_of(self._pid)
        still_s = self._stillness.seconds({self._pid: cpu_s})
        if still_s > STILL_S:
            return f"did nothing for {still_s:.0f} s"
        if cpu_s - self._began_cpu_s > _ENDING_CPU_S:
            return f"computed for {cpu_s - self._began_cpu_s:.0f} s"
        return ""


def _kill(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _report(**values: object) -> None:
    with contextlib.suppress(OSError), os.fdopen(os.dup(0), "wb") as link:
        link.write(json.dumps(values).encode() + b"\n")
