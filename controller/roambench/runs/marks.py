"""The state of a run's files when its controller said so last, and what of that its folder has lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from roambench.contract.counts import count
from roambench.contract.errors import RunError
from roambench.runs.database import naming, open_reader

EVENTS, RECORDS = "events.sqlite", "records.sqlite"


@dataclass(frozen=True, slots=True)
class Marks:
    """The least that the folder holds. `log`: the number drawn for its event log (0 for that of an older
    version), `events`: rows in it; `records`: by device and spool the highest number stored; `files`: others
    by their path in the folder."""

    log: int = 0
    events: int = 0
    records: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    files: tuple[str, ...] = ()


def losses(folder: Path, marks: Marks) -> list[str]:
    """Return what is not there any more, or is another run's, a phrase each."""
    return [
        *_losses_of_log(folder / EVENTS, marks),
        *_losses_of_records(folder / RECORDS, marks),
        *(f"{name} is not there" for name in marks.files if not (folder / name).is_file()),
    ]


def gaps(folder: Path) -> list[str]:
    """Return how many records were taken out of the middle of the event log, whose numbers have no gaps: a
    phrase, or nothing. RunError where it cannot be read."""
    path = folder / EVENTS
    ((lacking,),) = _rows(path, "SELECT coalesce(max(id), 0) - count(*) FROM event")
    return [f"{path.name} lacks {count(lacking, 'row')} in its middle"] if lacking else []


def _losses_of_log(path: Path, marks: Marks) -> Iterator[str]:
    if not (marks.log or marks.events):
        return
    if not path.is_file():
        yield f"{path.name} is not there"
        return
    try:
        ((log,),) = _rows(path, "PRAGMA user_version")
        ((events,),) = _rows(path, "SELECT coalesce(max(id), 0) FROM event") if log == marks.log else ((0,),)
    except RunError as error:
        yield str(error)
        return
    if log != marks.log:
        yield f"{path.name} is not the event log that this run wrote"
    elif events < marks.events:
        yield f"{path.name} has {events:,} of {marks.events:,} rows"


def _losses_of_records(path: Path, marks: Marks) -> Iterator[str]:
    if not marks.records:
        return
    if not path.is_file():
        yield f"{path.name} is not there"
        return
    query = "SELECT coalesce(max(seq), -1) FROM record WHERE device = ? AND spool_uuid = ?"
    lacking = []
    try:
        for device, spools in marks.records.items():
            for spool, seq in spools.items():
                ((found,),) = _rows(path, query, device, spool)
                if found < seq:
                    lacking.append(device)
    except RunError as error:
        yield str(error)
        return
    if lacking:
        yield f"{path.name} lacks records of {', '.join(dict.fromkeys(lacking))} that this run had stored"


def _rows(path: Path, query: str, *values: object) -> list[tuple[int]]:
    connection = open_reader(path)
    try:
        with naming(path):
            return connection.execute(query, values).fetchall()
    finally:
        connection.close()
