"""The trainer as seen by the agent: another, niced process, forked before grpc exists in this one.

Three processes stand in a row: the agent (reader, spool, gRPC), a fork server that only waits, and the
trainer. The fork server is there because an agent that has imported grpc can no longer fork safely: when the
trainer dies (out of memory, SIGILL on some boards) the fork server forks the next one, and no reading is lost
meanwhile. They talk JSON lines over a socket pair; models pass through files. Requests and replies are
numbered: one that a dying trainer left unread in the socket is answered by the next trainer, and that answer
is dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import json
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roambench.contract.json_values import json_or_none, plain
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.link_codecs import NOT_CODED, LinkCodecs
from roambench.contract.local_training import LocalTraining

_PR_SET_PDEATHSIG = 1


class TrainerDied(Exception):
    """The trainer process ended before it answered."""


class TrainerRefused(Exception):
    """The trainer answered that it cannot do this. `device_s`: how long the training phase lasted."""

    device_s = 0.0


@dataclass(frozen=True, slots=True)
class TrainJob:
    """One local training: start blob in, trained blob out."""

    start_path: str
    out_path: str
    own_path: str  # the device's own previous model, empty if none
    global_path: str  # the last global model it was given, empty if none
    training: LocalTraining
    previous_path: str = ""  # the model of the AP where the device was before, if it was sent
    velocity_path: str = ""  # where SGD's momentum left off, empty: it begins at zero
    velocity_out_path: str = ""  # where to leave it, empty: nowhere
    kept_path: str = ""  # what the local algorithm keeps on the device, empty: nothing yet
    kept_out_path: str = ""  # where to leave it, should it keep anything


@dataclass(frozen=True, slots=True)
class CodeJob:
    """A model to be coded (`up`) as the difference to that at `base_path` (empty: as it is), or a coded one
    to be decoded: a blob in, a blob out."""

    path: str
    out_path: str
    up: bool
    key: int = 0  # of the draws
    base_path: str = ""
    memory_path: str = ""  # what was lost before, empty: nothing
    memory_out_path: str = ""  # where to leave what is lost now, should the codec feed it back


@dataclass(frozen=True, slots=True)
class CodeOutcome:
    """The trainer's cost, and the digest of the blob that came out."""

    cpu_s: float
    digest: str


@dataclass(frozen=True, slots=True)
class TrainOutcome:
    """A finished training, as the trainer reports it."""

    samples: int
    sgd_steps: int
    mean_loss: float
    mean_squared_loss: float
    cpu_s: float
    model_digest: str


def die_with_parent(death_signal: int = signal.SIGKILL) -> None:
    """Ask Linux to signal this process when its parent dies: no orphan trains on after a kill -9."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, death_signal, 0, 0, 0)


def start_trainer_fork_server(
    nice: int, load: Callable[[], Callable[[socket.socket], None]]
) -> tuple[socket.socket, int]:
    """Fork the server that forks trainers; returns the agent's end of the socket and the server's pid.

    `load` runs once in the fork server (it imports torch there, unless the agent fork server had it) and
    returns the serve function that every trainer runs. Must be called before grpc is imported.
    """
    ours, theirs = socket.socketpair()
    agent_pid = os.getpid()
    pid = os.fork()
    if pid:
        theirs.close()
        return ours, pid
    ours.close()
    code = 1
    try:
        die_with_parent()
        if os.getppid() == agent_pid:
            os.nice(nice)
            _raise_trainers(theirs, load())
            code = 0
    finally:
        os._exit(code)


def _raise_trainers(link: socket.socket, serve: Callable[[socket.socket], None]) -> None:
    """Fork a trainer, wait for its end, tell the agent, fork the next. Ends when the agent is gone."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()
    server_pid = os.getpid()
    while True:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                die_with_parent()
                if os.getppid() == server_pid:
                    serve(link)
                    code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        if os.waitstatus_to_exitcode(status) == 0:  # the agent closed the link
            return
        ended = os.waitstatus_to_exitcode(status)
        reason = f"signal {signal.Signals(-ended).name}" if ended < 0 else f"exit status {ended}"
        try:
            # The line break in front ends what the trainer may have been writing when it died.
            link.sendall(b"\n" + json.dumps({"died": reason, "pid": pid}).encode() + b"\n")
        except OSError:
            return


