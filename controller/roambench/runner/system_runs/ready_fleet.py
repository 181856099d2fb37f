"""The fleet that a system runs on, once it is ready, and the passing of time there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from roambench.rounds.ports import Batteries, Fleet
from roambench.rounds.records import RunResumed
from roambench.rounds.run import Pace
from roambench.runner.agents.checkpoints import CheckpointKeeper, Checkpoints
from roambench.runner.agents.watch import Watch
from roambench.runner.pacing import PauseGate
from roambench.runs.folder import RunFolder


class ReadyFleet(Protocol):
    """A fleet while one run lasts."""

    @property
    def fleet(self) -> Fleet:
        """Answers the orders of the round loop."""
        ...

    @property
    def keeper(self) -> CheckpointKeeper | None:
        """Keeps the fleet's part of a checkpoint; None where runs are not resumed."""
        ...

    @property
    def watch(self) -> Watch | None:
        """Follows real agents."""
        ...

    @property
    def now_ns(self) -> Callable[[], int] | None:
        """The clock of the run, which real agents follow."""
        ...

    @property
    def orders_to_absent(self) -> bool:
        """True if devices that are away get orders, too: to idle."""
        ...

    async def begin(self, checkpoints: Checkpoints | None, outage_s: float) -> None:
        """Prepare the first step: clocks, an idle baseline; or journal where a run goes on, `outage_s` after
        its controller died."""
        ...

    def batteries(self, charge_of: Batteries) -> AbstractAsyncContextManager[Batteries]:
        """The batteries, whose boards are really off where the experiment wants it; all are on at the
        end."""
        ...

    def pace(self, say: Callable[[str], None], first_step: int) -> Pace:
        """The end of every step, `first_step` being the next; `say` prints pauses."""
        ...

    async def end(self, run_id: str, steps: int) -> None:
        """Finish after the last of all `steps`."""
        ...


@dataclass(frozen=True, slots=True)
class InProcessFleet:
    """`ReadyFleet` of virtual devices in this process: nothing is measured, and no clock is followed.

    Absent devices get no orders: a month of 10,000 devices would write millions of them.
    """

    fleet: Fleet
    folder: RunFolder
    keeper: CheckpointKeeper | None = None
    watch: None = None
    now_ns: None = None
    orders_to_absent: bool = False

    async def begin(self, checkpoints: Checkpoints | None, outage_s: float) -> None:
        """Journal that a run goes on, if it does; nothing is measured before it."""
        if checkpoints is not None and checkpoints.found is not None:
            self.folder.journal.append(RunResumed(checkpoints.found.next_step, 0, outage_s))

    def batteries(self, charge_of: Batteries) -> AbstractAsyncContextManager[Batteries]:
        """The batteries as they are: there is nothing to switch."""
        return nullcontext(charge_of)

    def pace(self, say: Callable[[str], None], first_step: int) -> Pace:
        """A pause where `roambench pause` asks for one; steps follow each other at once."""
        return PauseGate(self.folder.path, self.folder.journal, None, say).hold

    async def end(self, run_id: str, steps: int) -> None:
        """Do nothing: there is nothing to measure after a run."""
        pass
