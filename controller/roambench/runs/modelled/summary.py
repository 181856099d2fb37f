"""A run on virtual devices as one table of numbers, for scripts that read many of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from roambench.contract.metric import ACCURACY
from roambench.contract.phases import Outcome
from roambench.energy.ledger import EVERY, Ledger, Rows
from roambench.rounds.records import (
    CloudAggregated,
    ModelsScored,
    OrderGiven,
    OutcomeDecided,
    RoundRecord,
    StepClosed,
    StepOpened,
)
from roambench.rounds.tally import tally
from roambench.runs.event_log import EventLog
from roambench.runs.info import RunInfo
from roambench.runs.modelled.accounts import ModelledEnergy
from roambench.runs.modelled.to_threshold import CommunicationToThreshold, communication_to_threshold
from roambench.runs.scores import scores_of

#: Raised when a key changes its meaning or disappears; new keys do not raise it.
SCHEMA: Final = "roambench.summary/2"


@dataclass(frozen=True, slots=True)
class PresenceSummary:
    """In how many steps a device was there, and how far from its AP on average."""

    steps: int
    mean_distance_m: float


def presence(records: Sequence[RoundRecord]) -> dict[int, PresenceSummary]:
    """By device, those that were ever there."""
    log = EventLog.of(records)
    devices, _ = log.lists(StepOpened, "devices")
    distances_m, _ = log.lists(StepOpened, "distances_m")
    known, of_device = np.unique(devices, return_inverse=True)
    ordered = distances_m[np.argsort(of_device, kind="stable")].tolist()
    last = np.cumsum(np.bincount(of_device, minlength=len(known))).tolist()
    found, start = {}, 0
    for device, end in zip(known.tolist(), last, strict=True):
        found[device] = PresenceSummary(end - start, math.fsum(ordered[start:end]) / (end - start))
        start = end
    return found


def threshold_step(records: Sequence[RoundRecord], threshold: float | None) -> int | None:
    """The first step with a cloud aggregation after which the global model is judged at least that good."""
    if threshold is None:
        return None
    log = EventLog.of(records)
    cloud = {*log.array(CloudAggregated, "step").tolist(), *log.array(ModelsScored, "step").tolist()}
    found = scores_of(log)
    reaches = (step for step, value in found.judged.items() if found.metric.reaches(value, threshold))
    return next((step for step in reaches if step in cloud), None)


def summary_of(
    info: RunInfo, records: Sequence[RoundRecord], modelled: ModelledEnergy, threshold: float | None
) -> dict[str, Any]:
    """The run in one table; docs/simulating.md explains every key."""
    log = EventLog.of(records)
    closed: list[StepClosed] = list(log.only(StepClosed))
    counts = tally(closed)
    scored = [record for record in closed if record.loss is not None]
    scores = scores_of(log)
    reached = threshold_step(log, threshold)
    rows = modelled.ledger
    there = presence(log).values()
    pairs = sum(device.steps for device in there)
    return {
        "schema": SCHEMA,
        "run_id": info.run_id,
        "system": info.system,
        "fleet": info.fleet,
        "seed": info.seed,
        "trace_hash": info.trace_hash,
        "devices": len(info.device_names),
        "steps": counts.steps,
        "wall_s": math.fsum(record.wall_s for record in closed),
        "final_accuracy": scored[-1].accuracy if scored else None,
        "final_loss": scored[-1].loss if scored else None,
        "best_accuracy": max((r.accuracy for r in scored if r.accuracy is not None), default=None),
        "metric": scores.metric.name,
        "better": scores.metric.better,
        "final_metric": scores.judged[max(scores.judged)] if scores.judged else None,
        "best_metric": scores.metric.best(scores.judged.values()),
        "accuracy_threshold": threshold if scores.metric == ACCURACY else None,
        "metric_threshold": None if scores.metric == ACCURACY else threshold,
        "threshold_step": reached,
        "trainings": int(np.count_nonzero(log.codes(OrderGiven, "kind", ["train", "exchange"]) >= 0)),
        "aggregated": counts.aggregated,
        "wasted": _decided(log, Outcome.WASTED),
        "failed": _decided(log, Outcome.FAILED),
        "aggregated_per_step": counts.aggregated_per_step,
        "mean_distance_m": math.fsum(d.steps * d.mean_distance_m for d in there) / pairs if pairs else None,
        "modelled": {
            "link_model": modelled.links.name,
            "energy_rate": modelled.rate,
            "idle_w": modelled.power.idle_w,
            "train_w": modelled.power.train_w,
            "power_spread": modelled.power.spread,
            "total": _energy(rows),
            "wasted": _energy(rows, rows.wasted()),
            "failed": _energy(rows, rows.failed()),
            "phases": {phase.value: _energy(rows, rows.of_phase(phase)) for phase in rows.phases()},
            "bytes": int(rows.work.transferred_bytes.sum()),
            "to_threshold": to_threshold_keys(communication_to_threshold(rows, reached, counts.steps)),
        },
    }


def _decided(log: EventLog, outcome: Outcome) -> int:
    return int(np.count_nonzero(log.codes(OutcomeDecided, "outcome", [outcome.value]) == 0))


def to_threshold_keys(until: CommunicationToThreshold) -> dict[str, Any]:
    """Communication to the threshold as keys of the JSON report."""
    return {
        "reached": until.reached,
        "rounds": until.rounds,
        "communication_j_per_client": until.joules_per_client,
        "communication_j_per_participant": until.joules_per_participant,
        "communication_j": until.total_j,
        "transfers": until.transfers,
        "mean_distance_m": until.mean_distance_m,
    }


def _energy(ledger: Ledger, rows: Rows = EVERY) -> dict[str, float]:
    gross, net = ledger.total("gross", rows), ledger.total("net", rows)
    return {
        "gross_j": gross.joules,
        "idle_j": gross.joules - net.joules,
        "net_j": net.joules,
        "u_link_model_j": net.u_joules,
    }
