"""Raw results of a run on virtual devices: modelled ledger and devices as Parquet, a summary as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa

from roambench.contract.phases import Fate, Phase
from roambench.energy.modelled import ModelledRow
from roambench.energy.table10 import is_wasted
from roambench.rounds.fates import training_fates
from roambench.rounds.records import RoundRecord
from roambench.runs.database import naming
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunInfo
from roambench.runs.modelled_accounts import ModelledEnergy, modelled_account
from roambench.runs.modelled_summary import Presence, presence, summary_of
from roambench.runs.parquet import write_table

_LEDGER = pa.schema(
    [
        ("device", pa.string()),
        ("step", pa.int64()),
        ("at_step", pa.int64()),
        ("phase", pa.string()),
        ("fate", pa.string()),
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
)
_DEVICES = pa.schema(
    [
        ("device", pa.string()),
        ("present_steps", pa.int64()),
        ("mean_distance_m", pa.float64()),
        ("trainings", pa.int64()),
        ("aggregated", pa.int64()),
        ("wasted", pa.int64()),
        ("train_s", pa.float64()),
        ("downloaded_bytes", pa.int64()),
        ("uploaded_bytes", pa.int64()),
        ("modelled_gross_j", pa.float64()),
        ("modelled_net_j", pa.float64()),
        ("modelled_communication_j", pa.float64()),
        ("modelled_wasted_gross_j", pa.float64()),
    ]
)


def export_modelled(folder: RunFolder, records: Sequence[RoundRecord]) -> list[Path]:
    """Write `ledger_modelled.parquet`, `devices.parquet` and `summary.json`; nothing for other fleets."""
    modelled = modelled_account(folder, records)
    if modelled is None:
        return []
    ledger = folder.path / "ledger_modelled.parquet"
    devices, summary = folder.path / "devices.parquet", folder.path / "summary.json"
    write_table(ledger, _ledger(modelled))
    write_table(devices, _devices(modelled, folder.info, records))
    threshold = _threshold(folder)
    with naming(summary):
        text = json.dumps(summary_of(folder.info, records, modelled, threshold), indent=2, allow_nan=False)
        beside = summary.with_name("summary.json.new")
        beside.write_text(text + "\n", encoding="utf-8")
        beside.replace(summary)
    return [ledger, devices, summary]


def _ledger(modelled: ModelledEnergy) -> pa.Table:
    rows = modelled.rows
    columns = {
        "phase": [row.phase.value for row in rows],
        "fate": [None if row.fate is None else row.fate.value for row in rows],
        "modelled_gross_j": [row.gross_j for row in rows],
        "modelled_idle_j": [row.idle_j for row in rows],
        "modelled_net_j": [row.net_j for row in rows],
        "modelled_u_j": [row.u_j for row in rows],
    }
    arrays = [
        columns[name] if name in columns else [getattr(row, name) for row in rows] for name in _LEDGER.names
    ]
    table = pa.table([pa.array(a, t) for a, t in zip(arrays, _LEDGER.types, strict=True)], schema=_LEDGER)
    about = {
        "version": version("roambench"),
        "modelled": True,
        "rate": modelled.rate,
        "link_model": modelled.links.name,
        "power": asdict(modelled.power),
    }
    return table.replace_schema_metadata({"roambench": json.dumps(about)})


def _devices(modelled: ModelledEnergy, info: RunInfo, records: Sequence[RoundRecord]) -> pa.Table:
    present = presence(records)
    trainings: dict[int, list[Fate]] = {}
    for training in training_fates(records).values():
        trainings.setdefault(training.device, []).append(training.fate)
    of_device: dict[str, list[ModelledRow]] = {}
    for row in modelled.rows:
        of_device.setdefault(row.device, []).append(row)
    rows = [
        _device(name, present.get(number), trainings.get(number, []), of_device.get(name, []))
        for number, name in enumerate(info.device_names)
    ]
    return pa.Table.from_pylist(rows, _DEVICES)


def _device(
    name: str, there: Presence | None, fates: Sequence[Fate], rows: Sequence[ModelledRow]
) -> dict[str, Any]:
    up = [row for row in rows if row.phase is Phase.UPLOAD]
    down = [row for row in rows if row.phase is Phase.DOWNLOAD]
    return {
        "device": name,
        "present_steps": there.steps if there else 0,
        "mean_distance_m": there.mean_distance_m if there else None,
        "trainings": len(fates),
        "aggregated": fates.count(Fate.AGGREGATED),
        "wasted": fates.count(Fate.WASTED),
        "train_s": math.fsum(row.duration_s for row in rows if row.phase is Phase.TRAIN),
        "downloaded_bytes": sum(row.transferred_bytes for row in down),
        "uploaded_bytes": sum(row.transferred_bytes for row in up),
        "modelled_gross_j": math.fsum(row.gross_j for row in rows),
        "modelled_net_j": math.fsum(row.net_j for row in rows),
        "modelled_communication_j": math.fsum(row.net_j for row in (*down, *up)),
        "modelled_wasted_gross_j": math.fsum(row.gross_j for row in rows if is_wasted(row)),
    }


def _threshold(folder: RunFolder) -> float | None:
    rounds = folder.config.get("rounds")
    value = rounds.get("accuracy_threshold") if isinstance(rounds, dict) else None
    return float(value) if isinstance(value, int | float) else None
