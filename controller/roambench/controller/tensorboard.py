"""Runs as TensorBoard event files: what a step brought, and the joules it took, one curve each."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from roambench.contract.errors import ConfigError, RunError
from roambench.energy.ledger import KINDS, Ledger
from roambench.rounds.records import RoundRecord, StepClosed, StepOpened
from roambench.runs.folder import RunFolder
from roambench.runs.measured.accounts import account_run
from roambench.runs.modelled.accounts import modelled_account


@dataclass(frozen=True, slots=True)
class Scalar:
    """One point of the curve `tag`."""

    tag: str
    step: int
    value: float


def export_tensorboard(runs: Sequence[Path], out: Path) -> list[Path]:
    """Write one folder of event files per run into `out`, named as the run; returns the folders.

    ConfigError where two runs have one name, RunError for what is no run and for a folder that is there
    already (TensorBoard would draw both), or where the library is not installed.
    """
    names = Counter(run.resolve().name for run in runs)
    problems = [f"{name}: {count} runs of this name" for name, count in names.items() if count > 1]
    problems += [
        f"{out / name}: exists already; choose another -o" for name in names if (out / name).exists()
    ]
    if problems:
        raise ConfigError(problems)
    writer_of, event_of = _library()
    folders = []
    for run in runs:
        folder = RunFolder.open(run)
        with folder:
            records = folder.read_log()
            points = [*steps(records), *joules(folder, records)]
            began_s = datetime.fromisoformat(folder.info.created_utc).timestamp()
        place = out / run.resolve().name
        try:
            place.mkdir(parents=True)
            writer = writer_of(str(place))
            for point in points:
                writer.add_event(event_of(point, began_s))
            writer.close()
        except OSError as error:
            raise RunError(f"{place}: {error.strerror or error}") from None
        folders.append(place)
    return folders


def steps(records: Iterable[RoundRecord]) -> Iterator[Scalar]:
    """Learning and participation at the end of every step; a score that is not known is left out."""
    present = 0
    for record in records:
        if isinstance(record, StepOpened):
            present = len(record.devices)
        elif isinstance(record, StepClosed):
            values = {
                "learning/accuracy": record.accuracy,
                "learning/loss": record.loss,
                "devices/present": present,
                "devices/aggregated": record.aggregated,
                "devices/outstanding": len(record.outstanding),
            }
            for tag, value in values.items():
                if value is not None and math.isfinite(value):
                    yield Scalar(tag, record.step, float(value))


def joules(folder: RunFolder, records: Sequence[RoundRecord]) -> Iterator[Scalar]:
    """Energy of all devices by the step of the ledger, that is the round of the training it served.

    `modelled_*` for virtual devices, `measured_*` where meters saw it; `net` is without idle power. What
    belongs to no step (before the first one) is left out.
    """
    modelled = modelled_account(folder, records)
    energy = None if modelled is not None else account_run(folder, records)
    ledger: Ledger | None = None
    if modelled is not None:
        ledger = modelled.ledger
    elif energy is not None and energy.measured:
        ledger = energy.ledger
    if ledger is None:
        return
    for kind in KINDS:
        for step, value in ledger.by_step(kind).items():
            if step >= 0 and math.isfinite(value):
                yield Scalar(f"energy/{ledger.basis}_{kind}_j", step, value)


def _library() -> tuple[Any, Any]:
    """TensorBoard's writer of an event file, and a maker of an event from a point: its time is the run's
    begin."""
    try:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "tensorboard":
            raise
        raise RunError(
            'the export needs TensorBoard, which is not installed: pip install "roambench[tensorboard]"'
        ) from None

    def event_of(point: Scalar, began_s: float) -> Any:
        value = Summary.Value(tag=point.tag, simple_value=point.value)
        return Event(wall_time=began_s, step=point.step, summary=Summary(value=[value]))

    return EventFileWriter, event_of
