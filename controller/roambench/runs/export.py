"""The run as Parquet files, for any tool that reads columns."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from roambench.rounds.records import MixingPlanned
from roambench.runs import tables
from roambench.runs.event_log import EventLog
from roambench.runs.folder import RunFolder
from roambench.runs.measured.accounted import energy_of
from roambench.runs.measured.common_clock import on_one_clock
from roambench.runs.modelled.export import export_modelled
from roambench.runs.parquet import write_table


def export_run(folder: RunFolder, records: EventLog | None = None) -> list[Path]:
    """Write the five tables into the folder, each replaced as a whole, and for a run on virtual devices its
    modelled ledger, its devices and its summary; where agents exchanged models with each other, every such
    transfer besides. Returns the paths. `records`: the folder's log, where it was read already.

    Works on finished and interrupted runs; a run without readings and phases gets empty energy tables.
    """
    records = records or folder.read_log()
    found = measured_tables(folder, records)
    written = [write_table(folder.path / f"{name}.parquet", table) for name, table in found.items()]
    return [*written, *export_modelled(folder, records)]


def measured_tables(folder: RunFolder, records: EventLog) -> dict[str, pa.Table | pa.RecordBatchReader]:
    """The five tables, the long ones as readers of one board at a time, and the transfers among agents where
    there were any, by their files' stems."""
    energy = energy_of(folder, records)
    found = {
        "readings": tables.readings_by_board(energy),
        "phases": tables.phases_table(energy),
        "ledger": tables.ledger_table(energy),
        "steps": tables.steps_table(records),
        "host": tables.host_by_board(on_one_clock(folder, records, folder.records)),
    }
    if energy is not None and records.count(MixingPlanned):
        found["exchanges"] = tables.exchanges_table(folder.info.device_names, records)
    return found
