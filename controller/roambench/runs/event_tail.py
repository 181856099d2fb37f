"""The event log of a run that goes on, read from where the last look ended."""

from __future__ import annotations

from pathlib import Path

from roambench.rounds.records import RoundRecord, RunResumed
from roambench.runs.database import naming, open_reader
from roambench.runs.event_log import records_of
from roambench.runs.journal import ROWS_BEYOND


class EventTail:
    """The records that count, in the order written. Its reads are short: the writer is never held up."""

    def __init__(self, path: Path) -> None:
        """RunError where there is no event log."""
        self.path = path
        self._connection = open_reader(path)
        self._connection.text_factory = bytes
        self._last = self._resumed = 0
        try:
            with naming(path):
                query = "SELECT coalesce(max(id), 0) FROM event WHERE kind = 'RunResumed'"
                self._resumed = int(self._connection.execute(query).fetchone()[0])
        except BaseException:
            self.close()
            raise

    def more(self, most: int) -> list[RoundRecord] | None:
        """The next `most` records at most. None: the run was resumed, and some that were handed out count no
        more; read them all again from a new tail. RunError for what this version does not know."""
        with naming(self.path):
            rows = self._connection.execute(ROWS_BEYOND, (self._last, most)).fetchall()
        records = records_of(self.path, rows)
        for (row, _, _), record in zip(rows, records, strict=True):
            if isinstance(record, RunResumed) and row > self._resumed:
                return None
        if rows:
            self._last = rows[-1][0]
        return records

    def close(self) -> None:
        """Close the database."""
        self._connection.close()
