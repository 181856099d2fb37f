"""Brings a run's records into a database the way agents do: the same encoder, the same writer."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import groupby
from pathlib import Path

from influx_servers import Server
from roambench.contract.records import RecordKind
from roambench.spool.influx import InfluxWriter
from roambench.spool.influx_settings import InfluxSettings
from roambench.spool.line_protocol import LineEncoder
from roambench.spool.record_context import RecordContext

#: 14 November 2023, 22:13:20 UTC, in unix nanoseconds: the moment of device time 0.
UNIX_MINUS_DEVICE_NS = 1_700_000_000 * 10**9
#: (device, spool's name, seq, kind, payload), as the run folder has them.
Row = tuple[str, str, int, int, bytes]


class OneContext:
    """One boot, one run: what a spool says of every record of a short run."""

    def __init__(self, run: str, boot_id: str = "boot", spool: str = "") -> None:
        self.spool = spool
        self.context = RecordContext(boot_id, "0/1.0", UNIX_MINUS_DEVICE_NS, "smartpower2", run)

    def context_of(self, seq: int) -> RecordContext:
        return self.context

    def context_of_boot(self, boot_id: str) -> RecordContext | None:
        return self.context if boot_id == self.context.boot_id else None

    def uuid_of(self, seq: int) -> str:
        return self.spool


def drained(run: Path) -> list[Row]:
    """Every record of a run folder, by spool and seq."""
    with closing(sqlite3.connect(run / "records.sqlite")) as rows:
        return rows.execute("SELECT * FROM record ORDER BY device, spool_uuid, seq").fetchall()


def lines(rows: Iterable[Row], run: str, boot_id: str = "boot") -> Iterator[str]:
    """The points of records that are in order of device and spool."""
    for (device, spool), records in groupby(rows, key=lambda row: row[:2]):
        encoder = LineEncoder(device, OneContext(run, boot_id, spool))
        for _, _, seq, kind, payload in records:
            yield encoder.line(seq, RecordKind(kind), payload)


def send(points: Iterable[str], server: Server, bucket: str, *, api: str = "v1", batch: int = 5000) -> int:
    """Write the points through our sender's writer; returns how many they were."""
    writer = InfluxWriter(InfluxSettings(server.url, bucket, api=api, token_env=""), print)
    waiting = list(points)
    try:
        for start in range(0, len(waiting), batch):
            writer.write("\n".join(waiting[start : start + batch]).encode())
    finally:
        writer.close()
    return len(waiting)
