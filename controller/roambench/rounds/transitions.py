"""From one state to the next; pure. The round loop does, these say what is then true."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from roambench.contract.orders import Answer, AnswerStatus, DiscardOrder
from roambench.rounds.presence import Presence
from roambench.rounds.rule_answers import Aggregate
from roambench.rounds.settle import GivenUp, Trainings, Uploads
from roambench.rounds.state import CLOUD_KEY, RoundState, StaleModel, edge_key
from roambench.systems.system import ApWork, PastTraining, System

_UNREACHED = frozenset({AnswerStatus.LOST, AnswerStatus.TIMEOUT})


def after_discards(
    state: RoundState, orders: Sequence[DiscardOrder], answers: Mapping[str, Answer]
) -> RoundState:
    """Drop devices that were reached; the others get the order again when they are present."""
    reached = {order.device for order in orders if answers[order.order_id].status not in _UNREACHED}
    return (
        replace(state, stale={k: v for k, v in state.stale.items() if k not in reached}) if reached else state
    )


def after_edges(state: RoundState, uploads: Uploads, digests: Mapping[int, str]) -> RoundState:
    """APs that aggregated have new models (named by `digests`); devices that were aggregated leave Tr."""
    outstanding, past = dict(state.outstanding), dict(state.past)
    models, ap_digests = dict(state.models), list(state.ap_digests)
    work, memories = dict(state.edge_work), dict(state.memories)
    for ap, edge in uploads.edges.items():
        models[digests[ap]] = edge.model
        ap_digests[ap] = digests[ap]
        if edge.memory is not None:
            memories[edge_key(ap)] = edge.memory
        arrived = uploads.arrived[ap]
        work[ap] = work.get(ap, ApWork()).plus(state.next_step, (arrival.training for arrival in arrived))
        for arrival in arrived:
            training = arrival.training
            del outstanding[training.device]
            if arrival.utility is not None:
                past[training.device] = PastTraining(training.step, training.ap, arrival.utility)
    return replace(
        state,
        models=models,
        ap_digests=tuple(ap_digests),
        outstanding=outstanding,
        participating=state.participating | uploads.edges.keys(),
        edge_work=work,
        past=past,
        memories=memories,
    )


def after_cloud(
    state: RoundState,
    system: System,
    step: int,
    cloud: Aggregate | None,
    digest: str,
    devices: int,
    uploads: Uploads,
) -> RoundState:
    """Every AP has the new global model, A is empty. Without anything to aggregate the models stay, and
    only the time of the last cloud aggregation moves on (unless the system keeps Tr then). Where
    devices are synchronised too, all `devices` of them have yet to get the new model. What this step's
    `uploads` brought counts at the next cloud aggregation once more, if the system says so."""
    if cloud is None:
        return replace(state, last_sync_step=step) if system.empty_sync_clears else state
    everyone = frozenset(range(devices)) if system.keeps_models else frozenset()
    arrived = uploads.arrived if system.counts_sync_step else {}
    again = {
        ap: ApWork().plus(step, (arrival.training for arrival in models)) for ap, models in arrived.items()
    }
    memories = state.memories if cloud.memory is None else {**state.memories, CLOUD_KEY: cloud.memory}
    return replace(
        state,
        global_digest=digest,
        unsynced=everyone,
        ap_digests=(digest,) * len(state.ap_digests),
        models={**state.models, digest: cloud.model},
        participating=frozenset(again),
        edge_work=again,
        last_sync_step=step,
        memories=memories,
    )


def after_syncs(state: RoundState, synced: frozenset[int]) -> RoundState:
    """These devices have the global model as their own."""
    return replace(state, unsynced=state.unsynced - synced) if synced else state


def after_failed_uploads(state: RoundState, failed: Mapping[int, AnswerStatus]) -> RoundState:
    """Trainings whose models APs asked for and did not get stay in Tr, and are known by it."""
    if not failed:
        return state
    outstanding = dict(state.outstanding)
    for device, status in failed.items():
        outstanding[device] = replace(outstanding[device], undelivered=f"upload {status.value}")
    return replace(state, outstanding=outstanding)


def after_giving_up(state: RoundState, lost: Iterable[GivenUp]) -> RoundState:
    """Trainings that are given up leave Tr; their devices will discard the model, if there is
    one."""
    outstanding, stale = dict(state.outstanding), dict(state.stale)
    for one in lost:
        training = one.training
        del outstanding[training.device]
        if not training.refused:
            stale[training.device] = StaleModel(training.order_id, one.reason)
    return replace(state, outstanding=outstanding, stale=stale)


def after_trainings(state: RoundState, trainings: Trainings) -> RoundState:
    """Finished trainings join Tr. A device keeps its newest model only, so an older one is gone with it,
    unless the newest training made none."""
    outstanding, stale = dict(state.outstanding), dict(state.stale)
    for training in trainings.finished:
        older = outstanding.get(training.device)
        outstanding[training.device] = training
        if not training.refused:
            stale.pop(training.device, None)
        elif older is not None and not older.refused:
            stale[training.device] = StaleModel(older.order_id, "retrained")
    for outcome in trainings.failed:
        if outcome.device in trainings.may_linger:
            stale[outcome.device] = StaleModel(outcome.train_order_id, outcome.reason)
    return replace(state, outstanding=outstanding, stale=stale)


def after_step(state: RoundState, here: Presence) -> RoundState:
    """The step is closed: model versions that are not wanted any more are forgotten."""
    live = state.live
    return replace(
        state,
        next_step=here.step + 1,
        models={digest: model for digest, model in state.models.items() if digest in live},
        previous_aps=here.aps,
    )
