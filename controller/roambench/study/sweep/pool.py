"""Runs the points of a sweep as processes, a number at a time; one that fails or dies harms no other.

Points without agents are forked from a process that has loaded what they need, torch most of all: a small one
on virtual devices takes 1.2 s of CPU time, where one that loads it itself takes 5. Agents need grpc,
and children of a process with grpc hang.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from roambench.contract.errors import RunError
from roambench.contract.stillness import LOOK_S, STILL_S, Stillness
from roambench.fleet.fork_server import ForkServer
from roambench.fleet.left_processes import cpu_s_of_descendants
from roambench.fleet.simulated.stacked import shared_in
from roambench.runner.places.table import fleet_of
from roambench.runner.stopping import to_its_end
from roambench.study.sweep.points import Point
from roambench.study.sweep.sweep_folder import PointEnd, SweepFolder, write_outcome

#: Called with every point when its process starts (None) and when it has ended.
Listener = Callable[[Point, PointEnd | None], None]

_POINT: Final = "roambench.study.sweep.point_process"
_WARM: Final = "roambench.study.sweep.warm"
#: What points without agents load besides, once for all of them: where devices are near each other or one of
#: many access points (0.3 s of CPU), and where they train. Nothing of it, and nothing that every point
#: loads, loads grpc.
_MEETING: Final = ("scipy.sparse.csgraph", "scipy.spatial")
_TRAINING: Final = (
    "roambench.runner.places.simulated",
    "roambench.runner.scoring",
    "roambench.runner.step_time",
    "roambench.fleet.simulated.worker",
)
#: What it loads besides where the points train on the embedded data set.
_DIGITS: Final = "roambench.study.sweep.warm_digits"
_STARTS: Final = 3
#: Host seconds for which points that got a signal to stop may do nothing: by then they have ended themselves.
_PATIENCE_S: Final = 2 * STILL_S


@dataclass(frozen=True, slots=True)
class _Started:
    """A point's process. `ended` tells its exit status, negative for a signal; None where it was not seen."""

    pid: int
    ended: Callable[[], Awaitable[int | None]]
    close_input: Callable[[], None]


@contextlib.contextmanager
def forks_of(
    points: Sequence[Point], folder: SweepFolder, shared: ForkServer | None = None
) -> Iterator[ForkServer | None]:
    """The server that forks these points, if they have no agents and are several: `shared`, or their own."""
    kind, _ = fleet_of(points[0].fleet)
    if len(points) == 1 or kind.has_agents or shared is not None:
        yield None if kind.has_agents else shared
        return
    training = _TRAINING if kind.trains else ()
    digits = (_DIGITS,) if kind.trains and points[0].experiment.learning.dataset == "digits" else ()
    with fork_server(folder.path, (*training, *digits)) as server:
        yield server


@contextlib.contextmanager
def fork_server(folder: Path, loads: Sequence[str] = (*_TRAINING, _DIGITS)) -> Iterator[ForkServer]:
    """A server that forks points and starts with the first; they share a process where they stack trainings.
    It is waited for at the end; after an interruption it ends with its last point, which may have been left.
    """
    server = ForkServer((_POINT, _WARM, *_MEETING, *loads), folder / "points.log")
    awaited = False
    try:
        with shared_in(folder):
            yield server
        awaited = True
    finally:
        server.leave(awaited=awaited)


async def run_points(
    points: Sequence[Point],
    jobs: int,
    folder: SweepFolder,
    report: Listener,
    left_out: tuple[str, ...] = (),
    server: ForkServer | None = None,
) -> None:
    """Run all, each to an outcome on disk, on a bench without the boards `left_out`, forked by `server` or
    each by itself. When cancelled, the processes are stopped before this returns; when cancelled again, they
    are left to stop by themselves."""
    waiting = deque(points)
    workers = 1 if jobs > 1 else 0  # 0: one training process per core

    async def pull() -> None:
        while waiting:
            point = waiting.popleft()
            report(point, None)
            report(point, await _run(point, folder, workers, left_out, server))

    pulling = [asyncio.create_task(pull()) for _ in range(min(jobs, len(points)))]
    try:
        await asyncio.wait(pulling, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for one in pulling:
            one.cancel()
        try:
            await to_its_end(asyncio.wait, pulling)  # a task group would not hear a second cancellation
        finally:
            if server is not None:
                server.let_go()
    for one in pulling:
        if not one.cancelled():  # where another failed
            one.result()


async def _run(
    point: Point, folder: SweepFolder, workers: int, left_out: tuple[str, ...], server: ForkServer | None
) -> PointEnd:
    path = folder.prepare(point, workers, left_out)
    log = path / "log.txt"
    log.write_bytes(b"")
    process = await (_executed(path, log) if server is None else _forked(path, log, server))
    alive = True
    try:
        status = await process.ended()
        alive = False
    finally:
        if alive:
            await asyncio.shield(_stopped(process, log))
    outcome = folder.outcome_of(point)
    if outcome is None:
        outcome = PointEnd(point.key, {}, f"{_ended(status)}; see {log}")
        write_outcome(path, outcome)
    return outcome


async def _executed(path: Path, log: Path) -> _Started:
    with log.open("ab") as printed:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            _POINT,
            str(path),
            stdin=asyncio.subprocess.PIPE,
            stdout=printed,
            stderr=printed,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            start_new_session=True,  # Ctrl-C reaches the sweep alone, which then stops its points
        )
    assert process.stdin is not None
    return _Started(process.pid, process.wait, process.stdin.close)


async def _forked(path: Path, log: Path, server: ForkServer) -> _Started:
    for _ in range(_STARTS):
        process = await server.fork(_POINT, str(path), log, tells_end=True, may_fork=True)
        if process is not None:
            return _Started(process.pid, process.ended, process.close_input)
        if not await server.has_died():
            break
    raise RunError(f"the process that forks the sweep's runs cannot start: see {server.log_path}")


async def _stopped(process: _Started, log: Path) -> None:
    """Let it stop, however slow this machine is. All points stop together: it is killed where nothing that
    this process started, forked ones included, does anything any more."""
    process.close_input()
    end, stillness = asyncio.ensure_future(process.ended()), Stillness()
    while not (await asyncio.wait({end}, timeout=LOOK_S))[0]:
        if stillness.seconds(cpu_s_of_descendants(os.getpid())) > _PATIENCE_S:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with log.open("a") as printed:
                printed.write(f"asked to stop, it did nothing for {_PATIENCE_S:.0f} s and was killed\n")
            await end


def _ended(status: int | None) -> str:
    if status is None:
        return "its process ended without a result, and the process that would say how it ended was killed"
    if status >= 0:
        return f"its process ended with status {status} and no result"
    return f"its process was killed by {signal.Signals(-status).name}"
