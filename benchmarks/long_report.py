"""A month of 36 boards that are read once a second, and its report: CPU, wall clock and memory.

    python benchmarks/long_report.py [--days 3.1] [--boards 36] [--folder DIR] [--profile FILE] [--html]

Orders are those of 744 steps of an hour of the city, by the product's own rounds; each board has its own
clock, probed every step, and the phases, events and readings that its agent would have drained. The table of
records is written in the order of its key and without syncs, which an agent's drains are not. Goals: 60 s of
two cores and 2,000 MB for 31 days.
"""

from __future__ import annotations

import argparse
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from setting.figures import keep

from roambench.contract.draws import generator
from roambench.contract.events import EventKind
from roambench.contract.phases import Phase, PhaseSpan
from roambench.contract.records import NO_METER_CLOCK, AgentEvent, HostSample, RecordKind, phase_to_bytes
from roambench.experiment.load import WrittenExperiment, load_experiment
from roambench.experiment.sections import Experiment
from roambench.meters.traits import MeterDescription
from roambench.mobility.files import write_trace
from roambench.plan.costs import MachineCosts
from roambench.plan.fleet import planned_fleet
from roambench.plan.rounds import rehearse_rounds
from roambench.rounds.records import ClockProbed, OrderGiven
from roambench.runner.world import movement_of
from roambench.runs.event_log import EventLog
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState
from roambench.runs.marks import RECORDS
from roambench.runs.record_store import READING_DTYPE
from roambench.spool.record_context import RecordContext

STEP_S = 3600
REST_S = 4.0
LENGTH_S = {Phase.DOWNLOAD: 3.0, Phase.TRAIN: 60.0, Phase.UPLOAD: 4.0}
POWER_W = {Phase.DOWNLOAD: 2.5, Phase.TRAIN: 5.1, Phase.UPLOAD: 2.8}
IDLE_W, SCATTER_W, ROUNDED_W = 1.9, 0.012, 3.81687e-3
_INSERT = """
WITH RECURSIVE n(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?6)
INSERT INTO record SELECT ?1, ?2, ?3 + i, 1, substr(?5, ?4 * i + 1, ?4) FROM n
"""
COSTS = MachineCosts(0.01, 0.1, 0.2, 0.3, 2.5, 2_640_000, 4, 1.0, 0.4)


def experiment_of(boards: int, steps: int) -> Experiment:
    values = {
        "name": "month",
        "seed": 3,
        "systems": ["mohawk"],
        "trace": {"generator": "city", "steps": steps, "parameters": {"steps": max(steps, 48)}},
        "fleet": {"agents": boards, "aps": 20},
        "rounds": {"rest_s": REST_S},
    }
    return load_experiment(WrittenExperiment(values, "here", Path()))


def made(path: Path, boards: int, days: float, host_s: float) -> int:
    """Make the run folder; returns how many readings it has."""
    steps = round(days * 86_400 / STEP_S)
    experiment = experiment_of(boards, steps)
    movement = movement_of(experiment)
    names = [f"board-{number:02d}" for number in range(1, boards + 1)]
    with RunFolder.create(
        path,
        experiment,
        run_id="month",
        system="mohawk",
        trace_hash=movement.content_hash,
        fleet="bench",
        device_names=names,
        rest_s=REST_S,
    ) as folder:
        write_trace(movement.trace, path / "trace.parquet")
        fleet = planned_fleet(experiment, "local")
        rehearsed = rehearse_rounds(fleet, "mohawk", movement, (600,) * boards, folder, COSTS)
        folder.records  # noqa: B018 (makes the table)
        for device in range(boards):
            folder.journal.extend(list(probes(device, steps)))
        folder.update(start_device_ns=0, end_device_ns=steps * STEP_S * 10**9)
        rows = sqlite3.connect(path / RECORDS, isolation_level=None)
        rows.execute("PRAGMA synchronous=OFF")
        rows.execute("PRAGMA wal_autocheckpoint=20000")
        count = 0
        for device, name in enumerate(names):
            count += drained(rows, name, device, rehearsed.records, steps, host_s)
        rows.close()
        folder.close(RunState.FINISHED)
    return count


