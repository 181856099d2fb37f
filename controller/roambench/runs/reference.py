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
    "run.json": "who ran, where, when, how it stands or ended, with which versions, whose code and which "
    "input files, and what the folder holds at least (`runs.info.RunInfo`)",
    "experiment.json": "the experiment with every default filled in: the keys of "
    "[experiment file](configuration.md)",
    "events.sqlite": "the event log, one row for each record of the round loop, in order; see below",
    "records.sqlite": "what agents drained, as they packed it: readings, phases, events, the boards' state; "
    "read it through `readings.parquet`, `phases.parquet`, `host.parquet` or the Python API",
    "trace.parquet": "the movement that was replayed; provenance, clock and content hash in its metadata",
    "steps.parquet": "a row for every step that was closed; a task's own metrics are columns besides, under "
    "their names, with `better` (higher or lower) in the metadata, and replace accuracy where labels are no "
    "classes",
    "readings.parquet": "every line of every meter, as it came",
    "phases.parquet": "the phases that partition the time of every board",
    "ledger.parquet": "measured joules by device, round, phase and outcome; how they were attributed, and "
    "every board's meter and clock, in its metadata",
    "host.parquet": "how the boards themselves were, every few seconds",
    "exchanges.parquet": "who sent a model to whom; only of decentralised systems on agents",
    "ledger_modelled.parquet": "modelled joules of virtual devices, a row for each transfer and training",
    "devices.parquet": "a row for each virtual device",
    "summary.json": "figures of a run on virtual devices: [simulating](simulating.md)",
    "link_model.json": "the link model of a run on virtual devices, unless it is the built-in one",
    "bench.json": "of a run on a bench: its description, every device's host and meter, what was waived, and "
    "`packages`: the user's packages that its boards have, each with version and digest of its wheel",
    "models/global.safetensors": "the last global model (decentralised: the mean of the devices'), by "
    "tensor, as the module's `load_state_dict` takes them; system, digest and steps in its metadata",
    "truth/*.csv": "true power of an emulated board, which no sensor saw, from each moment `ns` (device "
    "time) on: `watts` of the board, or `idle_watts` if it idled; see [emulator](emulator.md)",
    "checkpoint.json": "what a run goes on from; gone when it has finished",
    "checkpoint-models/*": "models that the checkpoint names",
    "emulator.json": "the meter emulator's settings",
    "emulator.log": "what the meter emulator printed",
    "agents.json": "what the agents of this machine were started with",
    "agents/*": "an agent's own folder: log, spool, its part of the data, what it keeps to go on from",
    "agent_fork_server.log": "what the process printed that forks the agents",
    "controller.log": "tracebacks of unexpected errors",
    "lock": "held by the one process that writes the run",
    "fleet.lock": "held by the one fleet of agents on this machine",
    "identity/*": "certificates of the agents of this machine, for this run",
    "shards/*": "the devices' parts of the training data, for a run that is going on",
    "workers.json": "what the simulation's workers were started with",
    "workers.log": "what the process printed that forks the simulation's workers",
    "worker-*.log": "what the simulation's workers printed that had this place, one after the other",
    "stacked.json": "what the simulation's stacked backend was started with",
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
    "body": ("", "all its fields, as JSON"),
}
_INTRODUCTION: Final = """\
<!-- Made by `python -m roambench.runs.reference docs/run-files.md`; do not edit. -->

# Files of a run

Everything that a run leaves behind is in its folder. Tables are Parquet: any tool that reads columns reads
them, and every column has its `unit` and `description` in its metadata. From Python,
`roambench.load(FOLDER)` gives the same tables of a run that is still going on, too
([Python](python.md)).

Stamps (`ns`) are device time, nanoseconds: a board's own clock, or an emulated one that may run faster.
Names end in their units. `u_` is a standard uncertainty (k = 1). **Do not add `u_` columns**, neither
linearly nor in quadrature: rows share errors (a meter's gain is wrong in all of a board's rows).
`run.energy(by=[...])` adds them up rightly. `step = -1` is before the first step: the boards idle, and that
is the baseline. *idle*: present, nothing ordered in this step; *rest*: around a measured phase, doing
nothing, so that its joules stand alone; *wait*: present, its order is done, the step is not closed yet;
*absent*: the trace says that the device is away, its board idles.

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
            f"{FILES[name][0].upper()}{FILES[name][1:]}.",
            "",
            *_columns(schema),
        ]
    parts += [
        "",
        "## `events.sqlite`",
        "",
        "Table `event`: what a later `RunResumed` of the same or an earlier step makes void does not count.",
        "",
        "| column | unit | what it holds |",
        "|---|---|---|",
        *(f"| `{name}` | {unit} | {text} |" for name, (unit, text) in _EVENT_ROW.items()),
        "",
        "Kinds of record, each a table in `run.events[KIND]`:",
        "",
        "| kind | what it says | fields |",
        "|---|---|---|",
        *_kinds(),
    ]
    return "\n".join([*parts, ""])


def _columns(schema: pa.Schema) -> Iterator[str]:
    yield "| column | type | unit | what it holds |"
    yield "|---|---|---|---|"
    for field in schema:
        about = {key.decode(): value.decode() for key, value in field.metadata.items()}
        kind = "string" if pa.types.is_dictionary(field.type) else str(field.type)
        yield f"| `{field.name}` | {kind} | {about['unit']} | {about['description']} |"


def _kinds() -> Iterator[str]:
    for kind in KINDS:
        text = " ".join((inspect.getdoc(kind) or "").split()).replace("|", "\\|")
        names = ", ".join(f"`{field.name}`" for field in COLUMNS[kind].schema)
        yield f"| `{kind.__name__}` | {text} | {names} |"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(run_files_page(), encoding="utf-8")
    else:
        print(run_files_page(), end="")
