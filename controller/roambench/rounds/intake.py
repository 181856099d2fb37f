"""The answers to a step's uploads, taken as they arrive and aggregated at every AP in fixed order; pure.

An AP takes its devices' models ascending by device, whenever they come: one that is early waits until all
before it are answered. A failed, late or refused upload is passed over. Where the system knows the weights
by then, a model is folded into the AP's accumulator and gone; else the AP's models (the received bytes
themselves, no copy) wait until its last device is answered, and are aggregated and gone then.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import SupportsFloat

from roambench.aggregation import Folding
from roambench.contract.errors import PluginError
from roambench.contract.orders import Answer, AnswerStatus, UploadOrder, UploadReply, Vector
from roambench.rounds.extra_vectors import MODEL_ALONE, ExtraVectors
from roambench.rounds.rule_answers import Aggregate, checked_aggregate
from roambench.rounds.settle import Arrival, GivenUp, Uploads, judge_upload
from roambench.rounds.state import RoundState, edge_key
from roambench.systems.system import EdgeInput, EdgeRule, FoldedEdge, Memory, SpentEnergy, System


class Intake:
    """The uploads of one step, for `state` before it: `take` every answer, then ask what came of them.

    `distances_m` of the devices to the APs that they upload to.
    """

    def __init__(
        self,
        system: System,
        orders: Sequence[UploadOrder],
        state: RoundState,
        distances_m: Mapping[int, float],
        extra: ExtraVectors = MODEL_ALONE,
        spent: Mapping[int, SpentEnergy] | None = None,
        charges: Mapping[int, float] | None = None,
    ) -> None:
        self._reference = state.global_model
        self._outstanding = state.outstanding
        self._extra = extra
        self._rate = system.selection.rate
        self._orders = {
            order.order_id: order for order in sorted(orders, key=lambda order: (order.ap, order.device))
        }
        self._waiting: dict[str, Vector | GivenUp | AnswerStatus] = {}
        self._taken: set[str] = set()
        self._edges: dict[int, _Edge] = {}
        for order in self._orders.values():
            edge = self._edges.get(order.ap)
            if edge is None:
                reference = state.models[state.ap_digests[order.ap]]
                where = f"system {system.name!r}: edge_weights at step {order.step}, AP {order.ap}"
                memory = state.memories.get(edge_key(order.ap), {})
                edge = self._edges[order.ap] = _Edge(
                    system.edge_weights,
                    extra,
                    reference,
                    order.step,
                    order.ap,
                    memory,
                    distances_m,
                    where,
                    spent or {},
                    charges or {},
                )
            edge.expected.append(order)
        self._given_up: dict[str, GivenUp] = {}
        self._failed: dict[str, AnswerStatus] = {}

    def take(self, answer: Answer) -> Answer:
        """Take the first answer to each upload, and return answers without their models.

        Answers to other orders come back as they are; further answers to an upload change nothing.
        """
        order_id = answer.order_id
        order = self._orders.get(order_id)
        if order is None:
            return answer
        if order_id not in self._taken:
            self._taken.add(order_id)
            training = self._outstanding[order.device]
            self._waiting[order_id] = judge_upload(answer, training, self._reference)
            self._advance(self._edges[order.ap])
        if not isinstance(answer.reply, UploadReply):
            return answer
        reply = answer.reply.without_model()
        return Answer(order_id, answer.device, answer.step, answer.status, answer.reason, reply)

    def settled(self, answers: Mapping[str, Answer]) -> Uploads:
        """Results of all uploads; those that were not taken yet have their answer in `answers`."""
        for order_id in self._orders:
            if order_id not in self._taken:
                self.take(answers[order_id])
        arrived = {ap: tuple(edge.arrivals) for ap, edge in self._edges.items() if edge.arrivals}
        return Uploads(
            arrived=arrived,
            edges={ap: self._edges[ap].close() for ap in arrived},
            given_up=tuple(self._given_up[order] for order in self._orders if order in self._given_up),
            failed={
                order.device: self._failed[order_id]
                for order_id, order in self._orders.items()
                if order_id in self._failed
            },
        )

    def _advance(self, edge: _Edge) -> None:
        while edge.expected and edge.expected[0].order_id in self._waiting:
            order = edge.expected.popleft()
            verdict = self._waiting.pop(order.order_id)
            if isinstance(verdict, AnswerStatus):
                self._failed[order.order_id] = verdict
            elif isinstance(verdict, GivenUp):
                self._given_up[order.order_id] = verdict
            else:
                training = self._outstanding[order.device]
                utility = None
                if self._rate is not None:
                    models = (self._extra.model(model) for model in (verdict, self._reference))
                    utility = self._rate(training, *models)
                    if not _is_finite(utility):
                        raise PluginError(
                            f"{edge.where}: selection.rate: expected a finite number for device "
                            f"{training.device}, got {utility!r}"
                        )
                edge.add(Arrival(training, utility), verdict)
        if not edge.expected and edge.arrivals:
            edge.close()


@dataclass(slots=True)
class _Edge:
    """One AP's aggregation: `expected` are the uploads not passed yet, ascending by device."""

    rule: EdgeRule
    extra: ExtraVectors
    reference: Vector  # the AP's previous model, and what travelled behind it
    step: int
    ap: int
    memory: Memory
    distances_m: Mapping[int, float]  # by device
    where: str  # in messages
    spent: Mapping[int, SpentEnergy]
    charges: Mapping[int, float]
    expected: deque[UploadOrder] = field(default_factory=deque)
    arrivals: list[Arrival] = field(default_factory=list)
    folding: Folding = field(default_factory=Folding)
    models: list[Vector] = field(default_factory=list)
    aggregate: Aggregate | None = None

    def add(self, arrival: Arrival, model: Vector) -> None:
        self.arrivals.append(arrival)
        if isinstance(self.rule, FoldedEdge) and not self.extra.merges:
            share = self.rule.share(arrival.training.samples)
            if not _is_finite(share) or share < 0.0:
                raise PluginError(f"{self.where}: expected a finite share of 0 or more, got {share!r}")
            self.folding.add(model, share)
        else:
            self.models.append(model)

    def close(self) -> Aggregate:
        """Aggregate what arrived, once, and let the models go."""
        if self.aggregate is None:
            answer: object
            came, reference = self.models, self.extra.model(self.reference)
            if isinstance(self.rule, FoldedEdge) and not self.extra.merges:
                answer = self.folding.close()
            else:
                trainings = [arrival.training for arrival in self.arrivals]
                samples = [training.samples for training in trainings]
                answer = self.rule(
                    EdgeInput(
                        reference,
                        [self.extra.model(one) for one in came],
                        samples,
                        self.step,
                        self.ap,
                        trainings,
                        [self.distances_m[training.device] for training in trainings],
                        self.memory,
                        self.extra.named(came),
                        self.extra.length,
                        self.spent,
                        self.charges,
                    )
                )
                self.models = []
            members = tuple(arrival.training.device for arrival in self.arrivals)
            found = checked_aggregate(members, answer, reference, self.where)
            model = self.extra.at_edge(found.model, self.reference, came, found.weights)
            self.aggregate = replace(found, model=model)
        return self.aggregate


def _is_finite(value: object) -> bool:
    """Check what a rule of another package returned."""
    return isinstance(value, SupportsFloat) and math.isfinite(value)
