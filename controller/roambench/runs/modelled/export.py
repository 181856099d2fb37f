"""Raw results of a run on virtual devices: modelled ledger and devices as Parquet, a summary as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from roambench.contract.json_values import without_nan
from roambench.contract.phases import COMPUTING_PHASES, Outcome, Phase
from roambench.energy.ledger import NONE, OUTCOMES, PHASES, Chosen, Codes, Numbers
from roambench.rounds.records import RoundRecord
from roambench.runs.columns import DEVICES, MODELLED_LEDGER, described
from roambench.runs.event_log import EventLog, TextColumn
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunInfo
from roambench.runs.modelled.accounts import ModelledEnergy, modelled_account
from roambench.runs.modelled.summary import presence, summary_of
from roambench.runs.parquet import write_table
from roambench.runs.scores import scores_of
from roambench.runs.training_columns import TrainingColumns
from roambench.runs.whole_file import write_whole

MODELLED_LEDGER_SCHEMA: Final = described(
    pa.schema(
        [
            ("device", pa.string()),
            ("step", pa.int64()),
            ("at_step", pa.int64()),
            ("phase", pa.string()),
            ("outcome", pa.string()),
            ("order_id", pa.string()),
            ("train_order_id", pa.string()),
            ("duration_s", pa.float64()),
            ("modelled_gross_j", pa.float64()),
            ("modelled_idle_j", pa.float64()),
            ("modelled_net_j", pa.float64()),
            ("modelled_u_j", pa.float64()),
            ("transferred_bytes", pa.int64()),
            ("mbit_s", pa.float64()),
            ("link", pa.string()),
            ("distance_m", pa.float64()),
        ]
    ),
    MODELLED_LEDGER,
)
DEVICES_SCHEMA: Final = described(
    pa.schema(
        [
            ("device", pa.string()),
            ("present_steps", pa.int64()),
            ("mean_distance_m", pa.float64()),
            ("trainings", pa.int64()),
            ("aggregated", pa.int64()),
            ("wasted", pa.int64()),
            ("failed", pa.int64()),
            ("train_s", pa.float64()),
            ("downloaded_bytes", pa.int64()),
            ("uploaded_bytes", pa.int64()),
            ("modelled_gross_j", pa.float64()),
            ("modelled_net_j", pa.float64()),
            ("modelled_communication_j", pa.float64()),
            ("modelled_wasted_gross_j", pa.float64()),
            ("modelled_failed_gross_j", pa.float64()),
        ]
    ),
    DEVICES,
)


def export_modelled(folder: RunFolder, records: Sequence[RoundRecord]) -> list[Path]:
    """Write `ledger_modelled.parquet`, `devices.parquet` and `summary.json`; nothing for other fleets."""
    found = modelled_results(folder, EventLog.of(records))
    if found is None:
        return []
    tables, document = found
    written = [write_table(folder.path / f"{name}.parquet", table) for name, table in tables.items()]
    summary = folder.path / "summary.json"
    write_whole(summary, json.dumps(document, indent=2, allow_nan=False) + "\n")
    return [*written, summary]


def modelled_results(folder: RunFolder, log: EventLog) -> tuple[dict[str, pa.Table], object] | None:
    """The tables by their files' stems, and the summary; None for other fleets."""
    modelled = modelled_account(folder, log)
    if modelled is None:
        return None
    threshold = folder.experiment.rounds.threshold_of(scores_of(log).metric)
    tables = {
        "ledger_modelled": modelled_ledger_table(modelled),
        "devices": devices_table(modelled, folder.info, log),
    }
    return tables, without_nan(summary_of(folder.info, log, modelled, threshold))


