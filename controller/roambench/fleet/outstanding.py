"""Orders that have been given and not answered yet."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Final

from roambench.contract.orders import Answer, AnswerStatus, GivenOrder, Task, TransferOrder, UploadReply

#: What a device says that knows that its upload arrived, or that lies about it.
_TOLD: Final = (AnswerStatus.DONE, AnswerStatus.GARBAGE)


@dataclass(slots=True, eq=False)
class OutstandingOrder:
    """One order on its way. `started_by` is the agent process that said TRAIN_STARTED."""

    order: Task | TransferOrder
    given: GivenOrder
    answered: asyncio.Future[Answer] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    started_by: int | None = None
    received: UploadReply | None = None  # arrived for an upload order, digest and layout checked
    uploads: int = 0  # whole uploads of padding that arrived for a transfer order
    transfers: int = 0  # that were begun in its name, broken ones included
    unaware: bool = False  # the device may not know that its upload arrived
    refusal: str = ""  # why what arrived for it was refused

    def settle(self, answer: Answer) -> None:
        """Settle once; a second answer to the same order changes nothing. An upload that arrived is done,
        also where its device does not know it: `unaware` then."""
        if self.answered.done():
            return
        if self.received is not None and answer.status not in _TOLD:
            self.unaware = True
            reason = f"the model had arrived: {answer.reason or answer.status.value}"
            answer = replace(answer, status=AnswerStatus.DONE, reason=reason, reply=self.received)
        self.answered.set_result(answer)

    def fail(self, status: AnswerStatus, reason: str) -> None:
        """Answer the order with a status other than DONE."""
        order = self.order
        self.settle(Answer(order.order_id, order.device, order.step, status, reason))


class OutstandingOrders:
    """By order id; at most a handful per device."""

    def __init__(self) -> None:
        self._orders: dict[str, OutstandingOrder] = {}

    def add(self, entry: OutstandingOrder) -> None:
        """Note an order that is on its way."""
        self._orders[entry.order.order_id] = entry

    def remove(self, order_id: str) -> None:
        """Forget an order."""
        self._orders.pop(order_id, None)

    def get(self, order_id: str, device: int) -> OutstandingOrder | None:
        """The order if it is outstanding AND was given to `device`: no device answers for another."""
        entry = self._orders.get(order_id)
        return entry if entry is not None and entry.order.device == device else None

    def of_device(self, device: int) -> list[OutstandingOrder]:
        """The orders on their way to a device."""
        return [entry for entry in self._orders.values() if entry.order.device == device]
