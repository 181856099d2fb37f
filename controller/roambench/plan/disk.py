"""Bytes on disk of a planned run besides its event log, which a rehearsal has written."""

from __future__ import annotations

from typing import Final

import numpy as np

from roambench.plan.costs import MachineCosts
from roambench.plan.fleet import PlannedFleet
from roambench.plan.rehearsed import Rehearsed
from roambench.rounds.records import OrderAnswered
from roambench.runner.world import LearningTask

#: Bytes on disk per agent record (a reading, a phase), its Parquet copies included, and per agent.
_RECORD_BYTES: Final = 190
_AGENT_BYTES: Final = 24_000
_HOST_RECORDS: Final = 0.2  # of [host] for each second at its default period
_ANSWER_RECORDS: Final = 6  # phases and events of one order
_PIXEL_BYTES: Final = 4
#: Models of a virtual device in the file that all share: in rounds one trained and one in training; between
#: exchanges one held, one half way, one mixed, and with momentum two velocities.
_ROWS: Final = 2
_PEER_ROWS: Final = 3
_VELOCITY_ROWS: Final = 2
_SHARED_ROWS: Final = 8


def kept_bytes(
    fleet: PlannedFleet,
    learning_task: LearningTask,
    rehearsed: Rehearsed,
    device_s: float,
    costs: MachineCosts,
) -> int:
    """Bytes on disk that stay: the final model, and of agents their data, spools and model caches, and their
    records.

    A bench's boards keep the spools and model caches, the run folder the data that was sent to them.
    """
    if not fleet.kind.trains:
        return 0
    if not fleet.has_agents:
        return costs.model_bytes
    devices = len(learning_task.parts)
    image = int(learning_task.dataset.train_images[0].size) * _PIXEL_BYTES + 8
    shards = sum(len(part) for part in learning_task.parts) * image
    records = devices * device_s * (fleet.readings_hz + _HOST_RECORDS)
    records += _ANSWER_RECORDS * rehearsed.records.count(OrderAnswered)
    models = 0
    if fleet.kind.emulates:
        models = devices * (_AGENT_BYTES + _kept_models(fleet, rehearsed) * costs.model_bytes)
    return round(shards + records * _RECORD_BYTES + models + costs.model_bytes)


def _kept_models(fleet: PlannedFleet, rehearsed: Rehearsed) -> int:
    """Model files in an agent's folder: one that it trained; of exchanges the start, half step and mix."""
    if not rehearsed.exchanging:
        return 1
    return _PEER_ROWS + (1 if fleet.experiment.learning.momentum > 0.0 else 0)


def transient_bytes(fleet: PlannedFleet, learning_task: LearningTask, rehearsed: Rehearsed) -> int:
    """Bytes that the workers of virtual devices share on disk while they run: the data and a row per model
    held."""
    if not fleet.kind.is_virtual:
        return 0
    data = int(learning_task.dataset.train_images.nbytes + learning_task.dataset.train_labels.nbytes)
    device, samples = (rehearsed.records.array(OrderAnswered, name) for name in ("device", "samples"))
    trained = np.unique(device[samples > 0])
    rows = _ROWS
    if rehearsed.exchanging:
        rows = _PEER_ROWS + (_VELOCITY_ROWS if fleet.experiment.learning.momentum > 0.0 else 0)
    return data + 4 * learning_task.layout.size * (rows * len(trained) + _SHARED_ROWS)
