"""Training spread by Ray: the same jobs as the worker processes', on this machine or on a cluster's."""

from __future__ import annotations

import asyncio
import os
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from typing import Any, Final

import numpy as np

from roambench.contract.errors import FleetError
from roambench.contract.orders import Vector
from roambench.extras.ray.ray_actor import PACKAGES, TrainingActor
from roambench.extras.ray.ray_session import RaySession
from roambench.fleet.simulated.job import TrainingJob, TrainingOutcome, WorkerSetting
from roambench.fleet.simulated.model_rows import ModelRows
from roambench.fleet.simulated.trainer import OnOutcome, no_hurry
from roambench.fleet.simulated.workers import ATTEMPTS

#: Seconds for an actor on a cluster to be ready: a node that died may never come back, and then nothing has
#: room for it. A Ray of our own always has, and Ray says when an actor dies: it is waited for.
_READY_S: Final = 120.0


class RayWorkers:
    """`Trainer` of `count` actors with one CPU each (0: one per CPU of the cluster, or core of this machine).

    Data and start models lie in Ray's object store, results come back and are written here: the far side
    needs no file of the run. An actor that dies, or its node, is replaced and its job done again. `address`:
    empty for a Ray of our own, "auto" or "host:port" for a cluster.
    """

    def __init__(self, setting: WorkerSetting, rows: ModelRows, count: int, address: str = "") -> None:
        self._setting = setting
        self._rows = rows
        self._count = count
        self._session = RaySession(address)
        self._task_arrays: list[Any] = []
        self._remote: Any = None
        self._processes: dict[Any, int] = {}  # by actor

    @property
    def process_ids(self) -> list[int]:
        """Return the process ids of the actors, each on its own node."""
        return list(self._processes.values())

    async def start(self) -> None:
        """Start all and wait until they are warm; FleetError says what is missing, and on which node."""
        setting = self._setting
        arrays = [
            np.load(path, mmap_mode="r", allow_pickle=False)
            for path in (setting.images_path, setting.labels_path, setting.parts_path, setting.offsets_path)
        ]
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        cpus = self._count or cores
        # Per actor its AP's, own and global model and a result, each of them twice: one comes, one goes.
        store_bytes = sum(array.nbytes for array in arrays) + 8 * 4 * setting.model_size * (cpus + 1)
        self._session.open(cpus, round(1.2 * store_bytes) + (64 << 20))
        try:
            ray = self._session.ray
            there = int(ray.cluster_resources().get("CPU", 0))
            count = self._count or there
            if not 0 < count <= there:
                raise FleetError(f"simulated.workers: {count} of them, but the Ray cluster has {there} CPUs")
            self._remote = ray.remote(TrainingActor)
            self._task_arrays = [ray.put(np.asarray(array)) for array in arrays]
            await asyncio.gather(*(self._spawn() for _ in range(count)))
        except BaseException:
            await self.stop()
            raise

    async def train(
        self, jobs: Sequence[TrainingJob], on_outcome: OnOutcome = no_hurry
    ) -> list[TrainingOutcome]:
        """One outcome per job, in the order given, whichever actor did it and however often one died."""
        models = LentModels(self._rows, jobs, self._session.ray.put)
        # Jobs of one AP follow each other, so that few models lie in the store at a time.
        waiting = deque(sorted(range(len(jobs)), key=lambda index: (jobs[index].ap_row, index)))
        tries = [0] * len(jobs)
        outcomes: dict[int, TrainingOutcome] = {}

        async def pull(actor: Any) -> None:
            while waiting:
                index = waiting.popleft()
                outcome = await self._ask(actor, jobs[index], models)
                if outcome is None:
                    tries[index] += 1
                    if tries[index] < ATTEMPTS:
                        waiting.appendleft(index)
                    else:
                        outcome = TrainingOutcome(refused=f"{ATTEMPTS} workers died over it")
                if outcome is not None:
                    outcomes[index] = outcome
                    models.done(jobs[index])
                    on_outcome(index, outcome)
                if actor not in self._processes:
                    try:
                        actor = await self._spawn()
                    except FleetError:
                        if not self._processes:
                            raise
                        return  # its node is gone; the others do what is left

        try:
            while waiting:
                async with asyncio.TaskGroup() as pulling:
                    for actor in list(self._processes)[: len(waiting)]:
                        pulling.create_task(pull(actor))
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return [outcomes[index] for index in range(len(jobs))]

    async def stop(self) -> None:
        """End all workers."""
        if self._session.ray is not None:
            for actor in self._processes:
                self._session.ray.kill(actor)
        self._processes, self._task_arrays = {}, []
        self._session.close()

    async def _ask(self, actor: Any, job: TrainingJob, models: LentModels) -> TrainingOutcome | None:
        """Carry out the job on an actor: its outcome, its model in its row; None if the actor or its node
        died over it."""
        asked = actor.train.remote(asdict(job), *(models.lend(row) for row in job.read_rows))
        try:
            outcome, model = await asyncio.wrap_future(asked.future())
        except self._session.ray.exceptions.RayError:
            self._dismiss(actor)
            return None
        if model is not None and (refused := self._rows.accept(job.out_row, model)):
            return TrainingOutcome(refused)
        assert isinstance(outcome, TrainingOutcome)
        return outcome

    async def _spawn(self) -> Any:
        """A new actor, warm; FleetError if it has no room or cannot train as this machine would."""
        ray = self._session.ray
        actor = self._remote.options(num_cpus=1, max_restarts=0, max_task_retries=0).remote()
        answer = actor.ready.remote(self._setting.to_json(), *self._task_arrays)
        greeting: dict[str, Any] | None = None
        patience_s = None if self._session.local else _READY_S
        wrong = (
            f"no node had room for it, or was fast enough, within {_READY_S:.0f} s; expected a free CPU for "
            "each worker: `ray status` shows them, fewer simulated.workers need less"
        )
        try:
            greeting = await asyncio.wait_for(asyncio.wrap_future(answer.future()), patience_s)
        except TimeoutError:
            pass
        except ray.exceptions.RayError as error:
            wrong = str(error).strip().splitlines()[0]
        if greeting is not None:
            wrong = greeting["refused"] or _other_versions(greeting["versions"])
            wrong = f"{wrong} (on node {greeting['node']})" if wrong else ""
        if greeting is None or wrong:
            ray.kill(actor)
            raise FleetError(f"a training actor cannot start: {wrong}")
        self._processes[actor] = greeting["process"]
        return actor

    def _dismiss(self, actor: Any) -> None:
        del self._processes[actor]
        self._session.ray.kill(actor)


