"""The one async loop of every hierarchical system: it performs what `plan` orders and `settle` concludes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from roambench.contract.errors import PluginError
from roambench.contract.orders import Answer, AnswerStatus, Order, Task, Vector
from roambench.mobility.association import Association
from roambench.rounds import plan, settle, transitions
from roambench.rounds.energy_seen import NO_ENERGY, RulesEnergy
from roambench.rounds.intake import Intake
from roambench.rounds.ports import (
    Batteries,
    Evaluator,
    Fleet,
    Journal,
    OnAnswer,
    Score,
    keep_all,
    metrics_record,
)
from roambench.rounds.presence import Presence
from roambench.rounds.record_batch import MANY
from roambench.rounds.records import (
    LOCAL_DIVERGENCE,
    CloudAggregated,
    EdgeAggregated,
    OutcomeDecided,
    RoundRecord,
    RunEnded,
    StepClosed,
    ap_metric,
)
from roambench.rounds.run import OnStep, Pace, RunResult, RunSettings, StepSummary, Throughput
from roambench.rounds.settle import GivenUp, Uploads
from roambench.rounds.state import SELECTION_KEY, UPLOADS_KEY, RoundState, initial_state
from roambench.systems.system import SpentEnergy, System, UploadRule


async def run_rounds(
    settings: RunSettings,
    system: System,
    association: Association,
    fleet: Fleet,
    journal: Journal,
    initial_model: Vector,
    *,
    throughput: Throughput,
    evaluator: Evaluator | None = None,
    on_step: OnStep | None = None,
    pace: Pace | None = None,
    state: RoundState | None = None,
    energy: RulesEnergy = NO_ENERGY,
    batteries: Batteries | None = None,
    stopwatch: Callable[[], float] = time.perf_counter,
) -> RunResult:
    """Run steps 0..settings.steps-1, or from `state.next_step` on when a state is given.

    `initial_model`: float32 of shape (parameters,), behind it what travels besides; not used when continuing.
    A device that fails is a record with a reason; only errors of the fleet, journal or evaluator themselves
    end the run. `pace` is awaited before a step closes: it holds the step open until the bench's clock says
    so. `energy` is asked where rules see energy; without it devices have no joules.
    Devices that `batteries` has off are absent.
    Cancelling leaves the journal complete up to that moment; outstanding trainings stay pending.
    """
    run = _Run(settings, system, association, fleet, journal, throughput, energy, batteries)
    if state is None:
        # The first global model is no device's own yet: where systems ask for own models, devices fetch it.
        devices = frozenset(range(len(settings.samples))) if system.keeps_models else frozenset()
        state = initial_state(initial_model, fleet.publish(initial_model), settings.aps, devices)
    else:
        for model in state.models.values():
            fleet.publish(model)
    extra = settings.extra_vectors
    if evaluator is not None and state.next_step == 0 and state.score is None:
        state = replace(state, score=await evaluator.score(extra.model(state.global_model)))
    scored = run.scored_steps()
    for step in range(state.next_step, 0 if state.ended else settings.steps):
        started_s, before = stopwatch(), state.global_digest
        state, here = await run.step(state, step)
        if state.global_digest != before:
            state = replace(state, score=None)
        if evaluator is not None and state.score is None and step in scored:
            state = replace(state, score=await evaluator.score(extra.model(state.global_model)))
        if evaluator is not None and settings.score_aps:
            await run.score_aps(evaluator)
        reached = run.reached(state.score, step)
        if reached:
            state = run.end(state, step, reached)
        if pace is not None:
            await pace(step)
        summary = run.close(state, here, stopwatch() - started_s)
        if on_step is not None:
            on_step(summary, state)
        if reached:
            break
    return RunResult(extra.model(state.global_model), state.global_digest, state.next_step, state)


@dataclass(slots=True)
class _Run:
    """The driver: the only place of this package that talks to the fleet and the journal."""

    settings: RunSettings
    system: System
    association: Association
    fleet: Fleet
    journal: Journal
    throughput: Throughput
    energy: RulesEnergy
    batteries: Batteries | None
    charges: Mapping[int, float] = field(default_factory=dict)  # at this step's beginning
    spent: Mapping[int, SpentEnergy] = field(default_factory=dict)  # before this step's uploads
    orders: int = 0
    done: int = 0
    aggregated: int = 0
    undelivered: frozenset[int] = frozenset()  # devices whose upload of this step failed and is tried again
    metrics: dict[str, float] = field(default_factory=dict)  # of this step, beside the score's own
    ap_models: tuple[Vector, ...] = ()  # of this step, before a cloud aggregation

    async def step(self, state: RoundState, step: int) -> tuple[RoundState, Presence]:
        here = Presence.of(self.association.placement(step))
        if strange := set(here.aps.values()) - set(range(self.settings.aps)):
            where = f"system {self.system.name!r}: association: placement at step {step}"
            wanted = f"expected access points in 0..{self.settings.aps - 1}"
            raise PluginError(f"{where}: {wanted}, got {min(strange)}")
        self.orders = self.done = self.aggregated = 0
        self.undelivered = frozenset()
        self.metrics = {}
        if self.batteries is None:
            self.journal.append(here.record())
        else:
            seen = await self.batteries.seen(step, here.aps.keys())
            here, self.charges = here.without(seen.off), dict(enumerate(seen.charges))
            self.journal.extend([here.record(), seen])
        synced = bool(state.unsynced & here.aps.keys())
        if synced:
            state = await self._sync(state, here, "catch-up", opening=True)
        if self.system.upload is UploadRule.SAME_STEP:
            state = await self._train(state, here, opening=not synced)
            state = await self._collect(state, here, opening=False)
        else:
            state = await self._collect(state, here, opening=not synced)
            if self.system.trains_at(step, self.settings.steps):
                state = await self._train(state, here, opening=False)
        state = transitions.after_step(state, here)
        self.fleet.retain(state.models.keys())
        return state, here

    def scored_steps(self) -> frozenset[int]:
        """The steps whose cloud aggregation gets a score: every n-th, and the last."""
        due = [step for step in range(self.settings.steps) if self.system.cloud_due(step)]
        return frozenset([*due[self.settings.evaluate_every - 1 :: self.settings.evaluate_every], *due[-1:]])

    async def score_aps(self, evaluator: Evaluator) -> None:
        """Metrics `AP 0`, ... and, where the evaluator has further metrics, `AP 0, class 3`, ..."""
        for ap, model in enumerate(self.ap_models):
            found = await evaluator.score(self.settings.extra_vectors.model(model))
            if found.accuracy is not None:
                self.metrics[ap_metric(ap)] = found.accuracy
            self.metrics |= {f"{ap_metric(ap)}, {name}": value for name, value in found.metrics.items()}

    def reached(self, score: Score | None, step: int) -> str:
        """Return why the run ends here, before the trace does; "" if it goes on."""
        if score is None or step == self.settings.steps - 1 or not self.system.cloud_due(step):
            return ""
        return score.reached(self.settings.stop_at)

    def end(self, state: RoundState, step: int, reason: str) -> RoundState:
        """End a run: what is outstanding will not be used any more."""
        state = self._give_up_all(state, step)
        self.journal.append(RunEnded(step, reason))
        return replace(state, ended=True)

    def close(self, state: RoundState, here: Presence, wall_s: float) -> StepSummary:
        score = state.score
        self.journal.extend(metrics_record(here.step, score, self.metrics))
        self.journal.append(
            StepClosed(
                here.step,
                self.aggregated,
                tuple(sorted(state.outstanding)),
                tuple(sorted(state.participating)),
                None if score is None else score.accuracy,
                None if score is None else score.loss,
                wall_s,
            )
        )
        counts = (self.orders, self.done, self.aggregated, len(state.outstanding))
        return StepSummary(here.step, len(here.aps), *counts, score, wall_s)

    async def _collect(self, state: RoundState, here: Presence, *, opening: bool) -> RoundState:
        """Uploads, edge aggregation, cloud aggregation when due, and what is wasted by now (parts 2-4)."""
        asked = plan.asked_for(self.system, state, here)
        state = self._give_up(state, here.step, settle.spoiled(asked))
        if self.system.sees_energy:
            everyone = range(len(self.settings.samples))
            self.spent = await self.energy.at(self.journal, here.step, "aggregation", everyone)
        plain = plan.select_plain(self.settings, self.system, state, here, self.spent)
        if plain is not None:
            state = replace(state, memories={**state.memories, UPLOADS_KEY: plain.memory})
        uploads = plan.plan_uploads(
            self.settings,
            self.system,
            state,
            here,
            self.throughput,
            frozenset(plain.devices) if plain else (),
        )
        extra = self.settings.extra_vectors
        intake = Intake(self.system, uploads, state, here.distances_m, extra, self.spent, self.charges)
        state, answers = await self._perform(state, here, uploads, opening, intake.take)
        settled = intake.settled(answers)
        state = self._give_up(state, here.step, settled.given_up)
        state = transitions.after_failed_uploads(state, settled.failed)
        state = self._aggregate_edges(state, here.step, settled)
        self.ap_models = tuple(state.models[digest] for digest in state.ap_digests)
        sync_before = state.last_sync_step
        if self.system.cloud_due(here.step):
            state = self._aggregate_cloud(state, here.step, settled)
            state = await self._sync(state, here, "sync", opening=False)
        lost = settle.hopeless(
            self.system, state.outstanding.values(), here.step, here.aps, sync_before, state.last_sync_step
        )
        state = self._give_up(state, here.step, lost)
        if here.step == self.settings.steps - 1:
            state = self._give_up_all(state, here.step)
        self.undelivered = frozenset(settled.failed.keys() & state.outstanding.keys())
        return state

    async def _sync(self, state: RoundState, here: Presence, occasion: str, *, opening: bool) -> RoundState:
        """The device part of a cloud aggregation, for those who are here (the others when they come)."""
        orders = plan.plan_syncs(self.settings, self.system, state, here, self.throughput, occasion)
        if not orders:
            return state
        state, answers = await self._perform(state, here, orders, opening)
        if not opening and (divergence := settle.divergence(answers, self.settings.samples)) is not None:
            self.metrics[LOCAL_DIVERGENCE] = divergence
        return transitions.after_syncs(state, settle.settle_syncs(orders, answers))

    async def _train(self, state: RoundState, here: Presence, *, opening: bool) -> RoundState:
        """Selection and local training (part 5). A device that could not deliver its model keeps it for the
        next step: another training would take its place."""
        offered = plan.candidates(self.settings, state, here, self.undelivered)
        if self.system.selection.sees_energy:
            energy = await self.energy.at(self.journal, here.step, "selection", offered.devices)
            offered = replace(offered, energy=energy)
        if self.charges:
            offered = replace(offered, charges={one: self.charges[one] for one in offered.devices})
        chosen, memory, epochs = plan.select(self.system, offered)
        if memory is not None:
            state = replace(state, memories={**state.memories, SELECTION_KEY: memory})
        if self.system.lookahead:
            chosen = returning(
                self.system, self.association, here.step, self.settings.steps, state.last_sync_step, chosen
            )
        orders = plan.plan_trainings(self.settings, self.system, state, here, chosen, self.throughput, epochs)
        state, answers = await self._perform(state, here, orders, opening)
        keeps_bases = self.settings.keeps_bases
        settled = settle.settle_trainings(orders, answers, here.distances_m, keeps_bases=keeps_bases)
        before = (state.outstanding.get(training.device) for training in settled.finished)
        retrained = [settle.given_up(old, "retrained") for old in before if old is not None]
        self.journal.extend([*(_outcome(here.step, one) for one in retrained), *settled.failed])
        return transitions.after_trainings(state, settled)

    async def _perform(
        self,
        state: RoundState,
        here: Presence,
        orders: Sequence[Task],
        opening: bool,
        on_answer: OnAnswer = keep_all,
    ) -> tuple[RoundState, Mapping[str, Answer]]:
        """Give orders (at a step's opening also discards and background phases) and await every answer."""
        discards = plan.plan_discards(self.settings, self.system, state, here) if opening else []
        busy = {order.device for order in orders}
        background = plan.plan_background(self.settings, here, busy) if opening else []
        given: list[Order] = [*discards, *background, *orders]
        named = (here, self.throughput, self.system.training.epochs)
        records = plan.order_batch(given, *named) if len(given) >= MANY else None
        self.journal.extend(records or [plan.order_record(order, *named) for order in given])
        answers = settle.answers_by_order(given, await self.fleet.perform(given, on_answer) if given else [])
        answered = settle.answer_batch(list(answers.values())) if len(given) >= MANY else None
        self.journal.extend(answered or [settle.answer_record(answer) for answer in answers.values()])
        self.orders += len(orders)
        self.done += (
            len(orders)
            if answered
            else sum(answers[order.order_id].status is AnswerStatus.DONE for order in orders)
        )
        return transitions.after_discards(state, discards, answers), answers

    def _aggregate_edges(self, state: RoundState, step: int, uploads: Uploads) -> RoundState:
        digests: dict[int, str] = {}
        records: list[RoundRecord] = []
        outcomes = settle.outcome_batch(step, uploads)
        first = 0
        for ap, edge in uploads.edges.items():
            digests[ap] = self.fleet.publish(edge.model)
            trainings = tuple(arrival.training.order_id for arrival in uploads.arrived[ap])
            weights = tuple(edge.weights.tolist())
            records.append(EdgeAggregated(step, ap, edge.members, trainings, weights, digests[ap]))
            if len(outcomes) < MANY:
                records += outcomes[first : first + len(trainings)]
            first += len(trainings)
        self.aggregated += len(outcomes)
        self.journal.extend(records)
        if len(outcomes) >= MANY:
            self.journal.extend(outcomes)
        return transitions.after_edges(state, uploads, digests)

    def _aggregate_cloud(self, state: RoundState, step: int, uploads: Uploads) -> RoundState:
        extra = self.settings.extra_vectors
        samples = self.settings.samples
        cloud = settle.aggregate_cloud(self.system, state, samples, extra, self.spent, self.charges)
        digest = state.global_digest if cloud is None else self.fleet.publish(cloud.model)
        aps, weights = ((), ()) if cloud is None else (cloud.members, tuple(cloud.weights.tolist()))
        self.journal.append(CloudAggregated(step, aps, weights, digest))
        devices = len(self.settings.samples)
        return transitions.after_cloud(state, self.system, step, cloud, digest, devices, uploads)

    def _give_up(self, state: RoundState, step: int, lost: Sequence[GivenUp]) -> RoundState:
        self.journal.extend([_outcome(step, one) for one in lost])
        return transitions.after_giving_up(state, lost) if lost else state

    def _give_up_all(self, state: RoundState, step: int) -> RoundState:
        left = sorted(state.outstanding.values(), key=lambda training: training.device)
        return self._give_up(state, step, [settle.given_up(training, "end of run") for training in left])


def _outcome(step: int, one: GivenUp) -> OutcomeDecided:
    return OutcomeDecided(step, one.training.device, one.training.order_id, one.outcome, one.reason)


def returning(
    system: System,
    association: Association,
    step: int,
    steps: int,
    last_sync_step: int,
    chosen: tuple[int, ...],
) -> tuple[int, ...]:
    """The oracle of the authors' simulator: those of `chosen` whose model an AP will accept when they are
    next seen; all of them if none will.

    HierFAVG: present at t+1. MOHAWK: seen again no later than the next cloud aggregation, whose uploads
    come before it. Cloud aggregations are foreseen by the calendar, as if none could be empty.
    """
    back: set[int] = set()
    sync = last_sync_step
    for later in range(step + 1, steps):
        if not system.eligible(step, later, sync):
            break
        back.update(association.placement(later).devices.tolist())
        if system.cloud_due(later):
            sync = later
    return tuple(device for device in chosen if device in back) or chosen
