"""What a look of `roambench watch` costs: 36 boards that are measured, and 1,000 virtual devices.

    python benchmarks/watching.py [--looks 120]

A run is written step by step into a folder as its controller writes it, a second of it before each look: of a
bench a reading of each board, host samples and phases as they end, and the orders of a step every 20 s; of a
simulation one step of 1,000 devices each second, of which half are present and train. A look reads what is
new, folds it and makes the message. The limit is what nobody can do without: reading the same new rows and
parsing them, with sqlite3, json, struct and Parquet alone. CPU time of the looking thread, mean over the
looks. The goal is 5 ms for 36 boards: half a percent of a core at one look a second.
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
import struct
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from setting.figures import keep

from roambench.contract.phases import Outcome, Phase, PhaseSpan
from roambench.contract.records import HostSample, Reading, RecordKind, phase_to_bytes
from roambench.experiment.sections import Experiment
from roambench.live.messages import RunMessages, encoded
from roambench.live.view import RunView
from roambench.rounds.records import (
    OrderAnswered,
    OrderGiven,
    OutcomeDecided,
    RoundRecord,
    StepClosed,
    StepOpened,
)
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState

S = 1_000_000_000
STEP_S = 20
GOAL_MS = 5.0
READING = struct.Struct("<qddddIq")


@dataclass
class Cost:
    """Of all looks: CPU seconds, the limit's, bytes of the messages, rows that were new."""

    looks: int = 0
    cpu_s: float = 0.0
    limit_s: float = 0.0
    sent: int = 0
    rows: int = 0

    def line(self, what: str) -> str:
        ms, limit_ms = 1e3 * self.cpu_s / self.looks, 1e3 * self.limit_s / self.looks
        rows, size_kb = self.rows / self.looks, self.sent / self.looks / 1e3
        return (
            f"{what}: {ms:.2f} ms of CPU a look ({rows:.0f} new rows, {size_kb:.1f} kB sent); "
            f"the rows read and parsed alone {limit_ms:.2f} ms: ratio {ms / limit_ms:.1f}"
        )


def begins(step: int, present: list[int]) -> Iterator[RoundRecord]:
    yield StepOpened(step, tuple(present), tuple(d % 20 for d in present), tuple(900.0 for _ in present))
    for device in present:
        yield OrderGiven(step, device, f"{step}/{device}", "train", device % 20, "", "c", 900.0, "wifi", 20.0)


def ends(step: int, present: list[int]) -> Iterator[RoundRecord]:
    for device in present:
        order = f"{step}/{device}"
        yield OrderAnswered(step, device, order, "done", "", 2_600_000, 1.0, 12.0, 120, 1.2)
        outcome = Outcome.AGGREGATED if device % 3 else Outcome.WASTED
        yield OutcomeDecided(step, device, order, outcome, "" if device % 3 else "absent")
    yield StepClosed(step, len(present), (), (), 0.5, 1.0, 20.0)


def bench(folder: RunFolder, draw: random.Random) -> Iterator[None]:
    """A second of a bench each time."""
    names = folder.info.device_names
    seqs = dict.fromkeys(names, 0)
    every = list(range(len(names)))
    second = 0
    while True:
        step, at = divmod(second, STEP_S)
        if at == 0:
            folder.journal.extend(list(begins(step, every)))
        if at == STEP_S - 1:
            folder.journal.extend(list(ends(step, every)))
        for device, name in enumerate(names):
            rows = [
                (RecordKind.READING, Reading(second * S + device, 5.1, 0.5, draw.uniform(2, 5)).to_bytes())
            ]
            if (second + device) % 5 == 0:
                sample = HostSample(second * S, 0.5, 1.0, 10**8, 55.0, 1400.0, 10, 10, 0)
                rows.append((RecordKind.HOST, sample.to_bytes()))
            if at in (2, 14, 19):
                phase, start = {2: (Phase.DOWNLOAD, 0), 14: (Phase.TRAIN, 2), 19: (Phase.UPLOAD, 14)}[at]
                order = f"{step}/{device}"
                span = PhaseSpan(name, "b", phase, step, (second - at + start) * S, second * S, order, order)
                rows.append((RecordKind.PHASE, phase_to_bytes(span)))
            folder.records.insert(name, "spool", [(seqs[name] + k, *row) for k, row in enumerate(rows)])
            seqs[name] += len(rows)
        second += 1
        yield


