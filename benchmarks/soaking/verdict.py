"""Whether a run came through: what was said, read and stored, what was learned, and what is left behind."""

from __future__ import annotations

import dataclasses
import itertools
import json
import signal
import sqlite3
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from roambench.agent.readings.witness import Witnessed, read_witness
from roambench.contract.errors import RoambenchError
from roambench.contract.phases import Phase
from roambench.contract.records import Reading, ReadingFlag, RecordKind
from roambench.controller.run_log import LOG
from roambench.energy.readings.timeline import partition_check
from roambench.meters.emulator.truth import PrintedLine, read_print_log
from roambench.rounds.records import (
    CloudAggregated,
    EdgeAggregated,
    MixingPlanned,
    ModelsExchanged,
    ModelsScored,
    OrderAnswered,
    OrderGiven,
    OutcomeDecided,
    RoundRecord,
    StepClosed,
)
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState
from roambench.runs.measured.accounts import account_run, outages_of
from soaking.faults import KINDS
from soaking.underway import Struck
from soaking.worlds import TIME_SCALE, World

#: What a run learns: the same in every run that lost no training.
_LEARNED: Final = (
    EdgeAggregated,
    CloudAggregated,
    OutcomeDecided,
    MixingPlanned,
    ModelsExchanged,
    ModelsScored,
    StepClosed,
)
#: Host seconds by which a busy machine may hold up an agent that reads a line.
LATE_S: Final = 6.0
#: Host seconds until an agent reads again that failed: it drains for 5 s, is started 1 s later, starts.
BACK_S: Final = 12.0
#: The same of a host that has just let somebody in: it boots, its agent starts.
HOST_BACK_S: Final = 60.0
_KILLED: Final = -9


@dataclass(frozen=True)
class Reference:
    """What the unfaulted run learned."""

    learned: tuple[RoundRecord, ...]
    model: bytes


@dataclass(frozen=True)
class Ended:
    """How the command ended: its status, the signal's status that was to end it (None: nothing was), its
    last words, processes that it left."""

    status: int
    due: int | None
    text: str
    left: Sequence[str]


def learned(run: RunFolder) -> tuple[RoundRecord, ...]:
    """What was learned, without what a clock or a link says of it, and without the run's name in its orders':
    on a bench every run has another."""
    kept: list[RoundRecord] = []
    for record in (_of_any_run(record, f"{run.info.run_id}/") for record in run.read_log()):
        if isinstance(record, StepClosed):
            kept.append(dataclasses.replace(record, wall_s=0.0))
        elif isinstance(record, ModelsExchanged):
            # What moved in vain over a broken link is counted, too.
            still = dataclasses.replace(record, exchange_s=0.0, download_s=0.0)
            kept.append(dataclasses.replace(still, sent_bytes=0, received_bytes=0, downloaded_bytes=0))
        elif isinstance(record, _LEARNED):
            kept.append(record)
    return tuple(kept)


def _of_any_run(record: RoundRecord, prefix: str) -> RoundRecord:
    changed: dict[str, Any] = {}
    for item in dataclasses.fields(record):
        value = getattr(record, item.name)
        if isinstance(value, str):
            changed[item.name] = value.removeprefix(prefix)
        elif isinstance(value, tuple):
            changed[item.name] = tuple(
                one.removeprefix(prefix) if isinstance(one, str) else one for one in value
            )
    return dataclasses.replace(record, **changed)


def reference_of(folder: Path) -> Reference:
    with RunFolder.open(folder) as run:
        return Reference(learned(run), _model(folder))


def broken(
    folder: Path,
    world: World,
    reference: Reference,
    struck: Sequence[Struck],
    ended: Ended,
    in_database: Sequence[tuple[str, int, int]] | None = None,
) -> list[str]:
    """Everything that is not as promised, one line each; empty: the run came through.

    `in_database` are the readings that an InfluxDB has, where one was to have them.
    """
    problems: list[str] = []
    try:
        with RunFolder.open(folder) as run:
            for check in (
                _end(run, world, struck, ended),
                _left_behind(folder, ended),
                _whole_files(folder),
                _orders(run, ended),
                _learning(run, reference, struck),
                *(
                    (_readings(run, struck, ended, in_database), _outages(run, struck))
                    if world.fleet == "local"
                    else (_readings_of_hosts(run, struck), _outages(run, struck))
                    if world.fleet == "bench"
                    else ()
                ),
            ):
                problems += _said_by(check)
    except (RoambenchError, OSError) as error:
        problems.append(f"the run folder cannot be read: {type(error).__name__}: {error}")
    return problems


