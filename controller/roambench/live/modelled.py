"""Modelled joules of virtual devices, step by step as their event log grows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

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
        closed, ready = set[int](), 0
        for record in records:
            if isinstance(record, OrderGiven | OrderAnswered | ModelsExchanged):
                self._open.append(record)
            elif isinstance(record, StepClosed):
                closed.add(record.step)
                ready = len(self._open)
        if closed:
            self._book(self._open[:ready], closed)
            del self._open[:ready]
        return closed

    def _book(self, records: Sequence[RoundRecord], closed: Iterable[int]) -> None:
        """Account all closed steps at once: a look at a long run's log has hundreds."""
        rows = ledger_of_log(EventLog.of(records), self._names, self._model, self._rate, self._rest_s)
        self.by_step.update(dict.fromkeys(closed, 0.0))
        order = np.argsort(rows.work.at_step, kind="stable")
        steps, starts = np.unique(rows.work.at_step[order], return_index=True)
        for step, part in zip(steps.tolist(), np.split(order, starts)[1:], strict=True):
            self.by_step[step] = float(rows.gross_j[part].sum())
        served = rows.work.train_order_ids
        for order_id, joules in zip(served, rows.gross_j.tolist(), strict=True):
            if order_id:
                self.by_update[order_id] += joules
