"""Makes the trainer ready for what a run learns: its data fetched, its model and data loaded, warmed up."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from roambench.agent.background import Chores
from roambench.agent.orders.program import Program
from roambench.agent.orders.shard_store import ShardStore
from roambench.agent.orders.worker import TrainerDied, TrainerRefused, Worker
from roambench.agent.orders.workplace import Dial
from roambench.agent.reporter import Reporter
from roambench.contract.errors import RoambenchError
from roambench.contract.events import EventKind
from roambench.contract.learning_spec import LearningSpec

#: Host seconds in which nothing of the data comes, until another attempt is made.
_SHARD_PATIENCE_S: Final = 120.0
_SHARD_ATTEMPTS: Final = 5


@dataclass(slots=True)
class Preparation:
    """Reports TRAINER_READY or TRAINER_NOT_READY for every welcome of a run's controller."""

    worker: Worker
    program: Program
    shards: ShardStore
    dial: Dial
    reporter: Reporter
    chores: Chores
    _wanted: LearningSpec | None = None
    _tried: LearningSpec | None = None  # the last for which the trainer was asked

    def begin(self, spec: LearningSpec) -> None:
        """Prepare for `spec`, unless that is under way; of a trainer that is warm for it, say so again: the
        controller may be another, or have missed it."""
        self.program.expect(spec.program)
        if self._tried == self._wanted and not self._is_warm(self._wanted):
            self._wanted = None  # its trainer has died since, or was ended with the run before
        if spec != self._wanted:
            self._wanted = spec
            self.chores.begin(self._prepare(spec))
        elif self._tried == spec:
            self.reporter.report(EventKind.TRAINER_READY, "as before")

    def _is_warm(self, spec: LearningSpec | None) -> bool:
        by_program = spec is not None and spec.program is not None
        return self.program.is_prepared if by_program else self.worker.is_prepared

    async def _prepare(self, wanted: LearningSpec) -> None:
        """The data first, if it is not here; a link that breaks is tried again. A trainer that fails here
        comes back with the first train order, which tries again. A program brings its own data."""
        spec = wanted
        if wanted.program is not None:
            try:
                await self.program.prepare(wanted.program)
                self.reporter.report(EventKind.TRAINER_READY, f"{self.program.rss_bytes} bytes resident")
            except (RoambenchError, TrainerDied, TrainerRefused) as error:
                self.reporter.report(EventKind.TRAINER_NOT_READY, str(error))
            self._tried = wanted
            return
        for attempt in range(_SHARD_ATTEMPTS):
            try:
                spec = await self.shards.resolve(wanted, self)
                break
            except (RoambenchError, OSError) as error:
                if attempt == _SHARD_ATTEMPTS - 1:
                    self.reporter.report_and_log(EventKind.TRAINER_NOT_READY, f"no training data: {error}")
                    self._wanted = None  # the next welcome tries again
                    return
            await asyncio.sleep(1.0 + attempt)
        try:
            await self.worker.prepare(spec)
            self.reporter.report(EventKind.TRAINER_READY, f"{self.worker.rss_bytes} bytes resident")
        except (TrainerDied, TrainerRefused) as error:
            self.reporter.report(EventKind.TRAINER_NOT_READY, str(error))
        self._tried = wanted

    async def fetch(self, digest: str, path: Path) -> None:
        """Write the data of that digest to `path`, from the controller."""
        if self.dial.link is None:
            raise ConnectionError("no data plane")
        self.reporter.report(EventKind.FETCHING_DATA, digest)
        await self.dial.link.fetch_shard(digest, path, _SHARD_PATIENCE_S)
