"""Tells a run as it happens: every record goes to the journal, to the progress display, and to who ends the
run of a fleet that is gone."""

from __future__ import annotations

from collections.abc import Sequence

from roambench.controller.agent_bench import Watch
from roambench.controller.progress import RunProgress
from roambench.rounds.ports import Journal
from roambench.rounds.records import RoundRecord, StepOpened


class Narrator:
    """Implements `rounds.ports.Journal`."""

    def __init__(self, journal: Journal, progress: RunProgress, watch: Watch | None = None) -> None:
        self._journal = journal
        self._progress = progress
        self._watch = watch

    def append(self, record: RoundRecord) -> None:
        """Write a record to the event log and narrate it."""
        self._journal.append(record)
        self._show(record)

    def extend(self, records: Sequence[RoundRecord]) -> None:
        """Write records to the event log and narrate them."""
        self._journal.extend(records)
        for record in records:
            self._show(record)

    def _show(self, record: RoundRecord) -> None:
        if self._watch is not None:
            self._progress.set_joules(self._watch.joules.total_j)
            if isinstance(record, StepOpened):
                self._watch.step = record.step
            self._watch.answering.follow(record)
        self._progress.on_record(record)