def modelled_ledger_table(modelled: ModelledEnergy) -> pa.Table:
    """A row for every transfer and training that was done, and for the rests of an order, if it has any; what
    it was modelled with, as metadata."""
    rows, work = modelled.ledger, modelled.ledger.work
    linkless = rows.of_phase(*COMPUTING_PHASES, Phase.REST)
    columns: dict[str, Any] = {
        "device": _named(work.names, work.device),
        "step": work.step,
        "at_step": work.at_step,
        "phase": _named(PHASES, work.phase),
        "outcome": _named(OUTCOMES, work.outcome),
        "order_id": _texts(work.order_ids),
        "train_order_id": _texts(work.train_order_ids),
        "duration_s": rows.duration_s,
        "modelled_gross_j": rows.gross_j,
        "modelled_idle_j": rows.idle_j,
        "modelled_net_j": rows.net_j,
        "modelled_u_j": rows.errors["net"].each(),
        "transferred_bytes": work.transferred_bytes,
        "mbit_s": work.mbit_s,
        "link": _named(work.links, np.where(linkless, NONE, work.link)).fill_null(""),
        "distance_m": work.distance_m,
    }
    arrays = [
        pa.array(columns[name], kind)
        for name, kind in zip(MODELLED_LEDGER_SCHEMA.names, MODELLED_LEDGER_SCHEMA.types, strict=True)
    ]
    table = pa.Table.from_arrays(arrays, schema=MODELLED_LEDGER_SCHEMA)
    about = {
        "version": version("roambench"),
        "modelled": True,
        "rate": modelled.rate,
        "link_model": modelled.links.name,
        "power": asdict(modelled.power),
    }
    return table.replace_schema_metadata({"roambench": json.dumps(about)})


def _named(names: Sequence[str], codes: Codes) -> pa.StringArray:
    """The name of each code, null for NONE."""
    return pa.array([str(name) for name in names], pa.string()).take(pa.array(codes, mask=codes == NONE))


def _texts(texts: Sequence[str]) -> pa.StringArray:
    return texts.array if isinstance(texts, TextColumn) else pa.array(texts, pa.string())


def devices_table(modelled: ModelledEnergy, info: RunInfo, log: EventLog) -> pa.Table:
    """A row for every device: presence, trainings, bytes and joules."""
    rows, trainings, present = modelled.ledger, TrainingColumns.of(log), presence(log)
    work, count = rows.work, len(info.device_names)
    there = [present.get(number) for number in range(count)]
    # Rows by device, each device's in the ledger's order: sums are then exact, as all others of a run.
    order = np.argsort(work.device, kind="stable")
    ends = np.cumsum(np.bincount(work.device, minlength=count))[:count].tolist()

    def of_device(values: Numbers, chosen: Chosen) -> list[float]:
        ordered = np.where(chosen, values, 0.0)[order].tolist()
        return [math.fsum(ordered[start:end]) for start, end in zip([0, *ends[:-1]], ends, strict=True)]

    def size(chosen: Chosen) -> Codes:
        sums = np.zeros(max(count, len(work.names)), np.int64)
        np.add.at(sums, work.device[chosen], work.transferred_bytes[chosen])
        return sums[:count]

    def outcomes(outcome: Outcome | None) -> Codes:
        own = (trainings.device >= 0) & (trainings.device < count)
        chosen = own if outcome is None else own & (trainings.outcome == OUTCOMES.index(outcome))
        return np.bincount(trainings.device[chosen], minlength=count)

    every = np.ones(len(rows.device), bool)
    moved = rows.of_phase(Phase.DOWNLOAD, Phase.UPLOAD, Phase.EXCHANGE)
    columns = [
        list(info.device_names),
        [device.steps if device else 0 for device in there],
        [device.mean_distance_m if device else None for device in there],
        outcomes(None),
        outcomes(Outcome.AGGREGATED),
        outcomes(Outcome.WASTED),
        outcomes(Outcome.FAILED),
        of_device(rows.duration_s, rows.of_phase(Phase.TRAIN)),
        size(moved & ~work.sent()),
        size(moved & work.sent()),
        of_device(rows.gross_j, every),
        of_device(rows.net_j, every),
        of_device(rows.net_j, moved),
        of_device(rows.gross_j, rows.wasted()),
        of_device(rows.gross_j, rows.failed()),
    ]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, DEVICES_SCHEMA.types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=DEVICES_SCHEMA)