def _said_by(check: Iterable[str]) -> list[str]:
    """A check that cannot be made is a problem, and no reason to leave out the others."""
    try:
        return list(check)
    except (RoambenchError, OSError, sqlite3.Error, ValueError) as error:
        return [f"cannot be checked: {type(error).__name__}: {error}"]


def _end(run: RunFolder, world: World, struck: Sequence[Struck], ended: Ended) -> Iterator[str]:
    info, lines = run.info, ended.text.strip().splitlines()
    if "Traceback" in ended.text:
        yield "a traceback"
    log = run.path / LOG
    if log.is_file():
        yield f"unexpected, in {LOG}: {log.read_text(errors='replace').strip().splitlines()[-1:]}"
    if info.state is RunState.FINISHED:
        # A signal that comes while the report is written does not unmake the run.
        if ended.status not in (0, ended.due):
            yield f"finished, but with status {ended.status}"
        if ended.status == 0 and world.fleet != "simulated" and not lines[-1].startswith("report: "):
            yield f"finished, but the last line is {lines[-1]!r}"
        return
    if info.state is RunState.FAILED and any(
        kind.may_fail and kind.may_fail in info.reason for kind in (KINDS[s.fault.kind] for s in struck)
    ):
        if ended.status != 1 or not any(line.startswith("roambench: ") for line in lines[-3:]):
            yield f"failed, but with status {ended.status} and without a word: {lines[-1:]}"
        return
    if ended.due is None:
        yield f"status {ended.status}, {info.state.value}: {info.reason or lines[-1:]}"
        return
    if ended.status != ended.due:
        yield f"status {ended.status} instead of {ended.due}"
    if info.state is not RunState.INTERRUPTED:
        yield f"{info.state.value} instead of interrupted: {info.reason}"
    if ended.due != _KILLED:
        if not any("roambench report" in line for line in lines[-4:]):
            yield f"no word on how to go on: the last line is {lines[-1:]!r}"
        # Without a server there is none before models are collected to be scored.
        kind = ModelsScored if world.peers else StepClosed
        if any(isinstance(record, kind) for record in run.read_log()) and not _model(run.path):
            yield "no model was kept"


def _left_behind(folder: Path, ended: Ended) -> Iterator[str]:
    yield from (f"a process outlives the run: {line}" for line in ended.left)
    if ended.due != _KILLED:  # nobody is left to remove them
        yield from (f"a key is left behind: {path.relative_to(folder)}" for path in folder.rglob("key.pem"))


