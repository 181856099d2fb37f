"""Whether every reading of a run is one that its meter printed, at its time, kept once and lost nowhere."""

from __future__ import annotations

import dataclasses
import itertools
import signal
import sqlite3
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Final

import pyarrow.parquet as pq

from roambench.agent.readings.witness import Witnessed, read_witness
from roambench.contract.records import Reading, ReadingFlag, RecordKind
from roambench.emulation.truth import PrintedLine, read_print_log
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState
from soaking.faults import KINDS
from soaking.underway import Struck
from soaking.worlds import TIME_SCALE

#: Host seconds by which a busy machine may hold up an agent that reads a line.
LATE_S: Final = 6.0
#: Host seconds until an agent reads again that failed: it drains for 5 s, is started 1 s later, starts.
BACK_S: Final = 12.0
#: The same of a host that has just let somebody in: it boots, its agent starts.
HOST_BACK_S: Final = 60.0


def on_boards(
    run: RunFolder,
    struck: Sequence[Struck],
    text: str,
    in_database: Sequence[tuple[str, int, int]] | None,
) -> Iterator[str]:
    """On emulated boards, whose meters note what they print and whose agents note what they read. `text` is
    what the run said; `in_database` are the readings that an InfluxDB has, where one was to have them."""
    finished = run.info.state is RunState.FINISHED
    table = pq.read_table(run.path / "readings.parquet").to_pylist() if finished else []
    for name in run.info.device_names:
        hits = [s for s in struck if _hits(s, name)]
        notes = read_witness(run.path / "agents" / name / "witness.txt")
        printed = read_print_log(run.path / "truth" / f"{name}.printed")
        kept, spooled = _kept(run, name)
        problems = [
            *_stored(notes, kept, spooled, hits, told=name in _undrained(text)),
            *_printed(printed, list(kept.values()), hits),
        ]
        if finished:
            exported = Counter(row["ns"] for row in table if row["device"] == name)
            stamps = Counter(reading.monotonic_ns for key, reading in kept.items() if key not in spooled)
            if exported != stamps:
                problems.append(
                    f"{len(exported - stamps)} readings exported that were never stored so, and "
                    f"{len(stamps - exported)} the other way round"
                )
        if in_database is not None and finished:
            there = Counter((seq, ns) for device, seq, ns in in_database if device == name)
            ours = Counter((seq, reading.monotonic_ns) for seq, reading in kept.items())
            if there != ours and name not in _undrained(text):
                problems.append(f"InfluxDB lacks {len(ours - there)} readings, has {len(there - ours)} more")
        yield from (f"{name}: {problem}" for problem in problems)


def on_hosts(run: RunFolder, struck: Sequence[Struck]) -> Iterator[str]:
    """None twice, none outside the run, and no gap but where a fault stopped the reader. Nobody notes there
    what a meter said and an agent read."""
    if run.info.state is not RunState.FINISHED:
        return
    for name in run.info.device_names:
        ns = run.records.readings(name).ns
        inside = ns[(ns >= run.info.start_device_ns) & (ns <= run.info.end_device_ns)].tolist()
        if len(set(inside)) < len(inside):
            yield f"{name}: {len(inside) - len(set(inside))} timestamps are stored twice"
        borders = [run.info.start_device_ns, *inside, run.info.end_device_ns]
        for before, after in itertools.pairwise(borders):
            if after - before > LATE_S * 1e9 and not _stopped_on_host(struck, name, before, after):
                gap_s = (after - before) * 1e-9
                yield f"{name}: no reading for {gap_s:.1f} s from {before}, though nothing stopped it"


def _stopped_on_host(struck: Sequence[Struck], name: str, before_ns: int, after_ns: int) -> bool:
    """Whether a fault stopped the agent then. A controller that is killed stops nobody's; one that is stopped
    lets all agents leave the run."""
    return any(
        s.begun_ns - 2e9 <= after_ns and before_ns <= s.ended_ns + HOST_BACK_S * 1e9
        for s in struck
        if (KINDS[s.fault.kind].stops_reading and s.fault.device == name and not KINDS[s.fault.kind].resumes)
        or (KINDS[s.fault.kind].resumes and s.what.startswith(signal.SIGTERM.name))
    )


def _hits(struck: Struck, name: str) -> bool:
    kind = KINDS[struck.fault.kind]
    return kind.everybody or kind.ends is not None or struck.fault.device == name


def _undrained(text: str) -> str:
    return " ".join(line for line in text.splitlines() if "not drained in time" in line)


def _kept(run: RunFolder, name: str) -> tuple[dict[int, Reading], set[int]]:
    """The readings of the run folder and of the agent's spool by number, and which of them are in the spool
    alone."""
    columns, placed = run.records.placed_readings(name)
    rows = zip(placed, zip(*dataclasses.astuple(columns), strict=True), strict=True)
    found = {seq: _reading(row) for (_, seq), row in rows}
    if len(found) != len(placed):
        raise ValueError(f"{name}: one number twice")
    alone = set()
    with closing(sqlite3.connect(run.path / "agents" / name / "spool.sqlite")) as spool:
        asked = spool.execute("SELECT seq, payload FROM records WHERE kind = ?", (RecordKind.READING,))
        for seq, payload in asked:
            if seq not in found:
                found[seq] = Reading.from_bytes(payload)
                alone.add(seq)
    return dict(sorted(found.items())), alone


