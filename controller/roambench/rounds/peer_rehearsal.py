"""A fleet that carries exchange orders out without training: who meets whom over whole runs in seconds.

No order of a decentralised run depends on a model, so none is computed: everybody goes on holding what the
run began with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from roambench.contract.model_digest import digest_of
from roambench.contract.orders import (
    Answer,
    AnswerStatus,
    ExchangeOrder,
    ExchangeReply,
    Order,
    UploadOrder,
    UploadReply,
    Vector,
)
from roambench.rounds.ports import OnAnswer, keep_all


@dataclass(frozen=True, slots=True)
class ExchangeTimes:
    """Durations of one device's iteration in device time; each is 0 where unknown."""

    download_s: float = 0.0  # of the start model
    train_s: float = 0.0
    exchange_s: float = 0.0  # from the end of the half step until the last model was sent and received


#: The times of all orders of a step, by device; an order that is missing has none.
TimesOf = Callable[[Sequence[ExchangeOrder]], Mapping[int, ExchangeTimes]]


def no_times(orders: Sequence[ExchangeOrder]) -> Mapping[int, ExchangeTimes]:
    """The `TimesOf` of who wants to know the meetings only."""
    return {}


@dataclass(slots=True)
class PeerRehearsalFleet:
    """`ports.Fleet` whose devices never fail and never leave a neighbour out.

    Every model that moves is reported with `model_bytes`; `times_of` is asked once per step.
    """

    samples: tuple[int, ...]  # of every device
    model_bytes: int = 0
    times_of: TimesOf = no_times
    _published: dict[str, Vector] = field(default_factory=dict)
    _held: dict[int, str] = field(default_factory=dict)

    async def perform(self, orders: Sequence[Order], on_answer: OnAnswer = keep_all) -> list[Answer]:
        """Answer every order at once, without training."""
        exchanges = [order for order in orders if isinstance(order, ExchangeOrder)]
        times = self.times_of(exchanges) if exchanges else {}
        return [on_answer(self._carry_out(order, times)) for order in orders]

    def publish(self, model: Vector | bytes) -> str:
        """Keep a model; returns its digest."""
        assert not isinstance(model, bytes)  # no program runs here
        digest = digest_of(model.tobytes())
        self._published[digest] = model
        return digest

    def retain(self, digests: Collection[str]) -> None:
        """Forget published models but those of `digests` and those that devices hold."""
        for digest in self._published.keys() - set(digests) - set(self._held.values()):
            del self._published[digest]

    def _carry_out(self, order: Order, times: Mapping[int, ExchangeTimes]) -> Answer:
        reply: ExchangeReply | UploadReply | None = None
        if isinstance(order, ExchangeOrder):
            self._held[order.device] = order.start_digest or self._held[order.device]
            reply = self._exchange(order, times.get(order.device, ExchangeTimes()))
        elif isinstance(order, UploadOrder):
            if order.device not in self._held:  # it has not been present yet
                return Answer(order.order_id, order.device, order.step, AnswerStatus.REFUSED)
            digest = self._held[order.device]
            reply = UploadReply(self._published[digest], digest)
        return Answer(order.order_id, order.device, order.step, AnswerStatus.DONE, reply=reply)

    def _exchange(self, order: ExchangeOrder, times: ExchangeTimes) -> ExchangeReply:
        moved_bytes = self.model_bytes * len(order.neighbours)
        return ExchangeReply(
            samples=self.samples[order.device],
            sgd_steps=0,
            mean_loss=math.nan,
            mean_squared_loss=math.nan,
            model_digest="",
            sent_bytes=moved_bytes,
            received_bytes=moved_bytes,
            exchange_s=times.exchange_s,
            device_s=times.train_s,
            downloaded_bytes=self.model_bytes * len(order.model_digests),
            download_s=times.download_s,
        )
