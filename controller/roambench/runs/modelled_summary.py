"""A run on virtual devices as one table of numbers, for scripts that read many of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from roambench.energy.modelled import ModelledRow, modelled_total
from roambench.energy.table10 import is_wasted
from roambench.energy.to_threshold import CommunicationToThreshold, communication_to_threshold
from roambench.rounds.records import CloudAggregated, RoundRecord, StepClosed, StepOpened
from roambench.rounds.tally import tally
from roambench.runs.info import RunInfo
from roambench.runs.modelled_accounts import ModelledEnergy

#: Raised when a key changes its meaning or disappears; new keys do not raise it.
SCHEMA: Final = "roambench.summary/1"


@dataclass(frozen=True, slots=True)
class Presence:
    """In how many steps a device was there, and how far from its AP on average."""

    steps: int
    mean_distance_m: float


def presence(records: Sequence[RoundRecord]) -> dict[int, Presence]:
    """By device, those that were ever there."""
    distances: dict[int, list[float]] = {}
    for record in records:
        if isinstance(record, StepOpened):
            for device, distance_m in zip(record.devices, record.distances_m, strict=True):
                distances.setdefault(device, []).append(distance_m)
    return {device: Presence(len(far), math.fsum(far) / len(far)) for device, far in distances.items()}


def threshold_step(records: Sequence[RoundRecord], threshold: float | None) -> int | None:
    """The first step with a cloud aggregation after which the global model is at least that accurate."""
    if threshold is None:
        return None
    cloud = {record.step for record in records if isinstance(record, CloudAggregated)}
    reached = (
        record.step
        for record in records
        if isinstance(record, StepClosed)
        and record.step in cloud
        and record.accuracy is not None
        and record.accuracy >= threshold
    )
    return next(reached, None)


def summary_of(
    info: RunInfo, records: Sequence[RoundRecord], modelled: ModelledEnergy, threshold: float | None
) -> dict[str, Any]:
    """The run in one table; docs/simulating.md explains every key."""
    counts = tally(records)
    closed = [record for record in records if isinstance(record, StepClosed)]
    scored = [record for record in closed if record.accuracy is not None]
    reached = threshold_step(records, threshold)
    rows = modelled.rows
    there = presence(records).values()
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
        "final_loss": finite(scored[-1].loss) if scored else None,
        "best_accuracy": max((r.accuracy for r in scored if r.accuracy is not None), default=None),
        "accuracy_threshold": threshold,
        "threshold_step": reached,
        "trainings": counts.trainings,
        "aggregated": counts.aggregated,
        "wasted": counts.wasted,
        "aggregated_per_step": counts.aggregated_per_step,
        "mean_distance_m": math.fsum(d.steps * d.mean_distance_m for d in there) / pairs if pairs else None,
        "modelled": {
            "link_model": modelled.links.name,
            "energy_rate": modelled.rate,
            "idle_w": modelled.power.idle_w,
            "train_w": modelled.power.train_w,
            "power_spread": modelled.power.spread,
            "total": _energy(rows),
            "wasted": _energy([row for row in rows if is_wasted(row)]),
            "phases": {
                phase.value: _energy([row for row in rows if row.phase is phase])
                for phase in dict.fromkeys(row.phase for row in rows)
            },
            "bytes": sum(row.transferred_bytes for row in rows),
            "to_threshold": to_threshold_keys(communication_to_threshold(rows, reached, counts.steps)),
        },
    }


def to_threshold_keys(until: CommunicationToThreshold) -> dict[str, Any]:
    return {
        "reached": until.reached,
        "rounds": until.rounds,
        "communication_j_per_client": until.joules_per_client,
        "communication_j": until.total_j,
        "transfers": until.transfers,
        "mean_distance_m": finite(until.mean_distance_m),
    }


def finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _energy(rows: Sequence[ModelledRow]) -> dict[str, float]:
    gross, net = modelled_total(rows), modelled_total(rows, "net")
    return {
        "gross_j": gross.joules,
        "idle_j": gross.joules - net.joules,
        "net_j": net.joules,
        "u_link_model_j": net.u_joules,
    }
