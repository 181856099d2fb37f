"""Sends what agents drained into a run folder on to an InfluxDB: for benches whose boards cannot reach one.

The run folder is the queue: how far each spool was forwarded is kept in `forward.sqlite` beside it, so a
controller that dies goes on where it was. At-least-once, and exactly once by the points' keys, like the
agents' own writing; the tags `run`, `bench` and `system` are always this run's. Spools share requests: what
waits while one is under way is the next.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import zlib
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from roambench.contract.events import EventKind
from roambench.contract.records import AgentEvent, RecordKind
from roambench.runs.database import naming, open_writer
from roambench.runs.record_store import RecordStore
from roambench.spool.consumer import Record
from roambench.spool.drain import BatchRefused, Drain
from roambench.spool.influx import InfluxSender, InfluxWriter, write_lines
from roambench.spool.influx_settings import InfluxSettings
from roambench.spool.line_protocol import LineEncoder
from roambench.spool.record_context import RecordContext

_SCHEMA = """
CREATE TABLE IF NOT EXISTS forwarded (
    device TEXT NOT NULL, spool_uuid TEXT NOT NULL, through_seq INTEGER NOT NULL,
    PRIMARY KEY (device, spool_uuid)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS dead_letter (
    device TEXT NOT NULL, spool_uuid TEXT NOT NULL, seq INTEGER NOT NULL, reason TEXT NOT NULL,
    PRIMARY KEY (device, spool_uuid, seq)
) WITHOUT ROWID;
"""
#: How often the folder is asked for spools that were not there before, seconds.
_LOOK_PERIOD_S = 1.0
#: Of one request, but for the last spool's: about 5,000 readings.
_MOST_CHARACTERS = 2**20


class ForwardedSpool:
    """One device's spool as a drain's source: its records in the run folder, beyond what was forwarded.

    It knows the contexts of the records it has handed out, as those of `run`.
    """

    def __init__(
        self,
        store: RecordStore,
        reader: RecordStore,
        cursors: sqlite3.Connection,
        path: Path,
        spool: tuple[str, str],
        run: RecordContext,
    ) -> None:
        self._store = store
        self._reader = reader
        self._cursors = cursors
        self._path = path
        self._spool = spool
        self._run = run
        with naming(path):
            row = cursors.execute(
                "SELECT through_seq FROM forwarded WHERE device = ? AND spool_uuid = ?", spool
            ).fetchone()
        self._through = int(row[0]) if row else 0
        self._contexts: list[tuple[int, RecordContext]] = []
        for seq, payload in reader.events_through(*spool, self._through):
            self._learn(seq, payload)

    @property
    def key(self) -> int:
        """A number that tells this queue from others."""
        return zlib.crc32(":".join(self._spool).encode())

    @property
    def depth(self) -> int:
        """Records not yet forwarded."""
        if self._store.ends_at(*self._spool) <= self._through:
            return 0
        return self._reader.count_beyond(*self._spool, self._through)

    def batch(self, limit: int = 500) -> list[Record]:
        """The oldest records not yet forwarded."""
        records = self._reader.records_beyond(*self._spool, self._through, limit)
        for seq, kind, payload in records:
            if kind is RecordKind.EVENT:
                self._learn(seq, payload)
        return records

    def acknowledge(self, through_seq: int) -> int:
        """Everything up to `through_seq` is at the server; returns how many were new."""
        with naming(self._path):
            self._cursors.execute(
                "INSERT OR REPLACE INTO forwarded VALUES (?, ?, ?)", (*self._spool, through_seq)
            )
        before, self._through = self._through, through_seq
        return through_seq - before

    def dead_letter(self, error: str) -> None:
        """Note the oldest record as refused and go on behind it."""
        (seq, _, _) = self._reader.records_beyond(*self._spool, self._through, 1)[0]
        with naming(self._path):
            self._cursors.execute(
                "INSERT OR REPLACE INTO dead_letter VALUES (?, ?, ?, ?)", (*self._spool, seq, error)
            )
        self.acknowledge(seq)

    def context_of(self, seq: int) -> RecordContext | None:
        """The record context in which record `seq` was stored."""
        index = bisect_right(self._contexts, seq, key=lambda row: row[0])
        return self._contexts[index - 1][1] if index else None

    def context_of_boot(self, boot_id: str) -> RecordContext | None:
        """The last record context of that boot, if it is known."""
        return next((c for _, c in reversed(self._contexts) if c.boot_id == boot_id), None)

    def uuid_of(self, seq: int) -> str:
        """The spool's name."""
        return self._spool[1]

    def _learn(self, seq: int, payload: bytes) -> None:
        if self._contexts and seq <= self._contexts[-1][0]:
            return  # handed out before
        event = AgentEvent.from_bytes(payload)
        if event.kind == EventKind.RECORD_CONTEXT_BEGINS:
            with contextlib.suppress(ValueError):  # an agent's bytes: what is no record context begins none
                context, run = RecordContext.from_json(event.detail), self._run
                context = replace(context, run=run.run, bench=run.bench, system=run.system)
                self._contexts.append((seq, context))


class JointWrites:
    """Writes lines of many spools to one server, those that wait at the same time in one request."""

    def __init__(self, writer: InfluxWriter) -> None:
        self._writer = writer
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def write(self, lines: str) -> None:
        """Write lines. Raises as `InfluxWriter.write`, also for what other lines of the request met."""
        stored = asyncio.get_running_loop().create_future()
        self._waiting.append((lines, stored))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write(), name="forward")
        await stored

    async def aclose(self) -> None:
        """Close the writer; a write that is under way is broken off."""
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.wait([self._writing])
        await asyncio.to_thread(self._writer.close)

    async def _write(self) -> None:
        try:
            while self._waiting:
                characters, number = 0, 0
                while number < len(self._waiting) and characters < _MOST_CHARACTERS:
                    characters, number = characters + len(self._waiting[number][0]), number + 1
                some, self._waiting = self._waiting[:number], self._waiting[number:]
                await self._write_together([one for one in some if not one[1].done()])
        finally:
            self._writing = None

    async def _write_together(self, some: list[tuple[str, asyncio.Future[None]]]) -> None:
        """Write lines of several spools. A request that is refused is halved until it has one spool's."""
        error: Exception | None = None
        if some:
            try:
                await write_lines(self._writer, "\n".join(lines for lines, _ in some))
            except BatchRefused as refusal:
                if len(some) > 1:
                    await self._write_together(some[: len(some) // 2])
                    await self._write_together(some[len(some) // 2 :])
                    return
                error = refusal
            except OSError as failure:
                error = failure
        for _, stored in some:
            if stored.done():  # its drain has ended
                continue
            if error is None:
                stored.set_result(None)
            else:
                stored.set_exception(error)


class _JointSender(InfluxSender):
    """A drain's `send`: the records of one spool, in a request with others'."""

    def __init__(self, writer: InfluxWriter, encoder: LineEncoder, joint: JointWrites) -> None:
        super().__init__(writer, encoder)
        self._joint = joint

    async def write(self, lines: str) -> None:
        await self._joint.write(lines)


class InfluxForwarder:
    """Forwards every spool that `store` has or will have, as records of `run`. `trouble` gets what a person
    must mend, `slow` how slow the server is, and "" when it is no more."""

    def __init__(
        self,
        store: RecordStore,
        run: RecordContext,
        settings: InfluxSettings,
        trouble: Callable[[str], None],
        slow: Callable[[str], None],
        unexpected: Callable[[str], None],
    ) -> None:
        self._store = store
        self._run = run
        self._settings = settings
        self._trouble = trouble
        self._slow = slow
        self._path = store.path.with_name("forward.sqlite")
        self._cursors = open_writer(self._path, _SCHEMA, "NORMAL")
        # Beside the store's own connection: that is held while a thread waits for the disk.
        self._reader = RecordStore(store.path, read_only=True)
        self._writer = InfluxWriter(settings, unexpected)
        self._joint = JointWrites(self._writer)
        self._reported = ""
        self._slow_reported = ""
        self._sources: dict[tuple[str, str], ForwardedSpool] = {}
        self._drains: dict[tuple[str, str], Drain] = {}

    @property
    def depth(self) -> int:
        """Records not forwarded yet."""
        self._look()
        return sum(source.depth for source in self._sources.values())

    @property
    def dead(self) -> int:
        """Records that the server refused for good."""
        with naming(self._path):
            return int(self._cursors.execute("SELECT count(*) FROM dead_letter").fetchone()[0])

    async def run(self) -> None:
        """Forward until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            running: set[tuple[str, str]] = set()
            while True:
                self._look()
                for spool in self._drains.keys() - running:
                    tasks.create_task(self._drains[spool].run(), name=f"forward {spool[0]}")
                    running.add(spool)
                await asyncio.sleep(_LOOK_PERIOD_S)

    async def flush(self, timeout_s: float) -> bool:
        """Forward what is left; False if `timeout_s` passed first (it stays in the folder)."""
        self._look()
        return all(await asyncio.gather(*(drain.flush(timeout_s) for drain in self._drains.values())))

    async def aclose(self) -> None:
        """Close what it opened."""
        await self._joint.aclose()
        self._reader.close()
        self._cursors.close()

    def _look(self) -> None:
        for spool in self._reader.spools():
            if spool not in self._drains:
                source = ForwardedSpool(
                    self._store, self._reader, self._cursors, self._path, spool, self._run
                )
                sender = _JointSender(self._writer, LineEncoder(spool[0], source), self._joint)
                self._sources[spool] = source
                self._drains[spool] = Drain(
                    source,
                    sender.send,
                    backoff_most_s=self._settings.retry_most_s,
                    trouble=self._report_once,
                    slow=self._report_slow_once,
                )

    def _report_once(self, reason: str) -> None:
        """Every spool meets the same trouble; it is reported once, and once when it is over."""
        if reason != self._reported:
            self._reported = reason
            self._trouble(reason)

    def _report_slow_once(self, how: str) -> None:
        """Likewise."""
        if bool(how) is not bool(self._slow_reported):
            self._slow_reported = how
            self._slow(how)