def _reading(row: Sequence[float]) -> Reading:
    ns, volts, amps, watts, watt_hours, flags, meter_ms = row
    return Reading(
        int(ns),
        float(volts),
        float(amps),
        float(watts),
        float(watt_hours),
        ReadingFlag(int(flags)),
        int(meter_ms),
    )


def _stored(
    notes: Witnessed, kept: dict[int, Reading], alone: set[int], hits: Sequence[Struck], *, told: bool
) -> Iterator[str]:
    """What the agent read is what is stored, none twice."""
    read = dict(notes.spooled)
    if len(read) != len(notes.spooled):
        yield "the agent gave one number twice"
    lost = [seq for seq in read if seq not in kept]
    if lost:
        yield f"{len(lost)} readings are lost, the first is number {lost[0]}"
    changed = [seq for seq, reading in read.items() if seq in kept and kept[seq] != reading]
    if changed:
        yield f"{len(changed)} readings are stored otherwise than they were read, the first: {changed[0]}"
    in_hand = {reading.monotonic_ns for reading in notes.in_hand}
    more = [seq for seq in kept if seq not in read and kept[seq].monotonic_ns not in in_hand]
    if more:
        yield f"{len(more)} readings are stored that nobody read, the first is number {more[0]}"
    stamps = Counter(reading.monotonic_ns for reading in kept.values())
    twice = [ns for ns, count in stamps.items() if count > 1]
    if twice:
        yield f"{len(twice)} timestamps are stored twice"
    halted = any(
        KINDS[s.fault.kind].stops_reading or KINDS[s.fault.kind].ends == -signal.SIGKILL for s in hits
    )
    if notes.in_hand and not halted:
        yield f"{len(notes.in_hand)} readings were read and not kept, and nobody had killed the agent"
    if alone and not told and not any(KINDS[s.fault.kind].ends == -signal.SIGKILL for s in hits):
        yield f"{len(alone)} readings are in the agent's spool alone, and nobody says so"


def _printed(
    printed: Sequence[PrintedLine], kept: Sequence[Reading], hits: Sequence[Struck]
) -> Iterator[str]:
    """Every reading is a line that the meter printed, in its order, at the time that it was printed; every
    line that was printed while the agent read is a reading."""
    lines = [(line.ns, _values(line.data)) for line in printed]
    stamps = [ns for ns, _ in lines]
    taken: set[int] = set()
    below = len(lines)
    slack_ns = LATE_S * TIME_SCALE * 1e9
    for reading in sorted(kept, key=lambda one: one.monotonic_ns, reverse=True):
        values = (reading.volts, reading.amps, reading.watts, reading.watt_hours)
        at = min(below, bisect_right(stamps, reading.monotonic_ns)) - 1
        while at >= 0 and lines[at][1] != values:
            at -= 1
        if at < 0:
            yield f"a reading of {reading.watts} W at {reading.monotonic_ns} that the meter never printed"
            return
        late_ns = reading.monotonic_ns - stamps[at]
        if late_ns > slack_ns + _held_up_ns(hits, stamps[at]):
            yield f"a reading is stored {late_ns * 1e-9:.1f} s late, at {reading.monotonic_ns}"
        taken.add(at)
        below = at
    if not taken:
        yield "no reading at all"
        return
    first, last = stamps[min(taken)], stamps[max(taken)]
    unread = [
        stamps[at]
        for at in range(min(taken), max(taken))
        if at not in taken
        and lines[at][1] is not None
        and printed[at].taken == len(printed[at].data)
        and not _excused(hits, stamps[at])
    ]
    if unread:
        yield (
            f"{len(unread)} lines between {first} and {last} were said and not read, though nothing was in "
            f"their way; the first at {unread[0]}"
        )


def _held_up_ns(hits: Sequence[Struck], ns: int) -> int:
    """How long a line of that moment may have waited in the port, for a reader who was stopped."""
    return max((s.ended_ns - ns for s in hits if s.begun_ns <= ns + 2e9 and s.ended_ns >= ns), default=0)


def _excused(hits: Sequence[Struck], ns: int) -> bool:
    """Whether a line of that moment may have gone unread."""
    return any(
        _stops_at_ns(s, hits) - 2e9 <= ns <= s.ended_ns + BACK_S * TIME_SCALE * 1e9
        for s in hits
        if KINDS[s.fault.kind].stops_reading or KINDS[s.fault.kind].breaks_lines
    )


def _stops_at_ns(struck: Struck, hits: Sequence[Struck]) -> int:
    """When it stops the reader at the earliest. A run that goes on may have been ended before its signal: by
    a full disk."""
    ended = [s.begun_ns for s in hits if KINDS[struck.fault.kind].resumes and KINDS[s.fault.kind].may_fail]
    return min(struck.begun_ns, *ended) if ended else struck.begun_ns


def _values(data: bytes) -> tuple[float, float, float, float] | None:
    """A reading's four numbers; None for anything else that a meter says."""
    try:
        volts, amps, watts, watt_hours = (float(part) for part in data.strip().split(b","))
    except ValueError:
        return None
    return volts, amps, watts, watt_hours
