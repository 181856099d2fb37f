"""Runs the points of a sweep as processes, so many at a time; one that fails or dies harms no other."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Sequence

from roambench.controller.sweep.points import Point
from roambench.controller.sweep.sweep_folder import GRACE_S, Outcome, SweepFolder, write_outcome

#: Told of every point when its process starts (None) and when it has ended.
Listener = Callable[[Point, Outcome | None], None]


async def run_points(
    points: Sequence[Point], jobs: int, folder: SweepFolder, report: Listener, left_out: tuple[str, ...] = ()
) -> None:
    """Run all, each to an outcome on disk, on a bench without the boards `left_out`. When cancelled, the
    processes are stopped before this returns."""
    waiting = deque(points)
    workers = 1 if jobs > 1 else 0  # 0: one training process per core

    async def pull() -> None:
        while waiting:
            point = waiting.popleft()
            report(point, None)
            report(point, await _run(point, folder, workers, left_out))

    async with asyncio.TaskGroup() as pulling:
        for _ in range(min(jobs, len(points))):
            pulling.create_task(pull())


async def _run(point: Point, folder: SweepFolder, workers: int, left_out: tuple[str, ...]) -> Outcome:
    path = folder.prepare(point, workers, left_out)
    with (path / "log.txt").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "roambench.controller.sweep.point_process",
            str(path),
            stdin=asyncio.subprocess.PIPE,
            stdout=log,
            stderr=log,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            start_new_session=True,  # Ctrl-C reaches the sweep alone, which then stops its points
        )
    try:
        status = await process.wait()
    finally:
        if process.returncode is None:
            await asyncio.shield(_stopped(process))
    outcome = folder.outcome_of(point)
    if outcome is None:
        outcome = Outcome(point.key, {}, f"{_ended(status)}; see {path / 'log.txt'}")
        write_outcome(path, outcome)
    return outcome


async def _stopped(process: asyncio.subprocess.Process) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), GRACE_S + 5.0)
    except TimeoutError:
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def _ended(status: int) -> str:
    if status >= 0:
        return f"its process ended with status {status} and no result"
    return f"its process was killed by {signal.Signals(-status).name}"