def offset_ns(device: int) -> int:
    return (device + 1) * 10**12


def probes(device: int, steps: int) -> Iterator[ClockProbed]:
    """Clocks that drift by some 10 ppm."""
    for step in range(steps):
        at_ns = step * STEP_S * 10**9
        offset = offset_ns(device) + at_ns * (device - 18) * 1e-6
        stamps = (at_ns, at_ns + round(offset), at_ns + round(offset), at_ns + 200_000)
        yield ClockProbed(step, device, "during", f"boot-{device}", at_ns, offset, 1e5, 8, stamps)


def phases_of(device: int, log: EventLog, steps: int) -> Iterator[tuple[Phase, int, float, str, str]]:
    """Phase, step, seconds, order and training of a board, one behind the other."""
    orders: dict[int, list[OrderGiven]] = defaultdict(list)
    for order in log.only(OrderGiven):
        if order.device == device and order.kind in ("upload", "train", "sync"):
            orders[order.step].append(order)
    draw = generator(3, "benchmark phases", device)
    for step in range(steps):
        left_s = float(STEP_S)

        def phase(what: Phase, seconds: float, order: str = "", training: str = "", step: int = step) -> Any:
            nonlocal left_s
            left_s -= seconds
            return what, step, seconds, order, training

        for order in orders[step]:
            training = order.train_order_id or (order.order_id if order.kind == "train" else "")
            moves = Phase.UPLOAD if order.kind == "upload" else Phase.DOWNLOAD
            yield phase(Phase.IDLE, draw.uniform(1.0, 3.0))
            for what in (moves, *([Phase.TRAIN] if order.kind == "train" else [])):
                yield phase(Phase.REST, 0.5 * REST_S)
                yield phase(what, LENGTH_S[what] * draw.uniform(0.9, 1.1), order.order_id, training)
                yield phase(Phase.REST, REST_S)
        yield phase(Phase.IDLE, left_s)


def drained(
    rows: sqlite3.Connection, name: str, device: int, log: EventLog, steps: int, host_s: float
) -> int:
    """Put a board's records into the table; returns the number of readings."""
    boot, from_ns = f"boot-{device}", offset_ns(device)
    context = RecordContext(boot, "0/1.0", 1_700_000_000 * 10**9 - from_ns, "smartpower2", "month")
    meter = MeterDescription("smartpower2", "/dev/ttyUSB0", "smartpower2", serial=f"sp2-{device}")
    begun = (
        context.to_event(from_ns),
        AgentEvent(EventKind.AGENT_STARTED, from_ns - 60 * 10**9, "benchmark"),
        meter.to_event(from_ns),
    )
    others = [(event.monotonic_ns, int(RecordKind.EVENT), event.to_bytes()) for event in begun]
    at_s, edges, powers = 0.0, [0.0], []
    for phase, step, seconds, order, training in phases_of(device, log, steps):
        start_ns, end_ns = (from_ns + round(1e9 * s) for s in (at_s, at_s + seconds))
        moved = 2_640_000 if phase in (Phase.DOWNLOAD, Phase.UPLOAD) else 0
        stamps = (start_ns + 10**8, end_ns - 10**8) if moved else (0, 0)
        span = PhaseSpan(name, boot, phase, step, start_ns, end_ns, order, training, moved, *stamps)
        others.append((end_ns, RecordKind.PHASE, phase_to_bytes(span)))
        at_s += seconds
        edges.append(at_s)
        powers.append(POWER_W.get(phase, IDLE_W))
    if host_s:
        for at in np.arange(0.0, at_s, host_s):
            ns = from_ns + round(1e9 * at)
            sample = HostSample(ns, 0.1, 0.01 * at, 300_000_000, 50.0, 1400.0, 10**6, 10**6, 0)
            others.append((ns, RecordKind.HOST, sample.to_bytes()))
    others.sort(key=lambda row: row[0])
    table = readings(device, np.array(edges), np.array(powers), from_ns)
    edges_of = np.searchsorted(table["ns"], [ns for ns, _, _ in others]).tolist()
    data, size, spool = table.tobytes(), READING_DTYPE.itemsize, f"{device:032x}"
    rows.execute("BEGIN")
    for number, (first, end) in enumerate(pairwise([0, *edges_of, len(table)])):
        if end > first:  # the readings between two other records
            part = data[first * size : end * size]
            rows.execute(_INSERT, (name, spool, first + number, size, part, end - first))
        if number < len(others):
            _, kind, body = others[number]
            row = (name, spool, end + number, int(kind), body)
            rows.execute("INSERT INTO record VALUES (?, ?, ?, ?, ?)", row)
    rows.execute("COMMIT")
    return len(table)


