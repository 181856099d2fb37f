"""A rehearsal: the same rounds without agents, training or energy; whole months take seconds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import ClassVar

from rich.console import Console

from roambench.rounds.peer_rehearsal import PeerRehearsalFleet
from roambench.rounds.rehearsal import RehearsalFleet
from roambench.runner.agents.checkpoints import Checkpoints
from roambench.runner.places.place import ThisMachine
from roambench.runner.system_runs.ready_fleet import InProcessFleet, ReadyFleet
from roambench.runner.system_runs.system_run import FleetNeeds, World
from roambench.runs.fleet_kinds import FLEET_KINDS, FleetKind
from roambench.runs.folder import RunFolder


class RehearsalPlace(ThisMachine):
    """Place of a rehearsal: who would train where, upload where or exchange with whom, and whose training
    would be wasted."""

    kind: ClassVar[FleetKind] = FLEET_KINDS["rehearsal"]

    @asynccontextmanager
    async def ready_fleet(
        self,
        world: World,
        needs: FleetNeeds,
        folder: RunFolder,
        console: Console,
        checkpoints: Checkpoints | None,
    ) -> AsyncIterator[ReadyFleet]:
        """A fleet that answers every order at once, without training."""
        if needs.exchanges:
            yield InProcessFleet(PeerRehearsalFleet(needs.samples), folder)
        else:
            yield InProcessFleet(RehearsalFleet(world.experiment.seed, needs.samples), folder)