def simulation(folder: RunFolder, draw: random.Random) -> Iterator[None]:
    """A step of a simulation each time."""
    step, devices = 0, len(folder.info.device_names)
    while True:
        present = sorted(draw.sample(range(devices), devices // 2))
        folder.journal.extend([*begins(step, present), *ends(step, present)])
        step += 1
        yield


_BEYOND = "SELECT seq, kind, payload FROM record WHERE device = ? AND spool_uuid = 'spool' AND seq > ?"


class Limit:
    """Reads and parses the rows that are new, and does nothing with them."""

    def __init__(self, path: Path) -> None:
        self._events, self._records = (
            sqlite3.connect(f"{(path / name).as_uri()}?mode=ro", uri=True, isolation_level=None)
            for name in ("events.sqlite", "records.sqlite")
        )
        self._last = 0
        self._seqs: dict[str, int] = {}
        self._names = json.loads((path / "run.json").read_text())["device_names"]
        self._drains = json.loads((path / "run.json").read_text())["fleet"] == "local"

    def read(self) -> int:
        rows = self._events.execute("SELECT id, kind, body FROM event WHERE id > ?", (self._last,)).fetchall()
        for _, _, body in rows:
            json.loads(body) if isinstance(body, str) else pq.read_table(pa.BufferReader(body))
        self._last = rows[-1][0] if rows else self._last
        read = len(rows)
        for name in self._names if self._drains else ():
            found = self._records.execute(_BEYOND, (name, self._seqs.get(name, -1))).fetchall()
            for _, kind, payload in found:
                if kind == RecordKind.READING:
                    READING.unpack(payload)
                elif kind == RecordKind.PHASE:
                    json.loads(payload)
            self._seqs[name] = found[-1][0] if found else self._seqs.get(name, -1)
            read += len(found)
        return read


def measure(fleet: str, devices: int, looks: int, scratch: Path) -> tuple[Cost, RunView]:
    names = [f"pi-{number:04d}" for number in range(devices)]
    folder = RunFolder.create(
        scratch / fleet,
        Experiment.model_validate({"seed": 1}),
        run_id=fleet,
        system="mohawk",
        trace_hash="",
        fleet=fleet,
        device_names=names,
    )
    folder.update(start_device_ns=0)
    goes_on = (bench if fleet == "local" else simulation)(folder, random.Random(1))
    view, limit, cost = RunView(folder.path), Limit(folder.path), Cost()
    messages = RunMessages(view)
    for look in range(looks + 20):
        next(goes_on)
        before_s = time.thread_time()
        while view.look():
            pass
        text = encoded(messages.changes())
        middle_s = time.thread_time()
        rows = limit.read()
        after_s = time.thread_time()
        if look >= 20:  # the first ones import and compile
            cost.looks += 1
            cost.cpu_s += middle_s - before_s
            cost.limit_s += after_s - middle_s
            cost.sent += len(text.encode())
            cost.rows += rows
    folder.close(RunState.FINISHED)
    return cost, view


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--looks", type=int, default=120)
    looks = parser.parse_args().looks
    with tempfile.TemporaryDirectory(prefix="roambench-") as name:
        for fleet, devices in (("local", 36), ("simulated", 1000)):
            cost, view = measure(fleet, devices, looks, Path(name))
            print(cost.line(f"{devices:,} {fleet} devices"))
            if fleet == "local":
                ms = 1e3 * cost.cpu_s / cost.looks
                keep("watching 36 boards", ms, limit=f"reading {1e3 * cost.limit_s / cost.looks:.2g}")
                print(f"  goal {GOAL_MS:.0f} ms: {'met' if ms <= GOAL_MS else 'NOT met'}")
            before_s = time.thread_time()
            size = len(encoded(RunMessages(view).whole()).encode())
            ms = 1e3 * (time.thread_time() - before_s)
            print(f"  a page that is opened: {ms:.0f} ms of CPU, {size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
