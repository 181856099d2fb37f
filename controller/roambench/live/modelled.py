"""Modelled joules of virtual devices, step by step as their event log grows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from roambench.rounds.records import ModelsExchanged, OrderAnswered, OrderGiven, RoundRecord, StepClosed
from roambench.runs.event_log import EventLog
from roambench.runs.folder import RunFolder
from roambench.runs.modelled.accounts import energy_model, ledger_of_log


class ModelledJoules:
    """Gross joules of the closed steps, by step and by local update."""

    def __init__(self, folder: RunFolder) -> None:
        """RunError where the run's experiment cannot be read."""
        self._names = folder.info.device_names
        self._model, self._rate = energy_model(folder)
        self._rest_s = folder.info.rest_s
        self._open: list[RoundRecord] = []
        self.by_step: dict[int, float] = {}
        self.by_update: dict[str, float] = defaultdict(float)

    def add(self, records: Iterable[RoundRecord]) -> set[int]:
        """Add the next records of the log; returns the steps whose joules are new."""
        closed = set()
        for record in records:
            if isinstance(record, OrderGiven | OrderAnswered | ModelsExchanged):
                self._open.append(record)
            elif isinstance(record, StepClosed):
                self._book(record.step)
                closed.add(record.step)
        return closed

    def _book(self, step: int) -> None:
        rows = ledger_of_log(EventLog.of(self._open), self._names, self._model, self._rate, self._rest_s)
        self._open.clear()
        self.by_step[step] = float(rows.gross_j.sum())
        served = rows.work.train_order_ids
        for order_id, joules in zip(served, rows.gross_j.tolist(), strict=True):
            if order_id:
                self.by_update[order_id] += joules
