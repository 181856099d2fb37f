"""A run's tables as Arrow: readings, phases, ledger, steps, the boards' state, exchanges.

Every column says its unit and what it holds in its metadata, here and in the Parquet files (`runs.columns`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from roambench.contract.metric import ACCURACY
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
from roambench.runs import columns
from roambench.runs.event_log import EventLog
from roambench.runs.measured.accounts import RunEnergy
from roambench.runs.measured.analysis import analysis_of
from roambench.runs.record_columns import RecordColumns
from roambench.runs.records import Records
from roambench.runs.scores import scores_of

READINGS: Final = columns.described(
    pa.schema(
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
    ),
    columns.READINGS,
)
EXCHANGES: Final = columns.described(
    pa.schema(
        [
            ("step", pa.int64()),
            ("sender", pa.string()),
            ("receiver", pa.string()),
            ("transferred_bytes", pa.int64()),
            ("status", pa.string()),
            ("reason", pa.string()),
        ]
    ),
    columns.EXCHANGES,
)
STEPS: Final = columns.described(
    pa.schema(
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
    ),
    columns.STEPS,
)


def _of(record: type[Any], described: columns.Columns) -> RecordColumns:
    """Columns of a record's class that say what they hold."""
    found = RecordColumns.of(record)
    return replace(found, schema=columns.described(found.schema, described))


PHASES: Final = _of(PhaseSpan, columns.PHASES)
LEDGER: Final = _of(LedgerRow, columns.LEDGER)
HOST: Final = columns.described(
    pa.schema([pa.field("device", pa.string()), *RecordColumns.of(HostSample).schema]), columns.HOST
)


def readings_by_board(energy: RunEnergy | None) -> pa.RecordBatchReader:
    """Every reading as the meter said it, in device time, board after board: one board is read at a time."""
    lines = ((device.device, vars(device.readings)) for device in (energy.devices if energy else ()))
    return _by_board(READINGS, lines)


def phases_table(energy: RunEnergy | None) -> pa.Table:
    """The phases that partition every board's time."""
    return PHASES.table([span for device in energy.devices for span in device.spans] if energy else [])


def ledger_table(energy: RunEnergy | None) -> pa.Table:
    """A row for every phase of every board, those in no sum among them; how it was made, as metadata."""
    table = LEDGER.table([row for device in energy.devices for row in device.rows] if energy else [])
    return table.replace_schema_metadata({"roambench": json.dumps(analysis_of(energy), allow_nan=False)})


def steps_table(log: EventLog) -> pa.Table:
    """A row for every step that was closed. A task's own metrics are columns under their names, which say
    what is better; where labels are no classes they stand instead of accuracy."""
    scores = scores_of(log)
    present = {record.step: len(record.devices) for record in log.only(StepOpened)}
    cloud = {record.step for record in log.only(CloudAggregated)}
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
        for record in log.only(StepClosed)
    ]
    table = pa.Table.from_pylist(rows, STEPS)
    place = STEPS.get_field_index("accuracy")
    if scores.metric != ACCURACY:
        table = table.remove_column(place)
    for metric in scores.own:
        values = scores.metrics.get(metric.name, {})
        column = columns.of_metric(metric)
        found = [values.get(row["step"]) for row in rows]
        table = table.add_column(table.schema.get_field_index("loss"), column, pa.array(found, pa.float64()))
    return table


def exchanges_table(names: Sequence[str], log: EventLog) -> pa.Table:
    """Return who sent a model to whom; empty for systems whose devices do not. `names`: of the devices, by
    index."""
    rows = [
        {**asdict(item), "sender": names[item.sender], "receiver": names[item.receiver]}
        for item in peer_transfers(log.only(MixingPlanned, ModelsExchanged, OrderAnswered))
    ]
    return pa.Table.from_pylist(rows, EXCHANGES)


def host_by_board(store: Records) -> pa.RecordBatchReader:
    """The boards' own state, every few seconds; one board is read at a time."""
    return _by_board(HOST, ((device, store.host_table(device)) for device in store.devices()))


def _by_board(schema: pa.Schema, boards: Iterator[tuple[str, Any]]) -> pa.RecordBatchReader:
    """A batch of each board: its name, and columns of its values by their names."""
    of_board, *others = schema

    def batches() -> Iterator[pa.RecordBatch]:
        for name, values in boards:
            found = [pa.array(np.ascontiguousarray(values[field.name]), field.type) for field in others]
            names = pa.DictionaryArray.from_arrays(np.zeros(len(found[0]), np.int32), [name])
            yield pa.RecordBatch.from_arrays([names.cast(of_board.type), *found], schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())
