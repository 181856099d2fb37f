"""The page `docs/run-files.md`, made from the columns that runs are written with.

python -m roambench.runs.reference docs/run-files.md
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa

from roambench.mobility.files import TRACE_SCHEMA
from roambench.runs import columns, tables
from roambench.runs.modelled.export import DEVICES_SCHEMA, MODELLED_LEDGER_SCHEMA
from roambench.runs.record_columns import COLUMNS, KINDS

#: File, or pattern of files, of a run folder -> what it holds.
FILES: Final[Mapping[str, str]] = {
    "run.json": "system, fleet, times, state, versions, packages' code and input files (`runs.info.RunInfo`)",
    "experiment.json": "the experiment with all defaults: [keys](configuration.md)",
    "events.sqlite": "the event log, see below",
    "records.sqlite": "what agents drained; read it through the Parquet files or Python",
    "trace.parquet": "the movement that was replayed, with its provenance",
    "steps.parquet": "closed steps; a task's metrics are columns besides, with `better` in the metadata",
    "readings.parquet": "every line of every meter, as it came",
    "phases.parquet": "the phases that partition the time of every board",
    "ledger.parquet": "measured joules by device, step, phase, outcome; meters and clocks in its metadata",
    "host.parquet": "how the boards themselves were, every few seconds",
    "exchanges.parquet": "who sent a model to whom; only of decentralised systems on agents",
    "ledger_modelled.parquet": "modelled joules of virtual devices, by transfer and training",
    "devices.parquet": "a row for each virtual device",
    "summary.json": "figures of a run on virtual devices: [simulating](simulating.md)",
    "figures.json": "figures of a finished run by their names, with `u` (k = 1) of energies",
    "page.zip": "of a run, but no rehearsal, with more than 32 MB of events and records: what "
    "[watch](watching.md) shows of it; its end writes it, or the first `watch`",
    "manifest.sha256": "digests of all other files at the run's end: [check](exporting.md#check)",
    "link_model.json": "the link model of a run on virtual devices, unless it is the built-in one",
    "bench.json": "of a bench: its description, hosts, meters, what was waived, users' `packages`",
    "models/global.safetensors": "the last global (decentralised: mean) model, as `load_state_dict` takes it",
    "truth/*.csv": "true power of an emulated board from `ns` on: `watts`, and `idle_watts` if it idled",
    "checkpoint.json": "what a run goes on from; gone when it has finished",
    "checkpoint-models/*": "models that the checkpoint names",
    "emulator.json": "what the meter emulator plays",
    "emulator.log": "what the meter emulator printed",
    "agents.json": "what the agents of this machine were started with",
    "agents/*": "an agent's folder: log, spool, data, what it goes on from",
    "agent_fork_server.log": "what the agents' fork server printed",
    "controller.log": "tracebacks of unforeseen errors",
    "lock": "held by the one process that writes the run",
    "fleet.lock": "held by the one fleet of agents on this machine",
    "identity/*": "certificates of the agents of this machine, for this run",
    "shards/*": "the devices' parts of the training data, while a run goes on",
    "workers.json": "what the simulation's workers were started with",
    "workers.log": "what the workers' fork server printed",
    "worker-*.log": "what the simulation's workers printed",
    "stacked.log": "what the simulation's stacked backend printed",
    "*.sqlite-wal": "SQLite's log of the database of that name; belongs to it",
    "*.sqlite-shm": "SQLite's index of that log",
}
TABLES: Final[Mapping[str, pa.Schema]] = {
    "ledger.parquet": tables.LEDGER.schema,
    "steps.parquet": tables.STEPS,
    "readings.parquet": tables.READINGS,
    "phases.parquet": tables.PHASES.schema,
    "host.parquet": tables.HOST,
    "exchanges.parquet": tables.EXCHANGES,
    "trace.parquet": TRACE_SCHEMA,
    "ledger_modelled.parquet": MODELLED_LEDGER_SCHEMA,
    "devices.parquet": DEVICES_SCHEMA,
}
_EVENT_ROW: Final[columns.Columns] = {
    "id": ("", "number of the row; the log's order"),
    "step": ("", "step of the record; -1 before the first"),
    "kind": ("", "kind of record, see below"),
    "device": ("", "number of its device in `run.json`'s `device_names`; null for none"),
    "body": ("", "all its fields, as JSON; of many records of one kind and step: Parquet"),
}
_INTRODUCTION: Final = """\
<!-- Made by `python -m roambench.runs.reference docs/run-files.md`; do not edit. -->

# Files of a run

Tables are Parquet; each column has its `unit` and `description` in its metadata. `roambench.load(FOLDER)`
gives the same tables, also of a run that is going on ([Python](python.md)). Stamps (`ns`) are device time in
nanoseconds.

`u_` is a standard uncertainty (k = 1). **Do not add `u_` columns**: rows share errors; `run.energy(by=[...])`
adds them up. `step = -1` is before the first step. *idle*: present without an order; *rest*: around a
measured phase; *wait*: its order is done, the step is not closed; *absent*: away, its board idles.

Without `events.sqlite` a report has the figures of `figures.json` and the scores of `steps.parquet`:
trainings and what became of them, which each other table needs, are in the event log alone.

`tests/unit/runs/test_reference.py` makes runs and finds each of their files and columns here.
"""


def run_files_page() -> str:
    """The whole page, Markdown."""
    parts = [_INTRODUCTION, "## Files\n", "| file | what it holds |", "|---|---|"]
    parts += [f"| `{name}` | {text} |" for name, text in FILES.items()]
    for name, schema in TABLES.items():
        parts += [
            "",
            f"## `{name}`",
            "",
            *_columns(schema),
        ]
    parts += [
        "",
        "## `events.sqlite`",
        "",
        "Table `event`; records that a later `RunResumed` of the same or an earlier step voids do not count.",
        "",
        "| column | what it holds |",
        "|---|---|",
        *(f"| `{name}` | {text} |" for name, (_, text) in _EVENT_ROW.items()),
        "",
        "Kinds of record, each a table in `run.events[KIND]`:",
        "",
        "| kind | what it says | fields |",
        "|---|---|---|",
        *_kinds(),
    ]
    return "\n".join([*parts, ""])


def _columns(schema: pa.Schema) -> Iterator[str]:
    yield "| column | type | what it holds |"
    yield "|---|---|---|"
    for field in schema:
        about = {key.decode(): value.decode() for key, value in field.metadata.items()}
        kind = "string" if pa.types.is_dictionary(field.type) else str(field.type)
        unit = f", {about['unit']}" if about["unit"] else ""
        yield f"| `{field.name}` | {kind}{unit} | {about['description']} |"


def _kinds() -> Iterator[str]:
    for kind in KINDS:
        first, _, _ = " ".join((inspect.getdoc(kind) or "").split()).partition(". ")
        text = first.rstrip(".").replace("|", "\\|")
        names = ", ".join(f"`{field.name}`" for field in COLUMNS[kind].schema)
        yield f"| `{kind.__name__}` | {text} | {names} |"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(run_files_page(), encoding="utf-8")
    else:
        print(run_files_page(), end="")