def _whole_files(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*.sqlite")):
        with closing(sqlite3.connect(path)) as rows:
            try:
                (said,) = rows.execute("PRAGMA integrity_check").fetchone()
            except sqlite3.DatabaseError as error:
                said = str(error)
        if said != "ok":
            yield f"{path.relative_to(folder)}: {said}"


def _orders(run: RunFolder, ended: Ended) -> Iterator[str]:
    """Nothing is given, answered or judged twice; in a finished run nothing is left open."""
    given, answered, judged = Counter[str](), Counter[str](), Counter[str]()
    for record in run.read_log():
        if isinstance(record, OrderGiven):
            given[record.order_id] += 1
        elif isinstance(record, OrderAnswered):
            answered[record.order_id] += 1
        elif isinstance(record, OutcomeDecided):
            judged[record.train_order_id] += 1
    for what, counts in (("given", given), ("answered", answered), ("judged", judged)):
        yield from (f"{order} {what} {count} times" for order, count in counts.items() if count > 1)
    yield from (f"{order} answered, never given" for order in answered.keys() - given.keys())
    if run.info.state is RunState.FINISHED:
        yield from (f"{order} never answered" for order in sorted(given.keys() - answered.keys()))
        trained = {order for order in given if order.endswith(("/train", "/exchange"))}
        yield from (f"{order} has no outcome" for order in sorted(trained - judged.keys()))


def _learning(run: RunFolder, reference: Reference, struck: Sequence[Struck]) -> Iterator[str]:
    """Without a fault that may cost a training, all is as it was unfaulted; with one, a loss has a reason and
    is of a device that was hit (its neighbours', where there is no server)."""
    records = list(run.read_log())
    names = run.info.device_names
    blamed = {item.fault.device for item in struck if KINDS[item.fault.kind].costs_training}
    failures = [r for r in records if isinstance(r, OrderAnswered) and r.status != "done"]
    for answer in failures:
        told = f"{answer.order_id} of {names[answer.device]}: {answer.status} ({answer.reason})"
        if not blamed:
            yield f"a training was lost to nothing: {told}"
        elif names[answer.device] not in blamed:
            yield f"{told}, but only {', '.join(sorted(blamed))} lost anything"
        elif not answer.reason:
            yield f"{told}: without a reason"
    missed = any(isinstance(r, ModelsExchanged) and (r.left_out or r.not_taken) for r in records)
    if failures or (missed and blamed):
        return
    now = learned(run)
    done = len(now) if run.info.state is not RunState.FINISHED else max(len(now), len(reference.learned))
    for ours, theirs in zip(now, reference.learned[:done], strict=False):
        if ours != theirs:
            if run.info.state is not RunState.FINISHED and _end_of_run(ours):
                continue  # a run that was ended gives up what is outstanding
            yield f"learned otherwise: {ours} instead of {theirs}"
            return
    if run.info.state is RunState.FINISHED:
        if len(now) != len(reference.learned):
            yield f"{len(now)} records of what was learned instead of {len(reference.learned)}"
        if _model(run.path) != reference.model:
            yield "the final model is another one"


def _end_of_run(record: RoundRecord) -> bool:
    return isinstance(record, OutcomeDecided) and record.reason == "end of run"


def _readings(
    run: RunFolder,
    struck: Sequence[Struck],
    ended: Ended,
    in_database: Sequence[tuple[str, int, int]] | None,
) -> Iterator[str]:
    finished = run.info.state is RunState.FINISHED
    table = pq.read_table(run.path / "readings.parquet").to_pylist() if finished else []
    for name in run.info.device_names:
        hits = [s for s in struck if _hits(s, name)]
        notes = read_witness(run.path / "agents" / name / "witness.txt")
        printed = read_print_log(run.path / "truth" / f"{name}.printed")
        kept, spooled = _kept(run, name)
        problems = [
            *_stored(notes, kept, spooled, hits, told=name in _undrained(ended.text)),
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
            if there != ours and name not in _undrained(ended.text):
                problems.append(f"InfluxDB lacks {len(ours - there)} readings, has {len(there - ours)} more")
        yield from (f"{name}: {problem}" for problem in problems)


def _readings_of_hosts(run: RunFolder, struck: Sequence[Struck]) -> Iterator[str]:
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


def _outages(run: RunFolder, struck: Sequence[Struck]) -> Iterator[str]:
    """Every time without a controller is one hole in the account of every device."""
    resumed = sum(KINDS[s.fault.kind].resumes for s in struck)
    if not resumed or run.info.state is not RunState.FINISHED:
        return
    records = run.read_log()
    outages, energy = outages_of(records), account_run(run, records)
    if not 0 < len(outages) <= resumed or energy is None:  # from one checkpoint it may go on twice
        yield f"{len(outages)} outages instead of {resumed}"
        return
    for device in energy.devices:
        yield from (
            f"{device.device}: {wrong}"
            for wrong in partition_check(device.spans, energy.start_ns, energy.end_ns)
        )
        for start_ns, end_ns in outages:
            holes = [s for s in device.spans if s.end_ns > start_ns and s.start_ns < end_ns]
            if len(holes) != 1 or holes[0].phase is not Phase.LOST:
                yield f"{device.device}: {[s.phase.value for s in holes]} while there was no controller"


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
    halted = any(KINDS[s.fault.kind].stops_reading or KINDS[s.fault.kind].ends == _KILLED for s in hits)
    if notes.in_hand and not halted:
        yield f"{len(notes.in_hand)} readings were read and not kept, and nobody had killed the agent"
    if alone and not told and not any(KINDS[s.fault.kind].ends == _KILLED for s in hits):
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


def _model(folder: Path) -> bytes:
    """The final model's bytes without what is told about it; empty where there is none."""
    path = folder / "models" / "global.safetensors"
    if not path.is_file():
        return b""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    return json.dumps(header, sort_keys=True).encode() + data[8 + size :]
