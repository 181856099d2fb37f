"""A run on virtual devices as one table of numbers, for scripts that read many of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from roambench.contract.metric import ACCURACY
from roambench.energy.ledger import EVERY, Ledger, Rows
from roambench.rounds.records import (
    RoundRecord,
    StepClosed,
    StepOpened,
)
from roambench.runs.event_log import EventLog
from roambench.runs.info import RunInfo
from roambench.runs.learning import learning_summary, training_summary
from roambench.runs.modelled.accounts import ModelledEnergy
from roambench.runs.modelled.to_threshold import CommunicationToThreshold, communication_to_threshold

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


def summary_of(
    info: RunInfo, records: Sequence[RoundRecord], modelled: ModelledEnergy, threshold: float | None
) -> dict[str, Any]:
    """The run in one table; docs/simulating.md explains every key."""
    log = EventLog.of(records)
    learning, trainings = learning_summary(log, lambda _: threshold), training_summary(log)
    steps, reached, judged = len(learning.points), learning.threshold_step, learning.metric
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
        "steps": steps,
        "wall_s": math.fsum(record.wall_s for record in log.only(StepClosed)),
        "final_accuracy": learning.final_accuracy,
        "final_loss": learning.final_loss,
        "best_accuracy": learning.best_accuracy,
        "metric": judged.name,
        "better": judged.better,
        "final_metric": learning.final_score,
        "best_metric": learning.best_score,
        "accuracy_threshold": threshold if judged == ACCURACY else None,
        "metric_threshold": None if judged == ACCURACY else threshold,
        "threshold_step": reached,
        "trainings": trainings.ordered,
        "aggregated": sum(point.aggregated for point in learning.points),
        "wasted": trainings.wasted,
        "failed": trainings.failed,
        "aggregated_per_step": learning.aggregated_per_step or 0.0,
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
            "to_threshold": to_threshold_keys(communication_to_threshold(rows, reached, steps)),
        },
    }


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
