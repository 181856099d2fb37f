"""Evidence that a report is made from: everything that run folders hold, read once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.contract.errors import RunError, TraceError
from roambench.experiment.sections import Experiment, InfluxdbSection
from roambench.mobility.files import read_trace
from roambench.mobility.trace import Trace
from roambench.report.summaries.board_state import HostRecord
from roambench.report.summaries.instrument import InstrumentCost, instrument_cost
from roambench.rounds.records import OrderGiven
from roambench.runs.event_log import EventLog
from roambench.runs.folder import RunFolder
from roambench.runs.groups import run_labels
from roambench.runs.info import RunInfo
from roambench.runs.marks import EVENTS, RECORDS
from roambench.runs.measured.accounted import energy_of
from roambench.runs.measured.accounts import RunEnergy, account_run
from roambench.runs.measured.common_clock import on_one_clock
from roambench.runs.modelled.accounts import ModelledEnergy, modelled_account
from roambench.runs.records import OpenRecords

_ELSEWHERE: Final = (
    "this run's readings, phases and events are in its InfluxDB alone: add --readings influxdb"
)
_INCOMPLETE: Final = "what this report says of it is incomplete"
_UNMEASURED: Final = "measured joules, power and the state of boards are missing"
_Drained = tuple[tuple[str, ...], RunEnergy | None, dict[str, HostRecord]]
_NOTHING_DRAINED: Final[_Drained] = ((), None, {})
#: What decides who is to train, besides system and seed; the rest is how and where that is measured.
_SECTIONS: Final = {"trace", "fleet", "learning", "synthetic", "algorithm", "rounds", "battery"}
_INDIFFERENT: Final = {"orders", "step_close", "dither_s", "rest_s"}


@dataclass(frozen=True)
class RunEvidence:
    """One run as read from its folder. `label` tells it apart from the other runs of the report."""

    label: str
    path: Path
    info: RunInfo
    experiment: Experiment
    records: EventLog
    energy: RunEnergy | None  # None: neither readings nor phases
    trace: Trace | None  # None: not in the folder, or not readable (then a note says why)
    dead_letters: tuple[str, ...]
    notes: tuple[str, ...]
    host: Mapping[str, HostRecord] = field(default_factory=dict)  # by board, those that have any
    instrument: InstrumentCost | None = None
    modelled: ModelledEnergy | None = None  # of a run on virtual devices
    lost: str = ""  # which figures are not there, or incomplete, as the folder lacks records; "": none


def read_runs(paths: Sequence[Path | str], open_records: OpenRecords | None = None) -> list[RunEvidence]:
    """Read the folders in the order given; `runs.groups.run_labels` tells them apart. RunError where one of
    them is no run or cannot be summed up.

    With `open_records` readings, phases and events come from there instead of the folder.
    """
    if not paths:
        raise RunError("a report needs at least one run folder, for example runs/mohawk")
    labels = run_labels([Path(path) for path in paths])
    found = [read_run(Path(path), label, open_records) for path, label in zip(paths, labels, strict=True)]
    return with_divergence(found)


def read_run(
    path: Path, label: str, open_records: OpenRecords | None, log: EventLog | None = None
) -> RunEvidence:
    """Read one folder; RunError where that cannot be summed up. `log`: its own, where it was read already."""
    with RunFolder.open(path) as folder:
        records, experiment = log or folder.read_log(), folder.experiment
        notes = [_ELSEWHERE] if open_records is None and _is_elsewhere(experiment.influxdb) else []
        trace = None
        if (path / "trace.parquet").is_file():
            try:
                trace = read_trace(path / "trace.parquet")
            except TraceError as error:
                notes.append(f"the trace is not shown: {error}")
        losses = folder.losses()
        lost = [f"{loss}: {_INCOMPLETE}" for loss in losses if EVENTS in loss or RECORDS in loss]
        notes += [f"{loss}: {_INCOMPLETE}" for loss in losses if EVENTS not in loss and RECORDS not in loss]
        dead, energy, host = _NOTHING_DRAINED
        try:
            dead, energy, host = _drained(folder, records, open_records)
        except RunError as error:
            if open_records is not None:
                raise
            lost = [loss for loss in lost if RECORDS not in loss]
            if folder.info.kind.has_agents:
                lost.append(f"{error}: {_UNMEASURED}")
            else:
                notes.append(f"{error}: no figure of this run comes from it")
        return RunEvidence(
            label=label,
            path=path,
            info=folder.info,
            experiment=experiment,
            records=records,
            energy=energy,
            trace=trace,
            dead_letters=dead,
            notes=tuple(notes),
            host=host,
            instrument=instrument_cost(path),
            modelled=modelled_account(folder, records),
            lost="; ".join(lost),
        )


def _drained(folder: RunFolder, log: EventLog, open_records: OpenRecords | None) -> _Drained:
    """The dead letters, the energy and the boards' state; RunError where records cannot be read."""
    dead = tuple(f"{letter.device}: {letter.reason}" for letter in folder.records.dead_letters())
    with open_records(folder) if open_records else nullcontext(folder.records) as store:
        energy = account_run(folder, log, store=store) if open_records else energy_of(folder, log)
        placed = on_one_clock(folder, log, store)
        host = {
            name: HostRecord.of(table) for name in placed.devices() if len(table := placed.host_table(name))
        }
    return dead, energy, host


def _is_elsewhere(section: InfluxdbSection) -> bool:
    """Say whether the run's agents had the order to leave the run folder without readings."""
    return bool(section.url) and section.store == "influxdb"


def with_divergence(runs: Sequence[RunEvidence]) -> list[RunEvidence]:
    """The runs, with a note on each whose trainings are not those of the first run of its experiment."""
    first: dict[str, RunEvidence] = {}
    marked = []
    for run in runs:
        before = first.setdefault(_experiment(run), run)
        step = None if before is run else first_difference(trainings(before), trainings(run))
        if step is not None:
            note = (
                f"it was given other orders than {before.label} from step {step} on, though the experiment "
                f"is the same: its selection reads models; to force equal ones: "
                f'rounds.orders = "replay:{before.path}"'
            )
            run = replace(run, notes=(*run.notes, note))
        marked.append(run)
    return marked


def trainings(run: RunEvidence) -> npt.NDArray[np.int64]:
    """(step, device) of every training that was ordered; shape (trainings, 2)."""
    ordered = run.records.codes(OrderGiven, "kind", ["train"]) == 0
    columns = [run.records.array(OrderGiven, name)[ordered] for name in ("step", "device")]
    return np.stack(columns, axis=1).astype(np.int64)


def first_difference(left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]) -> int | None:
    """The first step at which others had the order to train; None where all are the same."""
    width = 1 + max((int(side[:, 1].max()) for side in (left, right) if len(side)), default=0)
    only = np.setxor1d(left[:, 0] * width + left[:, 1], right[:, 0] * width + right[:, 1])
    return int(only[0]) // width if len(only) else None


def _experiment(run: RunEvidence) -> str:
    info = run.info
    values = [info.system, info.seed, info.trace_hash, len(info.device_names)]
    # No JSON: pydantic writes none of a file's name that is no UTF-8.
    return f"{values} {run.experiment.model_dump(include=_SECTIONS, exclude={'rounds': _INDIFFERENT})}"
