"""The run as Parquet files: readings, phases, ledger and steps, for any tool that reads columns."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa

from roambench.contract.phases import PhaseSpan
from roambench.contract.records import HostSample
from roambench.energy.ledger import LedgerRow
from roambench.rounds.exchanges import peer_transfers
from roambench.rounds.records import (
    CloudAggregated,
    MixingPlanned,
    ModelsExchanged,
    OrderAnswered,
    StepClosed,
    StepOpened,
)
from roambench.runs.event_log import EventLog
from roambench.runs.folder import RunFolder
from roambench.runs.measured.accounts import RunEnergy, account_run
from roambench.runs.measured.analysis import analysis_of
from roambench.runs.measured.common_clock import on_one_clock
from roambench.runs.modelled.export import export_modelled
from roambench.runs.parquet import write_table
from roambench.runs.record_columns import RecordColumns
from roambench.runs.records import Records

_READINGS = pa.schema(
    [
        ("device", pa.dictionary(pa.int32(), pa.string())),
        ("ns", pa.int64()),
        ("volts", pa.float64()),
        ("amps", pa.float64()),
        ("watts", pa.float64()),
        ("watt_hours", pa.float64()),
        ("flags", pa.uint32()),
        ("meter_ms", pa.int64()),
    ]
)
_PHASES = RecordColumns.of(PhaseSpan)
_LEDGER = RecordColumns.of(LedgerRow)
_HOST = RecordColumns.of(HostSample)
_EXCHANGES = pa.schema(
    [
        ("step", pa.int64()),
        ("sender", pa.string()),
        ("receiver", pa.string()),
        ("transferred_bytes", pa.int64()),
        ("status", pa.string()),
        ("reason", pa.string()),
    ]
)
_STEPS = pa.schema(
    [
        ("step", pa.int64()),
        ("present", pa.int64()),
        ("aggregated", pa.int64()),
        ("outstanding", pa.int64()),
        ("participating_aps", pa.int64()),
        ("cloud", pa.bool_()),
        ("accuracy", pa.float64()),
        ("loss", pa.float64()),
        ("wall_s", pa.float64()),
    ]
)


def export_run(folder: RunFolder, *, nominal_s: float | None = None) -> list[Path]:
    """Write the five tables into the folder, each replaced as a whole, and for a run on virtual devices its
    modelled ledger, its devices and its summary; where agents exchanged models with each other, every such
    transfer besides. Returns the paths.

    Works on finished and interrupted runs; a run without readings and phases gets empty energy tables.
    """
    records = folder.read_log()
    energy = account_run(folder, records, nominal_s=nominal_s)
    return [
        write_table(folder.path / "readings.parquet", _readings(energy)),
        write_table(folder.path / "phases.parquet", _phases(energy)),
        write_table(folder.path / "ledger.parquet", _ledger(energy)),
        write_table(folder.path / "steps.parquet", _steps(records)),
        write_table(folder.path / "host.parquet", _host(on_one_clock(folder, records, folder.records))),
        *(_exchanges(folder, records) if energy is not None else []),
        *export_modelled(folder, records),
    ]


def _readings(energy: RunEnergy | None) -> pa.Table:
    tables = []
    for device in energy.devices if energy else ():
        columns = device.readings
        names = pa.DictionaryArray.from_arrays(pa.array([0] * len(columns), pa.int32()), [device.device])
        values = [getattr(columns, field.name) for field in list(_READINGS)[1:]]
        tables.append(pa.table([names, *(pa.array(value) for value in values)], schema=_READINGS))
    return pa.concat_tables(tables).unify_dictionaries() if tables else _READINGS.empty_table()


def _phases(energy: RunEnergy | None) -> pa.Table:
    spans = [span for device in energy.devices for span in device.spans] if energy else []
    return _PHASES.table(spans)


def _ledger(energy: RunEnergy | None) -> pa.Table:
    rows = [row for device in energy.devices for row in device.rows] if energy else []
    table = _LEDGER.table(rows)
    return table.replace_schema_metadata({"roambench": json.dumps(analysis_of(energy), allow_nan=False)})


def _steps(records: EventLog) -> pa.Table:
    present = {record.step: len(record.devices) for record in records.only(StepOpened)}
    cloud = {record.step for record in records.only(CloudAggregated)}
    rows = [
        {
            "step": record.step,
            "present": present.get(record.step),
            "aggregated": record.aggregated,
            "outstanding": len(record.outstanding),
            "participating_aps": len(record.participating_aps),
            "cloud": record.step in cloud,
            "accuracy": record.accuracy,
            "loss": record.loss,
            "wall_s": record.wall_s,
        }
        for record in records.only(StepClosed)
    ]
    return pa.Table.from_pylist(rows, _STEPS)


def _exchanges(folder: RunFolder, records: EventLog) -> list[Path]:
    """Table of who sent a model to whom; none for systems whose devices do not."""
    if not records.count(MixingPlanned):
        return []
    names = folder.info.device_names
    rows = [
        {**asdict(item), "sender": names[item.sender], "receiver": names[item.receiver]}
        for item in peer_transfers(records.only(MixingPlanned, ModelsExchanged, OrderAnswered))
    ]
    return [write_table(folder.path / "exchanges.parquet", pa.Table.from_pylist(rows, _EXCHANGES))]


def _host(store: Records) -> pa.Table:
    samples = {device: list(store.host_samples(device)) for device in store.devices()}
    table = _HOST.table([sample for ours in samples.values() for sample in ours])
    names = [device for device, ours in samples.items() for _ in ours]
    return table.add_column(0, "device", pa.array(names, pa.string()))
