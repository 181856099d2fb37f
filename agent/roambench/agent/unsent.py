"""What a run's controller never took: kept by run, out of the way of the runs that follow.

The spool is one queue. When the next run begins, the records before it are none of its controller's: those
of an earlier run go to a file that `roambench fleet fetch` collects, those of no run are dropped and counted.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from roambench.spool.consumer import Record
from roambench.spool.spool import CONTROLLER, Spool

#: All files together; the oldest go first, and are counted.
KEPT_BYTES: Final = 256 * 1024 * 1024
_BATCH: Final = 1000
_SUFFIX: Final = ".jsonl"


@dataclass(frozen=True, slots=True)
class Exported:
    """One unsent record and the run it belongs to (empty: none)."""

    run: str
    spool_uuid: str
    seq: int
    kind: int
    payload: bytes

    def to_json(self) -> str:
        values = {
            "run": self.run,
            "spool_uuid": self.spool_uuid,
            "seq": self.seq,
            "kind": self.kind,
            "payload": base64.b64encode(self.payload).decode(),
        }
        return json.dumps(values, separators=(",", ":"))


class Unsent:
    """Files of finished runs in `folder`, and what of `spool` the controller has yet to get."""

    def __init__(self, folder: Path, spool: Spool) -> None:
        self._folder = folder
        self._spool = spool
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

    def export(self, run: str | None = None) -> Iterator[str]:
        """JSON lines (`Exported`): of the files, then of the queue; of one run only, if it is named."""
        for path in self._files():
            if run is None or _run_of(path) == run:
                with path.open(encoding="ascii") as file:
                    yield from (line.rstrip("\n") for line in file if line.endswith("}\n"))
        if CONTROLLER not in self._spool.consumers:
            return
        after = self._spool.acknowledged(CONTROLLER)
        while rows := self._spool.batch(_BATCH, after):
            for record in self._queued(rows):
                if run is None or record.run == run:
                    yield record.to_json()
            after = rows[-1][0]

    def forget(self, run: str) -> bool:
        """Somebody has the run's file now; False if there is none."""
        path = self._path(run)
        with suppress(FileNotFoundError):
            path.unlink()
            return True
        return False

    def _queued(self, rows: list[Record]) -> Iterator[Exported]:
        for seq, kind, payload in rows:
            chapter = self._spool.chapter_of(seq)
            run = chapter.run if chapter is not None else ""
            yield Exported(run, self._spool.uuid, seq, int(kind), payload)

    def _write(self, run: str, records: list[Exported]) -> None:
        with self._path(run).open("a", encoding="ascii") as file:
            file.writelines(record.to_json() + "\n" for record in records)
            file.flush()
            os.fsync(file.fileno())

    def _path(self, run: str) -> Path:
        """A run's name may hold anything; the file's holds hex."""
        return self._folder / (run.encode().hex() + _SUFFIX)

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob(f"*{_SUFFIX}"), key=lambda path: path.stat().st_mtime_ns)

    def _tidy(self) -> None:
        files = self._files()
        total = sum(path.stat().st_size for path in files)
        while files and total > KEPT_BYTES:
            path = files.pop(0)
            total -= path.stat().st_size
            with path.open("rb") as file:
                self.dropped += sum(1 for _ in file)
            path.unlink()


def _run_of(path: Path) -> str:
    with suppress(ValueError):
        return bytes.fromhex(path.name.removesuffix(_SUFFIX)).decode(errors="replace")
    return path.name
