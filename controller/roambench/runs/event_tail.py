"""The event log of a run that goes on, read from where the last look ended."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from roambench.rounds.records import RoundRecord, RunResumed
from roambench.runs.database import naming, open_reader
from roambench.runs.event_log import records_of
from roambench.runs.journal import ROWS_BEYOND
from roambench.runs.record_columns import is_packed

_RESUMED: Final = RunResumed.__name__.encode()


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
        """The next records: `most`, or more where a row holds many, or the last ones. None: the run was
        resumed, and some that were handed out count no more; read them all again from a new tail. RunError
        for what this version does not know."""
        records: list[RoundRecord] = []
        while len(records) < most and (rows := self._rows(most - len(records))):
            records += records_of(self.path, rows)
            if any(kind == _RESUMED and row > self._resumed for row, kind, _ in rows):
                return None
            self._last = rows[-1][0]
        return records

    def _rows(self, most: int) -> list[tuple[int, bytes, bytes]]:
        """The next rows, to the first that holds many records."""
        rows = []
        with naming(self.path):
            for row in self._connection.execute(ROWS_BEYOND, (self._last, most)):
                rows.append(row)
                if is_packed(row[2]):
                    break
        return rows

    def close(self) -> None:
        """Close the database."""
        self._connection.close()
