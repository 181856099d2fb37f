"""Records that a run's controller never acknowledged: kept by run, out of the way of later runs.

The spool is one queue. When the next run begins, older records do not belong to its controller: those of an
earlier run go to a file that `roambench fleet fetch` collects, those of no run are dropped and counted.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from roambench.contract.json_values import json_or_none
from roambench.contract.line_file import append_lines
from roambench.spool.consumer import Record
from roambench.spool.spool import CONTROLLER, Spool

#: All files together; the oldest go first, and are counted.
KEPT_BYTES: Final = 256 * 1024 * 1024
_BATCH: Final = 1000
_SUFFIX: Final = ".jsonl"


@dataclass(frozen=True, slots=True)
class UnsentRecord:
    """One unsent record and the run it belongs to (empty: none). `board`: whose it is, where that is not the
    agent's own, but a board whose meter it reads."""

    run: str
    spool_uuid: str
    seq: int
    kind: int
    payload: str  # base64
    board: str = ""

    @classmethod
    def of(cls, run: str, spool_uuid: str, record: Record, board: str = "") -> UnsentRecord:
        """A record of the spool `spool_uuid`."""
        seq, kind, payload = record
        return cls(run, spool_uuid, seq, int(kind), base64.b64encode(payload).decode(), board)

    def content(self) -> bytes:
        """The payload's bytes; ValueError where it is not base64."""
        return base64.b64decode(self.payload, validate=True)

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))


class Unsent:
    """Files of finished runs in `folder`, and what of `spool` the controller has yet to get.

    Beyond `kept_bytes` the oldest run's file is dropped. `board`: of the records.
    """

    def __init__(self, folder: Path, spool: Spool, kept_bytes: int = KEPT_BYTES, board: str = "") -> None:
        self._folder = folder
        self._spool = spool
        self._kept_bytes = kept_bytes
        self._board = board
        self.dropped = 0  # records of no run, and of runs whose files were too much; since this process began
        folder.mkdir(parents=True, exist_ok=True)

    def set_aside(self, keep: int = 0) -> None:
        """Take all but the newest `keep` records out of the controller's queue: to their run's file, or away.

        The files are synced before the queue lets go: a power cut loses nothing, at most it repeats some.
        """
        if CONTROLLER not in self._spool.consumers:
            return
        queue = self._spool.consumers[CONTROLLER]
        surplus = queue.depth - keep
        while surplus > 0:
            records = list(self._queued(queue.batch(min(_BATCH, surplus))))
            if not records:
                return
            self.dropped += sum(not record.run for record in records)
            for run in sorted({record.run for record in records if record.run}):
                self._write(run, [record for record in records if record.run == run])
            queue.acknowledge(records[-1].seq)
            surplus -= len(records)
        self._tidy()

    def runs(self) -> dict[str, int]:
        """Run -> bytes of its file."""
        return {_run_of(path): path.stat().st_size for path in self._files()}

    def export(self, run: str | None = None) -> Iterator[str | None]:
        """JSON lines (`UnsentRecord`): of the files, then of the queue; of one run only, if it is named.

        None for a line of a file that is no record: power cuts and full disks leave such.
        """
        for path in self._files():
            if run is None or _run_of(path) == run:
                with path.open(encoding="ascii", errors="replace") as file:
                    for line in file:
                        yield line.rstrip("\n") if _is_record(line) else None
        if CONTROLLER not in self._spool.consumers:
            return
        after = self._spool.acknowledged(CONTROLLER)
        while rows := self._spool.batch(_BATCH, after):
            for record in self._queued(rows):
                if run is None or record.run == run:
                    yield record.to_json()
            after = rows[-1][0]

    def revive(self, run: str | None = None) -> int:
        """Put the dead letters of `run` (None: of every run) among its unsent records; returns how many.

        They keep their keys: a reader that has one already keeps what it has. Those of no run stay where they
        are.
        """
        letters = [one for one in self._spool.dead_letters(run) if one.run]
        for of in sorted({letter.run for letter in letters}):
            ours = [one for one in letters if one.run == of]
            records = [
                UnsentRecord.of(of, one.spool_uuid, (one.seq, one.kind, one.payload), self._board)
                for one in ours
            ]
            self._write(of, records)
            self._spool.forget_dead(ours)
        return len(letters)

    def forget(self, run: str) -> bool:
        """Drop the file of a run that is kept elsewhere now; False if there is none."""
        path = self._path(run)
        with suppress(FileNotFoundError):
            path.unlink()
            return True
        return False

    def _queued(self, rows: list[Record]) -> Iterator[UnsentRecord]:
        for row in rows:
            context = self._spool.context_of(row[0])
            run = context.run if context is not None else ""
            yield UnsentRecord.of(run, self._spool.uuid_of(row[0]), row, self._board)

    def _write(self, run: str, records: list[UnsentRecord]) -> None:
        append_lines(self._path(run), (record.to_json() for record in records), _is_record)

    def _path(self, run: str) -> Path:
        """A run's name may hold anything; the file's holds hex."""
        return self._folder / (run.encode().hex() + _SUFFIX)

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob(f"*{_SUFFIX}"), key=lambda path: path.stat().st_mtime_ns)

    def _tidy(self) -> None:
        files = self._files()
        total = sum(path.stat().st_size for path in files)
        while files and total > self._kept_bytes:
            path = files.pop(0)
            total -= path.stat().st_size
            with path.open("rb") as file:
                self.dropped += sum(1 for _ in file)
            path.unlink()


def _is_record(line: str) -> bool:
    return json_or_none(UnsentRecord, line) is not None


def _run_of(path: Path) -> str:
    with suppress(ValueError):
        return bytes.fromhex(path.name.removesuffix(_SUFFIX)).decode(errors="replace")
    return path.name
