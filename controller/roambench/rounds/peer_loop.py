"""The one async loop of every decentralised system: exchange with the devices in reach, then move."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from roambench.aggregation.mixing import mixing_matrix
from roambench.aggregation.mixing_rule import MixingRule
from roambench.contract.orders import Answer, AnswerStatus, ExchangeOrder, Order, UploadReply, Vector
from roambench.mobility.peer_movement import PeerMovement
from roambench.rounds import peer_plan, plan, settle
from roambench.rounds.energy_seen import NO_ENERGY, RulesEnergy
from roambench.rounds.peer_run import (
    OnCollected,
    OnPeerStep,
    PeerScores,
    PeerSettings,
    PeerState,
    PeerStep,
    average_of,
)
from roambench.rounds.ports import Evaluator, Fleet, Journal, Score, metrics_record
from roambench.rounds.presence import Presence
from roambench.rounds.records import (
    ModelsExchanged,
    ModelsScored,
    PeersDescribed,
    RoundRecord,
    RunEnded,
    StepClosed,
    StepOpened,
)
from roambench.rounds.run import Pace


async def run_peers(
    settings: PeerSettings,
    movement: PeerMovement,
    fleet: Fleet,
    journal: Journal,
    initial_model: Vector,
    *,
    class_counts: npt.NDArray[np.int64] | None = None,
    evaluator: Evaluator | None = None,
    on_step: OnPeerStep | None = None,
    on_collected: OnCollected | None = None,
    pace: Pace | None = None,
    state: PeerState | None = None,
    energy: RulesEnergy = NO_ENERGY,
    stopwatch: Callable[[], float] = time.perf_counter,
) -> PeerState:
    """Run steps 0..settings.steps-1, or from `state.next_step` on; returns what devices hold at the end.

    Everybody starts from `initial_model`, float32 of shape (parameters,), or from its model of `state`. A
    device that fails is a record with a reason: its neighbours mix without it, it goes on from the model it
    held. Only errors of the fleet, journal or evaluator themselves end the run. `class_counts` of shape
    (devices, classes) are for diagnostics. Models are collected, and scored where there is an evaluator,
    after every n-th step and after the last. `energy` is asked where the mixing rule sees energy.
    """
    run = _Run(settings, movement, fleet, journal, class_counts, energy)
    first = run.begin(initial_model, state)
    held = state or PeerState(0, {})
    for step in range(first, 0 if held.ended else settings.steps):
        started_s = stopwatch()
        present, done, left_out = await run.step(step)
        scores = None
        if settings.scored(step):
            held, digests = await run.collect(step, held)
            if on_collected is not None:
                on_collected(held)
            scores = await run.score(step, held, digests, evaluator)
        reached = run.reached(step, scores)
        if reached:
            journal.append(RunEnded(step, reached))
        if pace is not None:
            await pace(step)
        wall_s = stopwatch() - started_s
        mean = None if scores is None else scores.mean
        journal.extend(metrics_record(step, mean, {}))
        journal.append(
            StepClosed(
                step,
                done,
                (),
                (),
                None if mean is None else mean.accuracy,
                None if mean is None else mean.loss,
                wall_s,
            )
        )
        if on_step is not None:
            now = PeerState(step + 1, held.models, run.waiting, bool(reached))
            on_step(PeerStep(step, present, done, left_out, scores, wall_s), now)
        if reached:
            break
    return held


class _Run:
    """The driver: the only place of this loop that talks to the fleet and the journal."""

    def __init__(
        self,
        settings: PeerSettings,
        movement: PeerMovement,
        fleet: Fleet,
        journal: Journal,
        class_counts: npt.NDArray[np.int64] | None,
        energy: RulesEnergy = NO_ENERGY,
    ) -> None:
        self._energy = energy
        self._settings = settings
        self._movement = movement
        self._fleet = fleet
        self._journal = journal
        self._class_counts = class_counts
        self._initial_digest = ""
        self._starts: dict[int, str] = {}  # who has to be given a model, and which

    def begin(self, initial_model: Vector, state: PeerState | None) -> int:
        """Publish what devices start from, tell of the devices; the first step."""
        first = 0 if state is None else state.next_step
        if state is None:
            fast = tuple(np.flatnonzero(self._movement.high_mobility).tolist())
            self._journal.append(PeersDescribed(first, fast, tuple(self._movement.speeds.tolist())))
        self._initial_digest = self._fleet.publish(initial_model)
        waiting = None if state is None else state.waiting
        devices = sorted(waiting) if waiting is not None else range(len(self._settings.samples))
        self._starts = dict.fromkeys(devices, self._initial_digest)
        if state is not None and waiting is None:
            self._starts |= {device: self._fleet.publish(model) for device, model in state.models.items()}
        return first

    @property
    def waiting(self) -> frozenset[int]:
        return frozenset(self._starts)

    async def step(self, step: int) -> tuple[int, int, int]:
        """One iteration: how many were present, did it, and how often a neighbour was left out."""
        present = self._movement.trace.present(step).tolist()
        self._journal.append(StepOpened(step, tuple(present), (0,) * len(present), (0.0,) * len(present)))
        neighbours = self._movement.neighbours(step)
        mixing = mixing_matrix(
            await self._mixing(step),
            neighbours,
            speeds=self._movement.speeds,
            samples=np.array(self._settings.samples),
            alpha=self._settings.alpha,
        )
        orders = peer_plan.plan_exchanges(self._settings, mixing, step, present, self._starts)
        self._journal.append(peer_plan.mixing_record(self._settings, orders, self._class_counts, step))
        answers = await self._perform(orders, step, present)
        exchanged: list[ModelsExchanged] = []
        records: list[RoundRecord] = []
        for order in orders:
            answer = answers[order.order_id]
            exchange, outcome = peer_plan.settle_exchange(order, answer)
            records += [outcome] if exchange is None else [exchange, outcome]
            if exchange is not None:
                exchanged.append(exchange)
                self._starts.pop(order.device, None)
            elif peer_plan.needs_start(answer):
                self._starts[order.device] = self._initial_digest
        self._journal.extend(records)
        self._fleet.retain({self._initial_digest, *self._starts.values()})
        return len(present), len(exchanged), sum(len(exchange.left_out) for exchange in exchanged)

    async def _mixing(self, step: int) -> str | MixingRule:
        """The settings' rule, with the joules of every device where it sees them."""
        rule: Any = self._settings.mixing
        if not self._settings.sees_energy:
            return cast("str | MixingRule", rule)
        devices = range(len(self._settings.samples))
        return partial(rule, energy=await self._energy.at(self._journal, step, "mixing", devices))

    async def collect(self, step: int, held: PeerState) -> tuple[PeerState, dict[int, str]]:
        """Collect the devices' present models: the new state, and the digests of those that answered.

        A device that does not answer keeps the model that `held` has of it.
        """
        answers = await self._fleet.perform(peer_plan.plan_collection(self._settings, step))
        models, digests = dict(held.models), {}
        for answer in sorted(answers, key=lambda answer: answer.device):
            if answer.status is AnswerStatus.DONE and isinstance(answer.reply, UploadReply):
                models[answer.device] = answer.reply.model
                digests[answer.device] = answer.reply.model_digest
        return PeerState(step + 1, models), digests

    async def score(
        self, step: int, held: PeerState, digests: dict[int, str], evaluator: Evaluator | None
    ) -> PeerScores | None:
        """Score the models that were collected just now; None without any, or without an evaluator."""
        if evaluator is None or not digests:
            return None
        devices = tuple(sorted(digests))
        scores: list[Score] = [await evaluator.score(held.models[device]) for device in devices]
        average = await evaluator.score(average_of([held.models[device] for device in devices]))
        found = PeerScores(devices, tuple(scores), average)
        self._journal.append(
            ModelsScored(
                step,
                devices,
                tuple(score.judged[1] for score in scores),
                tuple(score.loss for score in scores),
                tuple(digests[device] for device in devices),
                average.judged[1],
                average.loss,
            )
        )
        return found

    def reached(self, step: int, scores: PeerScores | None) -> str:
        """Return why the run ends here, before its last step; "" if it goes on."""
        if scores is None or step == self._settings.steps - 1:
            return ""
        return scores.mean.reached(self._settings.stop_at)

    async def _perform(
        self, orders: Sequence[ExchangeOrder], step: int, present: Sequence[int]
    ) -> dict[str, Answer]:
        given: list[Order] = [*peer_plan.plan_absent(self._settings, step, present), *orders]
        nowhere = Presence(step, {}, {})
        self._journal.extend([plan.order_record(order, nowhere, _unknown) for order in given])
        answers = settle.answers_by_order(given, await self._fleet.perform(given) if given else [])
        self._journal.extend([settle.answer_record(answer) for answer in answers.values()])
        return answers


def _unknown(_distance_m: float, _direction: str) -> float:
    """No throughput is modelled between peers: links run at the rate that orders name, or their own."""
    return 0.0
