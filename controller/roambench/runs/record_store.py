"""Drained spool records of a run: each one exactly once, durable before the agent may delete its copy."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from roambench.contract.errors import ConfigError, RecordConflict
from roambench.contract.events import EventKind
from roambench.contract.phases import PhaseSpan
from roambench.contract.records import AgentEvent, HostSample, Reading, RecordKind, phase_from_bytes
from roambench.runs.database import close_writer, naming, open_reader, open_writer
from roambench.spool.record_context import RecordContext

_SCHEMA = """
CREATE TABLE IF NOT EXISTS record (
    device     TEXT    NOT NULL,
    spool_uuid TEXT    NOT NULL,
    seq        INTEGER NOT NULL,
    kind       INTEGER NOT NULL,
    payload    BLOB    NOT NULL,
    PRIMARY KEY (device, spool_uuid, seq)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS between_readings ON record (device, kind) WHERE kind != 1;
CREATE TABLE IF NOT EXISTS dead_letter (
    device     TEXT NOT NULL,
    spool_uuid TEXT NOT NULL,
    seq        TEXT NOT NULL,
    kind       INTEGER NOT NULL,
    payload    BLOB NOT NULL,
    reason     TEXT NOT NULL,
    PRIMARY KEY (device, spool_uuid, seq)
) WITHOUT ROWID;
"""
#: Records of a kind within this many numbers of a spool are joined by SQLite, which takes a quarter of what a
#: row each takes. All are as long as the first, and bytes stay what they are when they are texts in between.
_NUMBERS: Final = 100_000
_NEXT_NUMBER = "SELECT min(seq) FROM record WHERE device = ? AND spool_uuid = ? AND seq > ?"
_JOINED = """
SELECT CAST(group_concat(payload, '') AS BLOB) FROM record
WHERE device = ? AND spool_uuid = ? AND seq BETWEEN ? AND ? AND
"""
#: A reading as agents write it.
READING_DTYPE = np.dtype(
    [
        ("ns", "<i8"),
        ("volts", "<f8"),
        ("amps", "<f8"),
        ("watts", "<f8"),
        ("watt_hours", "<f8"),
        ("flags", "<u4"),
        ("meter_ms", "<i8"),
    ]
)
#: A sample of a board's state as agents write it.
HOST_DTYPE = np.dtype(
    [
        ("monotonic_ns", "<i8"),
        ("cpu_share", "<f8"),
        ("agent_cpu_s", "<f8"),
        ("memory_used_bytes", "<i8"),
        ("temperature_c", "<f8"),
        ("cpu_mhz", "<f8"),
        ("sent_bytes", "<i8"),
        ("received_bytes", "<i8"),
        ("throttle_bits", "<i8"),
    ]
)
#: Records that are many, and as long as each other.
_PACKED: Final = {RecordKind.READING: READING_DTYPE, RecordKind.HOST: HOST_DTYPE}
_INT64_MAX = 2**63 - 1
_YEAR_NS = 366 * 86_400 * 10**9
#: Bounds of what a board may say, so that sums and differences of it fit 63 bits and squares a float. Device
#: time counts from a boot or from a run's begin, wall time from 1970.
MOST_NS = 50 * _YEAR_NS
MOST_WALL_NS = 100 * _YEAR_NS
_MOST_W, _MOST_V, _MOST_A = 1e5, 1e4, 1e4  # no meter here goes beyond 40 W; a mains meter to 1e4
_MOST_STEPS = 2**31
_MOST_BYTES = 2**53
_MOST_OF_A_HOST = 1e12  # percent, seconds, degrees, MHz
_MAX_DEAD_PAYLOAD_BYTES = 4096


@dataclass(frozen=True)
class ReadingColumns:
    """Readings of one device in ascending time, as drained: raw values and stamps. Shape (readings,) each."""

    ns: npt.NDArray[np.int64]
    volts: npt.NDArray[np.float64]
    amps: npt.NDArray[np.float64]
    watts: npt.NDArray[np.float64]
    watt_hours: npt.NDArray[np.float64]
    flags: npt.NDArray[np.uint32]
    meter_ms: npt.NDArray[np.int64]  # the meter's own clock, -1 where it has none

    def __len__(self) -> int:
        return len(self.ns)

    def outside(self, intervals: Iterable[tuple[int, int]]) -> Self:
        """Those that no interval (from and to, ns) has, and the first and the last within each: they tell of
        the time up to its borders."""
        intervals, out = list(intervals), np.ones(len(self), np.bool_)
        if not intervals:
            return self
        for from_ns, to_ns in intervals:
            within = np.flatnonzero((self.ns > from_ns) & (self.ns < to_ns))
            out[within[1:-1]] = False
        return self.where(out)

    def where(self, wanted: npt.NDArray[np.bool_]) -> Self:
        """The wanted ones."""
        return replace(self, **{item.name: getattr(self, item.name)[wanted] for item in fields(self)})


def columns_of(table: npt.NDArray[Any]) -> ReadingColumns:
    """A table of READING_DTYPE as columns."""
    return ReadingColumns(*(np.ascontiguousarray(table[name]) for name in READING_DTYPE.names or ()))


def in_time(parts: Sequence[ReadingColumns]) -> ReadingColumns:
    """All of `parts`, ascending by time; ties in their order."""
    if not parts:
        return NO_READINGS
    whole = parts[0]
    if len(parts) > 1:
        names = [item.name for item in fields(ReadingColumns)]
        whole = ReadingColumns(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
    if (whole.ns[1:] >= whole.ns[:-1]).all():
        return whole
    order = np.argsort(whole.ns, kind="stable")
    return ReadingColumns(*(getattr(whole, item.name)[order] for item in fields(ReadingColumns)))


def host_in_time(tables: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """The rows of tables of HOST_DTYPE, ascending by time; ties in their order."""
    whole = np.concatenate([np.empty(0, HOST_DTYPE), *tables])
    return whole[np.argsort(whole["monotonic_ns"], kind="stable")]


NO_READINGS: Final = columns_of(np.empty(0, READING_DTYPE))


@dataclass(frozen=True, slots=True)
class DrainedDeadLetter:
    """A drained record that could not be decoded: kept for inspection (payload cut to 4 KiB), never used."""

    device: str
    spool_uuid: str
    seq: str
    kind: int
    payload: bytes
    reason: str


#: The rows of the two tables.
_Good = tuple[str, str, int, int, bytes]
_Dead = tuple[str, str, str, int, bytes, str]


class RecordStore:
    """Writer and reader of `records.sqlite`. Calls are short and synchronous; any thread may make them."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self._read_only = read_only
        self._connection = open_reader(path) if read_only else open_writer(path, _SCHEMA, "FULL")
        self._lock = threading.RLock()
        self._last: dict[
            tuple[str, str], int
        ] = {}  # at least the highest number of a spool that was asked for

    def insert(self, device: str, spool_uuid: str, records: Sequence[tuple[int, int, bytes]]) -> int:
        """Store (seq, kind, payload) records; returns the highest seq up to which all of them are durable.

        A record that is there already is left as it is, so a drain may be repeated. A payload that does
        not decode goes to the dead letters with its reason and counts as delivered: sending it again
        would not mend it. Raises RecordConflict, when all others are stored, for records that are there
        with another content: those are NOT stored. Raises RunError when the disk refuses; then nothing is.
        """
        good: list[_Good] = []
        dead: list[_Dead] = []
        through = 0
        for seq, kind, payload in records:
            reason = _doubt(device, seq, kind, payload)
            if reason is None:
                good.append((device, spool_uuid, seq, kind, payload))
            else:
                cut = payload[:_MAX_DEAD_PAYLOAD_BYTES]
                dead.append((device, spool_uuid, str(seq), min(kind, _INT64_MAX), cut, reason))
            if 0 <= seq <= _INT64_MAX:
                through = max(through, seq)
        with self.together():
            kept = self._connection.executemany(
                "INSERT OR IGNORE INTO record VALUES (?, ?, ?, ?, ?)", good
            ).rowcount
            kept += self._connection.executemany(
                "INSERT OR IGNORE INTO dead_letter VALUES (?, ?, ?, ?, ?, ?)", dead
            ).rowcount
            conflicts = self._conflicts(good, dead) if kept < len(good) + len(dead) else []
            if (device, spool_uuid) in self._last:
                self._last[device, spool_uuid] = max(through, self._last[device, spool_uuid])
        if conflicts:
            named = ", ".join(conflicts[:5]) + (", ..." if len(conflicts) > 5 else "")
            raise RecordConflict(
                f"{device}: spool {spool_uuid[:8]} has other records under numbers that the run has already: "
                f"{named}; not stored",
                len(conflicts),
            )
        return through

    @contextmanager
    def together(self) -> Iterator[None]:
        """One sync of the disk makes all durable that one thread inserts inside; others see it only then. An
        insert that fails inside leaves nothing. RunError when the disk refuses."""
        with self._lock, naming(self.path):
            undo: tuple[str, ...]
            if self._connection.in_transaction:
                begin, end, undo = "SAVEPOINT one", "RELEASE one", ("ROLLBACK TO one", "RELEASE one")
            else:
                begin, end, undo = "BEGIN IMMEDIATE", "COMMIT", ("ROLLBACK",)
            self._connection.execute(begin)
            try:
                yield
                self._connection.execute(end)
            except BaseException:
                for statement in undo:
                    if self._connection.in_transaction:
                        self._connection.execute(statement)
                raise

    def _conflicts(self, good: Sequence[_Good], dead: Sequence[_Dead]) -> list[str]:
        """The seqs of what is not in its table as it was given."""
        key = "device = ? AND spool_uuid = ? AND seq = ? AND kind = ? AND payload = ?"
        rows = [("record", row) for row in good] + [("dead_letter", row[:5]) for row in dead]
        return [
            str(row[2])
            for table, row in rows
            if self._connection.execute(f"SELECT 1 FROM {table} WHERE {key}", row).fetchone() is None
        ]

    def devices(self) -> list[str]:
        """Names of the devices with at least one good record, sorted."""
        return self._names("SELECT min(device) FROM record WHERE true", "device")

    def counts(self, device: str) -> dict[RecordKind, int]:
        """Return how many records of each kind a device has."""
        rows = self._rows("SELECT kind, count(*) FROM record WHERE device = ? GROUP BY kind", (device,))
        return {RecordKind(kind): count for kind, count in rows}

    def readings(self, device: str) -> ReadingColumns:
        """All readings of `device` over all its spools, ascending by time (ties in order of arrival)."""
        return in_time([columns_of(table) for _, table in self.spooled(device)])

    def spooled(
        self, device: str, kind: RecordKind = RecordKind.READING
    ) -> list[tuple[str, npt.NDArray[Any]]]:
        """The readings, or host samples, of each spool of `device`, in the order they were spooled."""
        found, joined = [], _JOINED + _of_kind(kind)
        for spool_uuid in self._uuids(device):
            data, last = bytearray(), -1
            while (seq := self._rows(_NEXT_NUMBER, (device, spool_uuid, last))[0][0]) is not None:
                last = min(seq + _NUMBERS - 1, _INT64_MAX)
                data += self._rows(joined, (device, spool_uuid, seq, last))[0][0] or b""
            found.append((spool_uuid, np.frombuffer(data, _PACKED[kind])))
        return found

    def count_before(self, device: str, spool_uuid: str, seq: int, kind: RecordKind) -> int:
        """Return how many records of a kind a spool has before the one of number `seq`."""
        query = "SELECT count(*) FROM record WHERE device = ? AND spool_uuid = ? AND seq < ? AND kind = ?"
        return int(self._rows(query, (device, spool_uuid, seq, int(kind)))[0][0])

    def placed_readings(self, device: str) -> tuple[ReadingColumns, list[tuple[str, int]]]:
        """The readings in the order they were spooled, and (spool uuid, seq) of each."""
        rows = self.placed(device, RecordKind.READING)
        table = np.frombuffer(b"".join(payload for _, _, payload in rows), dtype=READING_DTYPE)
        return columns_of(table), [(spool_uuid, seq) for spool_uuid, seq, _ in rows]

    def spans(self, device: str) -> list[PhaseSpan]:
        """The finished phases of `device`, ascending by (start, end)."""
        spans = [phase_from_bytes(device, payload) for _, payload in self._payloads(device, RecordKind.PHASE)]
        return sorted(spans, key=lambda span: (span.start_ns, span.end_ns))

    def events(self, device: str) -> list[AgentEvent]:
        """Events that the agent of `device` noted, other than phases, ascending by time."""
        found = [AgentEvent.from_bytes(payload) for _, payload in self._payloads(device, RecordKind.EVENT)]
        return sorted(found, key=lambda event: event.monotonic_ns)

    def host_table(self, device: str) -> npt.NDArray[Any]:
        """A table of HOST_DTYPE: how the board of `device` was, ascending by time."""
        return host_in_time([table for _, table in self.spooled(device, RecordKind.HOST)])

    def placed(self, device: str, kind: RecordKind) -> list[tuple[str, int, bytes]]:
        """(spool uuid, seq, payload) of all records of a kind, by spool, ascending."""
        query = (
            "SELECT spool_uuid, seq, payload FROM record WHERE device = ? AND spool_uuid = ? AND seq >= 0"
            f" AND {_of_kind(kind)} ORDER BY seq"
        )
        return [row for spool in self._uuids(device) for row in self._rows(query, (device, spool))]

    # ---- as queues: what a forwarder has not sent on yet -----------------------------------------

    def spools(self) -> list[tuple[str, str]]:
        """(device, spool uuid) of every spool that good records came from, sorted."""
        return [(device, spool_uuid) for device in self.devices() for spool_uuid in self._uuids(device)]

    def _uuids(self, device: str) -> list[str]:
        query = "SELECT min(spool_uuid) FROM record WHERE device = ?"
        return self._names(query, "spool_uuid", device)

    def _names(self, query: str, column: str, *values: str) -> list[str]:
        """Every name by a look into the key's index, however many records it has."""
        found: list[str] = []
        ((name,),) = self._rows(query, values)
        while name is not None:
            found.append(name)
            ((name,),) = self._rows(f"{query} AND {column} > ?", (*values, name))
        return found

    def ends(self) -> dict[str, dict[str, int]]:
        """The highest number stored of every spool, by device and spool uuid."""
        query = "SELECT max(seq) FROM record WHERE device = ? AND spool_uuid = ?"
        found: dict[str, dict[str, int]] = {}
        for device, spool_uuid in self.spools():
            ((seq,),) = self._rows(query, (device, spool_uuid))
            found.setdefault(device, {})[spool_uuid] = int(seq)
        return found

    def version(self) -> int:
        """A number that another one follows when another process has written."""
        return int(self._rows("PRAGMA data_version", ())[0][0])

    def ends_at(self, device: str, spool_uuid: str) -> int:
        """A number that no record of a spool is beyond, as the writer of the store knows it: without a look,
        but for the first."""
        key = (device, spool_uuid)
        if key not in self._last:
            with self._lock:
                query = "SELECT coalesce(max(seq), -1) FROM record WHERE device = ? AND spool_uuid = ?"
                self._last[key] = int(self._rows(query, key)[0][0])
        return self._last[key]

    def count_beyond(self, device: str, spool_uuid: str, seq: int) -> int:
        """Return how many records of a spool lie behind `seq`."""
        query = "SELECT count(*) FROM record WHERE device = ? AND spool_uuid = ? AND seq > ?"
        return int(self._rows(query, (device, spool_uuid, seq))[0][0])

    def records_beyond(
        self, device: str, spool_uuid: str, seq: int, limit: int
    ) -> list[tuple[int, RecordKind, bytes]]:
        """The first `limit` records of a spool beyond `seq`, ascending."""
        query = (
            "SELECT seq, kind, payload FROM record WHERE device = ? AND spool_uuid = ? AND seq > ?"
            " ORDER BY seq LIMIT ?"
        )
        rows = self._rows(query, (device, spool_uuid, seq, limit))
        return [(seq, RecordKind(kind), payload) for seq, kind, payload in rows]

    def events_through(self, device: str, spool_uuid: str, seq: int) -> list[tuple[int, bytes]]:
        """(seq, payload) of a spool's events up to and including `seq`, ascending."""
        query = "SELECT seq, payload FROM record WHERE device = ? AND spool_uuid = ? AND seq <= ? AND "
        return self._rows(query + _of_kind(RecordKind.EVENT) + " ORDER BY seq", (device, spool_uuid, seq))

    def dead_letters(self) -> list[DrainedDeadLetter]:
        """The records that were refused, and why."""
        query = "SELECT device, spool_uuid, seq, kind, payload, reason FROM dead_letter"
        return [DrainedDeadLetter(*row) for row in self._rows(query, ())]

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            if self._read_only:
                self._connection.close()
            else:
                close_writer(self._connection)

    def _payloads(self, device: str, kind: RecordKind) -> list[tuple[int, bytes]]:
        return [(seq, payload) for _, seq, payload in self.placed(device, kind)]

    def _rows(self, query: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        with self._lock, naming(self.path):
            return self._connection.execute(query, values).fetchall()


def _of_kind(kind: RecordKind) -> str:
    """The condition that a record is of a kind, such that SQLite looks up what is not a reading."""
    return f"kind = {int(kind)}" + (" AND kind != 1" if kind != RecordKind.READING else "")


def _doubt(device: str, seq: int, kind: int, payload: bytes) -> str | None:
    """Return why a record cannot be kept as a good one, or None. The bytes come from an untrusted machine."""
    if not 0 <= seq <= _INT64_MAX:
        return f"seq {seq} does not fit 63 bits"
    try:
        match RecordKind(kind):
            case RecordKind.READING:
                return _reading_doubt(Reading.from_bytes(payload))
            case RecordKind.PHASE:
                return _phase_doubt(phase_from_bytes(device, payload))
            case RecordKind.EVENT:
                return _event_doubt(AgentEvent.from_bytes(payload))
            case RecordKind.HOST:
                return _host_doubt(HostSample.from_bytes(payload))
    except ValueError as error:
        return "; ".join(str(error).splitlines())


def _reading_doubt(reading: Reading) -> str | None:
    if not -MOST_NS <= reading.monotonic_ns <= MOST_NS:
        return _far("reading", reading.monotonic_ns)
    if any(map(math.isinf, (reading.watts, reading.volts, reading.amps, reading.watt_hours))):
        return "a reading is infinite"
    # NaN is what a meter does not report; it is in no comparison.
    if abs(reading.watts) > _MOST_W or abs(reading.volts) > _MOST_V or abs(reading.amps) > _MOST_A:
        return f"a reading of {reading.volts:g} V, {reading.amps:g} A, {reading.watts:g} W is no board's"
    return None


def _phase_doubt(span: PhaseSpan) -> str | None:
    for ns in (span.start_ns, span.end_ns, span.first_byte_ns, span.last_byte_ns):
        if not -MOST_NS <= ns <= MOST_NS:
            return _far("phase", ns)
    if abs(span.step) > _MOST_STEPS or not 0 <= span.transferred_bytes <= _MOST_BYTES:
        return (
            f"a phase of step {_short(span.step)} that moved {_short(span.transferred_bytes)} bytes is none"
        )
    # JSON may spell half a surrogate pair, which no file format can store as UTF-8.
    "".join((span.boot_id, span.order_id, span.train_order_id)).encode()
    return None


def _event_doubt(event: AgentEvent) -> str | None:
    if not -MOST_NS <= event.monotonic_ns <= MOST_NS:
        return _far("event", event.monotonic_ns)
    (event.kind + event.detail).encode()
    if event.kind == EventKind.RECORD_CONTEXT_BEGINS:
        with suppress(ConfigError):  # what is no record context begins none
            if abs(RecordContext.from_json(event.detail).unix_minus_device_ns) > MOST_WALL_NS:
                return "a record context's wall clock is more than a century from any"
    return None


def _host_doubt(sample: HostSample) -> str | None:
    if not -MOST_NS <= sample.monotonic_ns <= MOST_NS:
        return _far("host sample", sample.monotonic_ns)
    floats = (sample.cpu_share, sample.agent_cpu_s, sample.temperature_c, sample.cpu_mhz)
    counts = (sample.memory_used_bytes, sample.sent_bytes, sample.received_bytes, sample.throttle_bits)
    if any(abs(value) > _MOST_OF_A_HOST for value in floats) or any(abs(n) > _MOST_BYTES for n in counts):
        return "a host sample that is no board's"
    return None


def _far(what: str, ns: int) -> str:
    return f"a {what}'s stamp of {_short(ns)} ns is more than 50 years from any boot"


def _short(number: int) -> str:
    """JSON may spell thousands of digits, which take long to print."""
    return str(number) if abs(number) <= _INT64_MAX else "more than 63 bits"
