"""A fleet that carries orders out without training: whole traces are rehearsed in seconds.

For plans, waste statistics and the figures that need only who meets whom (MOHAWK Table 5). What depends on
real models (cosine weights, accuracy) is not rehearsed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from roambench.contract.draws import generator
from roambench.contract.model_digest import digest_of
from roambench.contract.orders import (
    Answer,
    AnswerStatus,
    Order,
    SyncOrder,
    SyncReply,
    TrainOrder,
    TrainReply,
    UploadOrder,
    UploadReply,
    Vector,
)
from roambench.rounds.ports import OnAnswer, keep_all
from roambench.rounds.records import RoundRecord


@dataclass(slots=True)
class MemoryJournal:
    """`ports.Journal` in a list."""

    records: list[RoundRecord] = field(default_factory=list)

    def append(self, record: RoundRecord) -> None:
        """Keep a record."""
        self.records.append(record)

    def extend(self, records: Sequence[RoundRecord]) -> None:
        """Keep records."""
        self.records += records


@dataclass(slots=True)
class RehearsalFleet:
    """`ports.Fleet` whose devices never fail. A trained model is its start model plus `spread` times normal
    draws: the row of its device in those of the step. Every transfer is reported with `model_bytes`.
    """

    seed: int
    samples: tuple[int, ...]  # of every device
    model_bytes: int = 0
    spread: float = 0.01
    _models: dict[str, Vector] = field(default_factory=dict)
    _replies: dict[tuple[int, int], TrainReply] = field(default_factory=dict)  # by samples and models
    _trained: dict[str, Vector] = field(default_factory=dict)  # by train_order_id
    _draws: tuple[int, npt.NDArray[np.float64]] = (-1, np.empty((0, 0)))  # of the latest step, a row a device

    async def perform(self, orders: Sequence[Order], on_answer: OnAnswer = keep_all) -> list[Answer]:
        """Answer every order at once, without training."""
        self._train([order for order in orders if isinstance(order, TrainOrder)])
        return [on_answer(self._carry_out(order)) for order in orders]

    def publish(self, model: Vector | bytes) -> str:
        """Keep a model; returns its digest."""
        assert not isinstance(model, bytes)  # no program runs here
        digest = digest_of(model.tobytes())
        self._models[digest] = model
        return digest

    def retain(self, digests: Collection[str]) -> None:
        """Forget published models but those of `digests`."""
        for digest in self._models.keys() - set(digests):
            del self._models[digest]

    def _carry_out(self, order: Order) -> Answer:
        reply: TrainReply | UploadReply | SyncReply | None = None
        if isinstance(order, TrainOrder):
            reply = self._reply(self.samples[order.device], 2 if order.previous_digest else 1)
        elif isinstance(order, UploadOrder):
            model = self._trained.pop(order.train_order_id)
            reply = UploadReply(model, "", uploaded_bytes=self.model_bytes)
        elif isinstance(order, SyncOrder):
            reply = SyncReply(0 if order.free else self.model_bytes)
        return Answer(order.order_id, order.device, order.step, AnswerStatus.DONE, reply=reply)

    def _reply(self, samples: int, models: int) -> TrainReply:
        """The same object for the same figures: there may be millions."""
        reply = self._replies.get((samples, models))
        if reply is None:
            moved = self.model_bytes * models
            reply = TrainReply(samples, 0, 0.0, 0.0, "", downloaded_bytes=moved)
            self._replies[samples, models] = reply
        return reply

    def _train(self, orders: Sequence[TrainOrder]) -> None:
        """Models that begin with the same one are made together. One generator a step: each takes as long as
        the draws of many."""
        together: dict[tuple[int, str], list[TrainOrder]] = {}
        for order in orders:
            together.setdefault((order.step, order.start_digest), []).append(order)
        for (step, digest), those in together.items():
            start = self._models[digest]
            if self._draws[0] != step:
                normal = generator(self.seed, "rehearsal", step=step).standard_normal
                self._draws = step, normal((len(self.samples), start.size))
            rows = self._draws[1][[order.device for order in those]]
            models: npt.NDArray[np.float32] = (start + self.spread * rows).astype(np.float32)
            self._trained |= zip((order.order_id for order in those), models, strict=True)