class Worker:
    """The agent's end: asks the trainer, one job at a time."""

    def __init__(self, link: socket.socket) -> None:
        self._socket = link
        self._writer: asyncio.StreamWriter | None = None
        self._listener: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        self._spec: LearningSpec | None = None
        self._prepared = False
        self._requests = 0
        self._awaited: asyncio.Future[dict[str, Any]] | None = None
        self._abandoned = asyncio.Event()  # set: no trainer that we ended is still to be heard of
        self._abandoned.set()
        self._samples = 0
        self._step_cpu_s = 0.0  # measured once, so that the emulated board's speed never changes
        self._pid = 0
        self.rss_bytes = 0

    async def open(self) -> None:
        """Connect to the trainer's fork server and listen to it."""
        reader, self._writer = await asyncio.open_unix_connection(sock=self._socket)
        self._listener = asyncio.create_task(self._listen(reader), name="trainer")

    async def prepare(self, spec: LearningSpec) -> None:
        """Load model and data and take throw-away steps, so that the first order finds a warm trainer."""
        async with self._turn:
            self._spec, self._prepared, self._step_cpu_s = spec, False, 0.0
            await self._prepare()

    async def ready(self) -> None:
        """Prepare a trainer that was forked since, so that the next order finds it warm. Raises as `train`
        does."""
        async with self._turn:
            await self._ready()

    async def train(self, job: TrainJob) -> TrainOutcome:
        """Run one job. Raises TrainerDied (the fork server has forked a new trainer) or TrainerRefused."""
        async with self._turn:
            await self._ready()
            reply = await self._ask({"op": "train", "job": plain(job)})
        return TrainOutcome(**{name: reply[name] for name in TrainOutcome.__dataclass_fields__})

    async def code(self, job: CodeJob) -> CodeOutcome:
        """Code or decode a model. Raises as `train` does."""
        async with self._turn:
            await self._ready()
            reply = await self._ask({"op": "code", "job": plain(job)})
        return CodeOutcome(float(reply["cpu_s"]), str(reply["digest"]))

    @property
    def codecs(self) -> LinkCodecs:
        """The codecs of the run that it was prepared for."""
        return self._spec.codecs if self._spec is not None else NOT_CODED

    @property
    def samples(self) -> int:
        """Samples of the device's shard, once it was read."""
        return self._samples

    @property
    def is_prepared(self) -> bool:
        """Return whether a warm trainer waits for the next order."""
        return self._prepared

    def sgd_steps(self, training: LocalTraining) -> int:
        """Return how many SGD steps a training has on the data it was prepared with."""
        return training.sgd_steps(self._samples, self._spec.batch_size if self._spec else 1)

    @property
    def step_cpu_s(self) -> float:
        """CPU-seconds of one SGD step, as measured when it was prepared."""
        return self._step_cpu_s

    async def smoke(self) -> dict[str, Any]:
        """One SGD step of a small model on made-up data; what it took. Raises as `train` does."""
        async with self._turn:
            return await self._ask({"op": "smoke"})

    def abandon(self) -> None:
        """End a trainer whose result is not wanted; the fork server forks the next one."""
        if self._awaited is not None and self._pid:
            self._abandoned.clear()
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)

    async def abandoned(self) -> None:
        """Returns when the trainer that was ended, if any, is known to be gone: its end is no later one's."""
        await self._abandoned.wait()

    def close(self) -> None:
        """Stop listening and hang up: the trainer ends."""
        if self._listener is not None:
            self._listener.cancel()
        if self._writer is not None:
            self._writer.close()

    async def _ready(self) -> None:
        if self._spec is None:
            raise TrainerRefused("no learning settings received yet")
        if not self._prepared:
            await self._prepare()

    async def _prepare(self) -> None:
        assert self._spec is not None
        reply = await self._ask({"op": "prepare", "spec": self._spec.to_json().decode()})
        self.rss_bytes = int(reply["rss_bytes"])
        self._pid = int(reply.get("pid", 0))
        self._samples = int(reply["samples"])
        self._step_cpu_s = self._step_cpu_s or float(reply["step_cpu_s"])
        self._prepared = True

    async def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._writer is None or self._listener is None or self._listener.done():
            raise TrainerDied("the trainer's fork server ended")
        self._requests += 1
        self._awaited = asyncio.get_running_loop().create_future()
        try:
            self._writer.write(json.dumps({**request, "id": self._requests}, default=plain).encode() + b"\n")
            reply = await self._awaited
        finally:
            self._awaited = None
        if "refused" in reply:
            raise TrainerRefused(str(reply["refused"]))
        return reply

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        """Hand replies to what waits for them; a death, asked for or not, costs the preparation."""
        try:
            while line := await reader.readline():
                # A trainer that died while it wrote leaves half a line.
                reply = json_or_none(dict[str, Any], line) or {}
                if "died" in reply:
                    self._lose(f"the trainer died ({reply['died']})")
                elif reply.get("id") == self._requests and self._awaited and not self._awaited.done():
                    self._awaited.set_result(reply)
        except OSError:
            pass
        finally:
            self._lose("the trainer's fork server ended")

    def _lose(self, reason: str) -> None:
        self._prepared = False
        self._pid = 0
        self._abandoned.set()
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_exception(TrainerDied(reason))


def rss_bytes() -> int:
    """Resident memory of this process, from /proc (no psutil needed before it is imported)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")