def readings(
    device: int, edges_s: npt.NDArray[np.float64], powers_w: npt.NDArray[np.float64], from_ns: int
) -> npt.NDArray[Any]:
    """Lines of a meter once a second, with its noise and steps, each late by some milliseconds."""
    draw = generator(3, "benchmark readings", device)
    due_s = np.arange(draw.uniform(0.0, 1.0), edges_s[-1], 1.0 + 40e-6 * draw.standard_normal())
    phase = np.clip(np.searchsorted(edges_s, due_s - 0.2638, "right") - 1, 0, len(powers_w) - 1)
    watts = powers_w[phase] + SCATTER_W * draw.standard_normal(len(due_s))
    table = np.zeros(len(due_s), READING_DTYPE)
    table["ns"] = from_ns + np.rint(1e9 * (due_s + draw.exponential(0.002, len(due_s)))).astype(np.int64)
    table["watts"] = np.round(np.round(watts / ROUNDED_W) * ROUNDED_W, 3)
    table["volts"], table["amps"] = 5.1, np.round(table["watts"] / 5.1, 3)
    table["watt_hours"], table["meter_ms"] = np.nan, NO_METER_CLOCK
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--days", type=float, default=3.1)
    parser.add_argument("--boards", type=int, default=36)
    parser.add_argument("--host-s", type=float, default=0.0, help="period of samples of the boards' state")
    parser.add_argument("--folder", type=Path, help="where the run is made, and kept; found there it is used")
    parser.add_argument("--profile", type=Path, help="write a profile of the report")
    parser.add_argument("--html", action="store_true", help="and its page")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="roambench-") as beside:
        run = (asked.folder or Path(beside)) / "month"
        if not run.exists():
            started_s = time.monotonic()
            count = made(run, asked.boards, asked.days, asked.host_s)
            size = sum(path.stat().st_size for path in run.rglob("*") if path.is_file())
            print(
                f"{count:,} readings, {size / 1e9:.2f} GB, made in {time.monotonic() - started_s:.0f} s",
                flush=True,
            )
        profile = ["-m", "cProfile", "-o", str(asked.profile)] if asked.profile else []
        words = [sys.executable, *profile, "-m", "roambench.cli.main", "report", str(run)]
        words += ["-o", str(Path(beside) / "report.html")] if asked.html else []
        before, started_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        report = subprocess.run(words, check=True, stdout=subprocess.PIPE)
        after, wall_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - started_s
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        peak_mb = after.ru_maxrss / 1024
        print(f"report: CPU {cpu_s:.1f} s, wall {wall_s:.1f} s, peak {peak_mb:,.0f} MB")
        if asked.days == 31.0 and not asked.profile:
            keep("long_report a month: wall", wall_s, limit=f"CPU {cpu_s:.0f}")
            keep("long_report a month: peak", peak_mb)
        print(report.stdout.decode())


if __name__ == "__main__":
    main()