def _other_versions(there: Mapping[str, str]) -> str:
    """Versions in which a node differs from this machine; empty when both are the same."""
    here = {name: version(name) for name in PACKAGES}
    return ", ".join(
        f"{name} {there[name]}, here {here[name]}" for name in PACKAGES if there[name] != here[name]
    )


class LentModels:
    """Rows of a run's models in an object store, each once and only as long as a job still needs it.

    `put` stores a model and returns its reference, which frees it when no process holds it any more.
    """

    def __init__(self, rows: ModelRows, jobs: Sequence[TrainingJob], put: Callable[[Vector], Any]) -> None:
        self._rows = rows
        self._put = put
        self._uses = Counter(row for job in jobs for row in set(_needed(job)))
        self._lent: dict[int, Any] = {}

    def lend(self, row: int) -> Any:
        """The reference of a row; None for the row that stands for no model."""
        if row < 0:
            return None
        if row not in self._lent:
            self._lent[row] = self._put(np.array(self._rows.row(row)))
        return self._lent[row]

    def done(self, job: TrainingJob) -> None:
        """Free what only this job needed: it has its outcome."""
        for row in set(_needed(job)):
            self._uses[row] -= 1
            if not self._uses[row]:
                self._lent.pop(row, None)


def _needed(job: TrainingJob) -> tuple[int, ...]:
    return tuple(row for row in job.read_rows if row >= 0)
