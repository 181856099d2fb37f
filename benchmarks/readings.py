"""What one meter reading costs an agent: parsing its line and storing it so that SIGKILL cannot take it.

    python benchmarks/readings.py [--readings 20000] [--folder DIR]

The goal is 30 us a reading (both together) on a laptop. A bare autocommit INSERT of the same payload into the
same kind of database, measured in the same run, tells how much of it is SQLite and the disk's.
"""

from __future__ import annotations

import argparse
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from setting.figures import keep

from roambench.contract.records import RecordKind
from roambench.emulation.virtual import emulate
from roambench.meters.frames.smartpower2 import Smartpower2Frames
from roambench.spool.spool import Spool

ROUNDS = 5


def bare_insert(path: Path, payloads: list[bytes]) -> None:
    rows = sqlite3.connect(path, isolation_level=None)
    rows.execute("PRAGMA page_size=1024")
    rows.execute("PRAGMA journal_mode=WAL").fetchall()
    rows.execute("PRAGMA synchronous=NORMAL")
    rows.execute("CREATE TABLE q(id INTEGER PRIMARY KEY AUTOINCREMENT, payload BLOB)")
    for payload in payloads:
        rows.execute("INSERT INTO q(payload) VALUES (?)", (payload,))
    rows.close()


def spooled(path: Path, payloads: list[bytes]) -> None:
    spool = Spool(path)
    for payload in payloads:
        spool.append(RecordKind.READING, payload)
    spool.close()


def parsed_and_spooled(path: Path, chunks: list[tuple[int, bytes]]) -> None:
    spool = Spool(path)
    frames = Smartpower2Frames()
    for ns, data in chunks:
        for reading in frames.feed(data, ns):
            spool.append(RecordKind.READING, reading.to_bytes())
    spool.close()


def parsed(chunks: list[tuple[int, bytes]]) -> list[bytes]:
    frames = Smartpower2Frames()
    return [reading.to_bytes() for ns, data in chunks for reading in frames.feed(data, ns)]


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--readings", type=int, default=20_000)
    parser.add_argument(
        "--folder", type=Path, help="where the databases are made (default: the temporary one)"
    )
    options = parser.parse_args()
    chunks = emulate([], float(options.readings), seed=1).chunks
    payloads = parsed(chunks)
    costs: dict[str, list[float]] = {"parse": [], "spool": [], "parse + spool": [], "bare INSERT": []}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for i in range(ROUNDS):  # interleaved, so that a slow moment of the machine hits all of them
            path = Path(folder)
            costs["parse"].append(seconds(partial(parsed, chunks)))
            costs["spool"].append(seconds(partial(spooled, path / f"s{i}", payloads)))
            costs["parse + spool"].append(seconds(partial(parsed_and_spooled, path / f"p{i}", chunks)))
            costs["bare INSERT"].append(seconds(partial(bare_insert, path / f"b{i}", payloads)))
    bare = statistics.median(costs["bare INSERT"])
    print(f"{len(payloads)} readings, median of {ROUNDS} rounds")
    for name, measured in costs.items():
        median = statistics.median(measured)
        print(
            f"{name:14s} {median / len(payloads) * 1e6:6.1f} us a reading, {median / bare:5.2f} x bare INSERT"
        )
    total_us = statistics.median(costs["parse + spool"]) / len(payloads) * 1e6
    keep(
        "readings a line",
        *(cost_s / len(payloads) * 1e6 for cost_s in costs["parse + spool"]),
        limit=f"INSERT {bare / len(payloads) * 1e6:.0f}",
    )
    print(f"goal 30 us: {'met' if total_us <= 30 else 'NOT met'} ({total_us:.1f} us)")


if __name__ == "__main__":
    main()
