"""The run folder `runs/<name>/`: everything one run leaves behind, readable at any moment of its life.

run.json            RunInfo: who, when, how it ended              (replaced atomically)
experiment.json     the resolved configuration
events.sqlite       the event log: every RoundRecord in order     (append-only)
records.sqlite      what the agents drained: readings, phases, events, dead letters
trace.parquet       the mobility trace that was replayed          (written by mobility.files)
truth/<device>.csv  true energy of emulated boards                (local fleets only)
models/*.safetensors
readings.parquet phases.parquet ledger.parquet steps.parquet host.parquet  (export, at the end or on demand)
ledger_modelled.parquet devices.parquet summary.json link_model.json            (virtual devices only)
figures.json        its figures by name, for lists of runs        (report.run_figures)
page.zip            what a page of a big run shows of it          (live.saved_page)
manifest.sha256     digests of all other files, written last
controller.log      tracebacks of unexpected errors, where there was any
lock                held by the one writer
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from roambench.contract.errors import RunError
from roambench.runs.database import disk_full, naming
from roambench.runs.event_log import EventLog, read_event_log
from roambench.runs.info import RunInfo, RunState
from roambench.runs.journal import SqliteJournal
from roambench.runs.lock import WriterLock, is_held
from roambench.runs.manifest import MANIFEST, write_manifest
from roambench.runs.marks import EVENTS, RECORDS, Marks, losses
from roambench.runs.record_store import RecordStore
from roambench.runs.whole_file import read_whole, write_whole

#: Files that stay as they are once they are written.
_WRITTEN_ONCE: Final = ("bench.json", "link_model.json", "trace.parquet", "models/global.safetensors")

if TYPE_CHECKING:
    from roambench.experiment.sections import Experiment


#: With less than this a disk is full: a run's databases grow by more at a time.
LEAST_FREE_BYTES: Final = 1 << 20


class RunFolder:
    """A run on disk. `create` and `open(..., write=True)` hold the writer's lock until `close`."""

    def __init__(self, path: Path, info: RunInfo, lock: WriterLock | None) -> None:
        self.path = path
        self.info = info
        self._lock = lock
        self._journal: SqliteJournal | None = None
        self._records: RecordStore | None = None
        self._went_on = False  # since this opened it, so that its manifest is to be renewed

    @classmethod
    def create(
        cls,
        path: Path | str,
        experiment: Experiment,
        *,
        run_id: str,
        system: str,
        trace_hash: str,
        fleet: str,
        device_names: Sequence[str],
        time_scale: float = 1.0,
        lookahead: bool = False,
        rest_s: float = 0.0,
        versions: Mapping[str, str] | None = None,
    ) -> Self:
        """Make the folder and lock it; raises RunError when it exists already or cannot be written."""
        from roambench.experiment.sections import resolved  # late, as below

        path = Path(path)
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise RunError(f"{path}: exists already; choose another name or remove it")
        with naming(path):
            path.mkdir(parents=True, exist_ok=True)
            (path / "models").mkdir(exist_ok=True)
            (path / "truth").mkdir(exist_ok=True)
        lock = WriterLock(path / "lock")
        info = RunInfo(
            run_id=run_id,
            system=system,
            seed=experiment.seed,
            trace_hash=trace_hash,
            fleet=fleet,
            device_names=tuple(device_names),
            time_scale=time_scale,
            created_utc=datetime.now(UTC).isoformat(timespec="seconds"),
            lookahead=lookahead,
            rest_s=rest_s,
            versions=dict(versions or {}),
        )
        try:
            write_whole(path / "experiment.json", json.dumps(resolved(experiment), indent=2) + "\n")
            folder = cls(path, info, lock)
            # What has a run.json has both databases, so that a run killed early is still readable.
            folder.journal  # noqa: B018
            folder.records  # noqa: B018
            folder.update(state=RunState.RUNNING)
        except BaseException:
            lock.release()
            raise
        return folder

    @classmethod
    def open(cls, path: Path | str, *, write: bool = False) -> Self:
        """Open an existing folder. Without `write` nothing is locked and nothing is changed.

        A run that still says "running" although no process holds its lock died: its `info.state` reads
        INTERRUPTED. Raises RunError when `path` is no run folder, or with `write` when it is locked.
        """
        path = Path(path)
        if not path.exists():
            raise RunError(f"{path}: no such folder; expected a run, for example runs/mohawk")
        if not (path / "run.json").is_file():
            inside = ", ".join(sorted(found.parent.name for found in path.glob("*/run.json")))
            there = f"; runs in it: {inside}" if inside else ""
            raise RunError(f"{path}: not a run folder (it has no run.json){there}")
        lock = WriterLock(path / "lock") if write else None
        try:
            info = RunInfo.read(path / "run.json")
        except BaseException:
            if lock is not None:
                lock.release()
            raise
        if info.state is RunState.RUNNING and lock is None and not is_held(path / "lock"):
            info = replace(info, state=RunState.INTERRUPTED, reason=_why_gone(path))
        return cls(path, info, lock)

    @property
    def experiment(self) -> Experiment:
        """The experiment as it was at the start, every default filled in; RunError names what is wrong."""
        # Late: its models cost a command that only asks how a run stands as much again as all the rest.
        from roambench.experiment.sections import from_resolved

        path = self.path / "experiment.json"
        found = read_whole(dict[str, Any], path)
        with naming(path):
            return from_resolved(found, str(path))

    @property
    def journal(self) -> SqliteJournal:
        """The event log for appending; one writer only."""
        self._require_lock()
        if self._journal is None:
            self._journal = SqliteJournal(self.path / EVENTS)
        return self._journal

    @property
    def records(self) -> RecordStore:
        """The drained records: writable when the folder was opened for writing, else read-only."""
        if self._records is None:
            self._records = RecordStore(self.path / RECORDS, read_only=self._lock is None)
        return self._records

    def read_log(self) -> EventLog:
        """The event log; RunError as for `read_event_log`."""
        return read_event_log(self.path / EVENTS)

    def update(self, **changes: Any) -> RunInfo:
        """Change fields of `info` and replace `run.json`: what it tells of is on the disk before it is."""
        self._require_lock()
        if changes.get("state") is RunState.RUNNING:
            self._went_on = True
            with naming(self.path / MANIFEST):
                (self.path / MANIFEST).unlink(missing_ok=True)
        if self._journal is not None:
            marks = self.marks()
            self._journal.sync()
            changes = {"marks": marks, **changes}
        self.info = replace(self.info, **changes)
        write_whole(self.path / "run.json", self.info.to_json())
        return self.info

    def marks(self) -> Marks:
        """Return what the folder holds now, so that a loss can be seen later."""
        written = {name for name in _WRITTEN_ONCE if (self.path / name).is_file()}
        truths = {f"truth/{path.name}" for path in (self.path / "truth").glob("*.csv")}
        files = tuple(sorted({*self.info.marks.files, *written, *truths}))
        return Marks(self.journal.number, self.journal.rows, self.records.ends(), files)

    def losses(self) -> list[str]:
        """Return what it held when its controller said so last and holds no more, a phrase each."""
        return losses(self.path, self.info.marks)

    def doubt(self, text: str) -> None:
        """Let every report say so before its numbers, once."""
        if text not in self.info.doubts:
            self.update(doubts=(*self.info.doubts, text))

    def close(self, state: RunState | None = None, reason: str = "") -> None:
        """Write the final state (if given), close the databases, write the manifest of a run that went on
        until now, and release the lock; safe to repeat."""
        try:
            if state is not None and self._lock is not None:
                self.update(state=state, reason=reason)
        finally:
            if self._journal is not None:
                self._journal.close()
                self._journal = None
            if self._records is not None:
                self._records.close()
                self._records = None
            if self._lock is not None:
                try:
                    if self._went_on and self.info.state is not RunState.RUNNING:
                        self._went_on = False
                        write_manifest(self.path)
                finally:
                    self._lock.release()
                self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """A body that raised marks a run that says "running": interrupted by Ctrl-C (KeyboardInterrupt, whose
        text is the reason), else failed."""
        if error is None or self.info.state is not RunState.RUNNING:
            self.close()
        elif isinstance(error, Exception):
            self.close(RunState.FAILED, f"{type(error).__name__}: {error}")
        else:
            self.close(RunState.INTERRUPTED, str(error) or "stopped by the user")

    def _require_lock(self) -> None:
        if self._lock is None:
            raise RunError(f"{self.path}: opened for reading; open it with write=True")


def _why_gone(path: Path) -> str:
    """The reason of a run that its process left without a word: on a full disk it cannot leave one."""
    full = shutil.disk_usage(path).free < LEAST_FREE_BYTES
    return "the process that ran it is gone" + (", and " + disk_full(path) if full else "")
