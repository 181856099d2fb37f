"""Whether anybody of a fleet of agents still does what it is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from roambench.contract.errors import FleetError
from roambench.contract.orders import AnswerStatus
from roambench.rounds.records import OrderAnswered, OrderGiven, RoundRecord, StepClosed

#: Steps in a row in which nobody answers anything are the end of a fleet, whether its processes live or not.
SILENT_STEPS: Final = 3
#: Orders that are told, and need no answer.
_WITHOUT_ANSWER: Final = ("idle", "discard")
_UNANSWERED: Final = (AnswerStatus.LOST, AnswerStatus.TIMEOUT)


@dataclass(slots=True)
class Answering:
    """Follows what a run writes down. A step in which nobody was given work says nothing."""

    _work: set[str] = field(default_factory=set)  # orders of the open step
    _answered: bool = False
    _silent: list[int] = field(default_factory=list)  # the last steps, ascending

    def answered(self) -> None:
        """Of an answer to no matter what: one that comes too late is one."""
        self._answered = True

    def follow(self, record: RoundRecord) -> None:
        """FleetError as soon as the fleet has been silent for too long."""
        match record:
            case OrderGiven() if record.kind not in _WITHOUT_ANSWER:
                self._work.add(record.order_id)
            case OrderAnswered() if record.order_id in self._work and record.status not in _UNANSWERED:
                self._answered = True
            case StepClosed():
                self._close(record.step)

    def _close(self, step: int) -> None:
        if self._answered:
            self._silent.clear()
        elif self._work:
            self._silent.append(step)
        orders, self._answered = len(self._work), False
        self._work.clear()
        if len(self._silent) >= SILENT_STEPS:
            raise FleetError(
                f"the fleet is gone: nobody answered anything in {SILENT_STEPS} steps in a row, from step "
                f"{self._silent[0] + 1} on, the last {orders} order(s) among it"
            )
