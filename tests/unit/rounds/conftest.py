"""A world small enough to follow by hand: traces drawn as text, and a fleet that adds known increments."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from roambench.contract.draws import generator
from roambench.contract.orders import (
    Answer,
    AnswerStatus,
    DiscardOrder,
    Order,
    SyncOrder,
    SyncReply,
    TrainOrder,
    TrainReply,
    UploadOrder,
    UploadReply,
    Vector,
)
from roambench.learning.start_models import START_RULES, StartInputs, start_model
from roambench.mobility.trace import Trace
from roambench.rounds.loop import run_rounds
from roambench.rounds.ports import OnAnswer, Score, keep_all
from roambench.rounds.records import OrderGiven, RoundRecord, StepClosed
from roambench.rounds.rehearsal import MemoryJournal
from roambench.rounds.run import RunResult, RunSettings, StepSummary
from roambench.rounds.state import RoundState
from roambench.systems.catalogue import make_system
from roambench.systems.options import SystemOptions
from roambench.systems.system import System


def vector(*values: float) -> Vector:
    return np.array(values, dtype=np.float32)


def drawn_trace(*rows: str, aps_x_m: Sequence[float] = (0.0, 1000.0)) -> Trace:
    """One row per device, one word per step: its x in metres, or "-" while it is away."""
    cells = [row.split() for row in rows]
    steps = len(cells[0])
    fixes = [
        (step, device, float(cells[device][step]))
        for step in range(steps)
        for device in range(len(cells))
        if cells[device][step] != "-"
    ]
    return Trace(
        steps=steps,
        step_s=3600.0,
        device_names=tuple(f"d{device}" for device in range(len(cells))),
        step=np.array([fix[0] for fix in fixes], dtype=np.int32),
        device=np.array([fix[1] for fix in fixes], dtype=np.int32),
        x_m=np.array([fix[2] for fix in fixes], dtype=np.float64),
        y_m=np.zeros(len(fixes)),
        ap_names=tuple(f"a{ap}" for ap in range(len(aps_x_m))),
        ap_x_m=np.array(aps_x_m, dtype=np.float64),
        ap_y_m=np.zeros(len(aps_x_m)),
    )


def random_trace(seed: int, *, devices: int = 12, steps: int = 30, aps: int = 5, back: float = 0.45) -> Trace:
    """Presence as a two-state chain: an absent device comes with probability 0.25, a present one stays
    with probability `back`; positions are uniform over 1 km."""
    draw = generator(seed, "test presence")
    here = draw.random(devices) < 0.3
    present = []
    for _ in range(steps):
        present.append(here)
        here = draw.random(devices) < np.where(here, back, 0.25)
    step, device = np.nonzero(np.array(present))
    return Trace(
        steps=steps,
        step_s=3600.0,
        device_names=tuple(f"d{index}" for index in range(devices)),
        step=step.astype(np.int32),
        device=device.astype(np.int32),
        x_m=draw.random(len(step)) * 1000.0,
        y_m=draw.random(len(step)) * 1000.0,
        ap_names=tuple(f"a{ap}" for ap in range(aps)),
        ap_x_m=draw.random(aps) * 1000.0,
        ap_y_m=draw.random(aps) * 1000.0,
    )


@dataclass
class ScriptedFleet:
    """Devices that add `increments[device, step]` to their start model, and keep models as agents do:
    one to upload, and (where orders say so) one of their own.

    `failures[kind, device, step]` is answered instead; the order is then not carried out.
    """

    samples: Sequence[int]
    increments: Mapping[tuple[int, int], Vector] = field(default_factory=dict)
    failures: Mapping[tuple[str, int, int], Answer | AnswerStatus | None] = field(default_factory=dict)
    published: dict[str, Vector] = field(default_factory=dict)
    kept: dict[int, tuple[str, Vector]] = field(default_factory=dict)
    own: dict[int, Vector] = field(default_factory=dict)
    synced: dict[int, Vector] = field(default_factory=dict)  # the last global model that reached a device
    seen: list[Order] = field(default_factory=list)

    async def perform(self, orders: Sequence[Order], on_answer: OnAnswer = keep_all) -> list[Answer]:
        answers = [answer for order in orders if (answer := self._answer(order)) is not None]
        return [on_answer(answer) for answer in answers]

    def publish(self, model: Vector) -> str:
        digest = hashlib.blake2b(model.tobytes()).hexdigest()
        self.published[digest] = model
        return digest

    def retain(self, digests: Collection[str]) -> None:
        self.published = {digest: self.published[digest] for digest in digests}

    def _answer(self, order: Order) -> Answer | None:
        self.seen.append(order)
        kind = type(order).__name__.removesuffix("Order").lower()
        key = (kind, order.device, order.step)
        if key in self.failures:
            planned = self.failures[key]
            if isinstance(planned, AnswerStatus):
                return Answer(order.order_id, order.device, order.step, planned, "scripted")
            return planned
        reply: TrainReply | UploadReply | SyncReply | None = None
        if isinstance(order, TrainOrder):
            start = self._start(order)
            model = start + self.increments.get(key[1:], np.float32(0.0))
            self.kept[order.device] = (order.order_id, model)
            reply = TrainReply(
                self.samples[order.device], 1, 0.5, 0.25, "", downloaded_bytes=8, download_s=2.0
            )
        elif isinstance(order, UploadOrder):
            if self._holds(order.device) != order.train_order_id:
                return Answer(order.order_id, order.device, order.step, AnswerStatus.REFUSED, "not on disk")
            _, model = self.kept.pop(order.device)
            if order.keeps_model:
                self.own[order.device] = model
            reply = UploadReply(model, "", uploaded_bytes=9, upload_s=3.0)
        elif isinstance(order, SyncOrder):
            self.kept.pop(order.device, None)
            self.own[order.device] = self.synced[order.device] = self.published[order.digest]
            reply = SyncReply(downloaded_bytes=8, download_s=2.0)
        elif isinstance(order, DiscardOrder) and self._holds(order.device) == order.train_order_id:
            _, model = self.kept.pop(order.device)
            if order.keeps_model:
                self.own[order.device] = model
        return Answer(order.order_id, order.device, order.step, AnswerStatus.DONE, reply=reply)

    def _start(self, order: TrainOrder) -> Vector:
        ap = self.published[order.start_digest]
        held = self.kept.get(order.device)
        own = held[1] if held is not None else self.own.get(order.device)
        # Tests may name rules of their own making: those start from the AP's model.
        rule = order.training.start_rule
        if rule.partition("|")[0] not in START_RULES.own:
            rule = "ap"
        previous = self.published[order.previous_digest] if order.previous_digest else None
        inputs = StartInputs(ap, own, last_global=self.synced.get(order.device), previous_ap=previous)
        return start_model(rule, inputs)

    def _holds(self, device: int) -> str:
        return self.kept.get(device, ("", vector()))[0]


@dataclass
class CountingEvaluator:
    """Scores a model by its first parameter and remembers what it was asked."""

    asked: list[Vector] = field(default_factory=list)

    async def score(self, model: Vector) -> Score:
        self.asked.append(model)
        return Score(accuracy=float(model[0]), loss=-float(model[0]))


@dataclass
class Run:
    """One finished run under test."""

    fleet: ScriptedFleet
    records: list[RoundRecord]
    result: RunResult
    states: list[RoundState]  # after every step
    kept_then: list[dict[int, tuple[str, Vector]]]  # what the devices of a ScriptedFleet held then
    summaries: list[StepSummary]

    def of(self, kind: type, step: int | None = None) -> list:
        return [
            record
            for record in self.records
            if isinstance(record, kind) and (step is None or record.step == step)
        ]

    def closed(self, step: int) -> StepClosed:
        (record,) = self.of(StepClosed, step)
        return record

    def orders(self, kind: str, step: int) -> list[tuple[int, int]]:
        """(device, ap) of the orders of that kind given in `step`."""
        return [(o.device, o.ap) for o in self.of(OrderGiven, step) if o.kind == kind]


@dataclass(frozen=True)
class World:
    """What the tests of this folder share, as one fixture."""

    vector = staticmethod(vector)
    drawn_trace = staticmethod(drawn_trace)
    random_trace = staticmethod(random_trace)
    ScriptedFleet = ScriptedFleet
    CountingEvaluator = CountingEvaluator

    @staticmethod
    def run(
        system: System | str,
        trace: Trace,
        *,
        initial: Vector | None = None,
        options: SystemOptions | None = None,
        samples: Sequence[int] | None = None,
        fleet: object = None,
        increments: Mapping[tuple[int, int], Vector] | None = None,
        failures: Mapping[tuple[str, int, int], Answer | AnswerStatus | None] | None = None,
        evaluator: CountingEvaluator | None = None,
        state: RoundState | None = None,
        pace_links: bool = False,
        orders_to_absent: bool = True,
        port_mbit_s: float = math.inf,
        stop_at: float | None = None,
        evaluate_every: int = 1,
    ) -> Run:
        made = (
            make_system(system, options or SystemOptions(k1=1, k2=3)) if isinstance(system, str) else system
        )
        counts = tuple(samples or (1,) * len(trace.device_names))
        devices = fleet or ScriptedFleet(counts, increments or {}, failures or {})
        journal, states, kept_then, summaries = MemoryJournal(), [], [], []

        def on_step(summary: StepSummary, after: RoundState) -> None:
            summaries.append(summary)
            states.append(after)
            kept_then.append(dict(getattr(devices, "kept", {})))

        result = asyncio.run(
            run_rounds(
                RunSettings(
                    "r",
                    7,
                    trace.steps,
                    len(trace.ap_names),
                    counts,
                    pace_links,
                    orders_to_absent,
                    port_mbit_s,
                    stop_at,
                    evaluate_every,
                ),
                made,
                made.association(trace, 7),
                devices,
                journal,
                vector(1.0, 0.0) if initial is None else initial,
                throughput=lambda distance_m, direction: 100.0 if direction == "up" else 200.0 + distance_m,
                evaluator=evaluator,
                on_step=on_step,
                state=state,
                stopwatch=lambda: 0.0,
            )
        )
        return Run(devices, journal.records, result, states, kept_then, summaries)


@pytest.fixture
def world() -> World:
    return World()
