"""Whether a run came through: what was said and learned, what is left behind, and its readings
(`readings_verdict`)."""

from __future__ import annotations

import dataclasses
import json
import signal
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from roambench.contract.errors import RoambenchError
from roambench.contract.phases import Phase
from roambench.energy.readings.timeline import partition_check
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
from roambench.runner.run_log import LOG
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState
from roambench.runs.measured.accounts import account_run, outages_of
from soaking import readings_verdict
from soaking.faults import KINDS
from soaking.underway import Struck
from soaking.worlds import World

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
                    (readings_verdict.on_boards(run, struck, ended.text, in_database), _outages(run, struck))
                    if world.fleet == "local"
                    else (readings_verdict.on_hosts(run, struck), _outages(run, struck))
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
    if ended.due != -signal.SIGKILL:
        if not any("roambench report" in line for line in lines[-4:]):
            yield f"no word on how to go on: the last line is {lines[-1:]!r}"
        # Without a server there is none before models are collected to be scored.
        kind = ModelsScored if world.peers else StepClosed
        if any(isinstance(record, kind) for record in run.read_log()) and not _model(run.path):
            yield "no model was kept"


def _left_behind(folder: Path, ended: Ended) -> Iterator[str]:
    yield from (f"a process outlives the run: {line}" for line in ended.left)
    if ended.due != -signal.SIGKILL:  # nobody is left to remove them
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
