"""Records of finished runs that a host still has: the records that their controllers never got."""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import io
import json
import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from roambench.agent.readings.unsent import KEPT_BYTES, UnsentRecord
from roambench.contract.errors import RecordConflict
from roambench.contract.json_values import beyond_64_bits, from_values, json_or_none
from roambench.contract.printable import printable
from roambench.contract.whole_file import write_whole
from roambench.provision.agent_asks import AGENT, ask_agent
from roambench.provision.outstanding import read_outstanding, save_outstanding
from roambench.provision.ssh.host_error import HostError
from roambench.provision.ssh.hosts import HostLink
from roambench.provision.ssh.script import Script
from roambench.runs.folder import RunFolder

_EXPORT: Final = Script(f'{AGENT} ctl spool-export "$@" | gzip')
_EXPORT_S: Final = 600.0
_BATCH: Final = 1000
#: Of what is compressed, which may be a thousandth of what it becomes.
_PIECE_BYTES: Final = 8192
#: What compressed records may become: eight times what an agent keeps of all runs.
_MOST_UNPACKED_BYTES: Final = 8 * KEPT_BYTES
#: A record has 64 KiB at most.
_MOST_LINE_BYTES: Final = 2**20
#: Of the payloads of one batch.
_BATCH_BYTES: Final = 2**20


@dataclass(frozen=True, slots=True)
class Fetched:
    """The records fetched from one host: how many records, where they are now, and its outstanding model, if
    any.

    `malformed`: lines of its files that power cuts and full disks left, which are no records. `trouble`: why
    a run's records are still on the host.
    """

    records: int
    place: Path | None = None
    model: Path | None = None
    malformed: int = 0
    trouble: str = ""


def unsent_runs(link: HostLink) -> tuple[str, ...]:
    """The finished runs of which this host has records."""
    found = ask_agent(link, "status").get("unsent_runs")
    return tuple(sorted(found)) if isinstance(found, dict) else ()


def end_orphaned(link: HostLink, run: str | None, place: Callable[[str], Path]) -> Path | None:
    """Take the host out of `run` (None: of any), whose controller is gone; nothing if it is in no such run.

    The model that it still had goes to `place(its run)` before: the host forgets it with the run. Returns
    that file.
    """
    going_on = str(ask_agent(link, "status").get("run", ""))
    if not going_on or run not in (None, going_on):
        return None
    found = read_outstanding(link, going_on)
    saved = None if found is None else save_outstanding(found, link.host.name, going_on, place(going_on))
    ask_agent(link, "end-run")
    return saved


def revive(link: HostLink, run: str | None = None) -> None:
    """The host's dead letters of `run` (None: of every run) become unsent records again."""
    ask_agent(link, "spool-revive", *([] if run is None else [run]))


def fetch_run(link: HostLink, folder: RunFolder, *, dead_letters: bool = False) -> Fetched:
    """The host's records and outstanding model of `folder`'s run into the folder, where they have to be
    before the host forgets them; `dead_letters`: also those that a store had refused for good. What the
    folder has already is left as it is; where it has something else under a record's number, the host keeps
    its records and HostError says so.

    No other process may write the folder: a host that is still in its run waits for a controller that is
    gone.
    """
    count, conflicts = 0, 0
    malformed: list[int] = []
    run = folder.info.run_id
    place = folder.path / "models" / f"outstanding-{link.host.name}.safetensors"
    model = end_orphaned(link, run, lambda going_on: place)
    if dead_letters:
        revive(link, run)
    batch: dict[tuple[str, str], list[tuple[int, int, bytes]]] = {}
    boards = {"": link.host.name, **{host.name: host.name for host in link.bench.read_by(link.host)}}

    def store() -> int:
        refused = 0
        for (board, spool_uuid), rows in batch.items():
            try:
                folder.records.insert(board, spool_uuid, rows)
            except RecordConflict as error:
                refused += error.count
        batch.clear()
        return refused

    held_bytes = 0

    for record in records_of(link.host.name, _export(link, run), malformed.append):
        if record.run != run:
            raise HostError(link.host.name, f"spool-export {run}: a record of {record.run!r}")
        if record.board not in boards:
            raise HostError(link.host.name, f"spool-export {run}: a record of {printable(record.board[:60])}")
        row = record.seq, record.kind, record.content()
        board = boards[record.board]
        if board in folder.info.device_names:  # it may read for a board that took no part
            batch.setdefault((board, record.spool_uuid), []).append(row)
        count += 1
        held_bytes += len(row[2])
        if count % _BATCH == 0 or held_bytes > _BATCH_BYTES:
            conflicts += store()
            held_bytes = 0
    conflicts += store()
    if conflicts:
        raise HostError(
            link.host.name,
            f"{conflicts} of its {count} records of {run} have numbers that others in {folder.path} have: "
            "these are not there, the rest is",
            "the host keeps them all: look for a board with a copied card, or one put back from a backup",
        )
    forget(link, run)
    return Fetched(count, folder.path, model, sum(malformed))


def save_run(link: HostLink, run: str, place: Path) -> Fetched:
    """The host's records of a run whose folder is not here, as JSON lines in `place`, after those that an
    earlier fetch left there; where these cannot be kept beside the new ones, HostError says so, and the host
    keeps its own."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with _alone_in(place.parent):
        packed = _export(link, run)
        malformed: list[int] = []
        count = sum(1 for _ in records_of(link.host.name, packed, malformed.append))
        if place.exists():
            packed = _merged(link.host.name, place, packed)
        write_whole(place, packed)  # this is the only copy when the host has forgotten its own
        forget(link, run)
    return Fetched(count, place, malformed=sum(malformed))


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Wait for other fetches into this folder; what they forget on the host is here by then."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def save_runs(link: HostLink, place: Callable[[str], Path]) -> list[Fetched]:
    """`save_run` to `place(run)` of every run that the host has records of; the others follow where one
    cannot be had."""
    saved = []
    for run in unsent_runs(link):
        try:
            saved.append(save_run(link, run, place(run)))
        except HostError as error:
            trouble = f"{printable(run)}: {error.reason}; {error.next_action}"
            saved.append(Fetched(0, trouble=trouble.removesuffix("; ")))
    return saved


def _merged(host: str, place: Path, packed: bytes) -> bytes:
    """The records in `place` and behind them those of `packed` that are not there, packed as an export."""
    move_away = "move that file away, then fetch again: the host keeps its records"
    malformed: list[int] = []
    try:
        found = {_key(record): record for record in records_of(host, place.read_bytes(), malformed.append)}
    except HostError as error:
        raise HostError(host, f"{place}: {error.reason}", move_away) from None
    for record in records_of(host, packed, malformed.append):
        if found.setdefault(_key(record), record) != record:
            raise HostError(host, f"{place}: has another record under the number {record.seq}", move_away)
    end = json.dumps({"end": len(found), "device": host, "malformed": sum(malformed)})
    merged = io.BytesIO()
    with gzip.open(merged, "wt", encoding="ascii") as file:
        file.writelines(f"{record.to_json()}\n" for record in found.values())
        file.write(f"{end}\n")
    return merged.getvalue()


def _key(record: UnsentRecord) -> tuple[str, str, int]:
    return record.board, record.spool_uuid, record.seq


def forget(link: HostLink, run: str) -> None:
    """The host need not keep the run's records any more."""
    ask_agent(link, "spool-forget", run)


def _export(link: HostLink, run: str) -> bytes:
    """The agent's answer, compressed on the host: a record is 100 bytes of text, of which 20 are news."""
    return link.must(_EXPORT, run, root=True, timeout_s=_EXPORT_S)


def records_of(
    host: str, packed: bytes, malformed: Callable[[int], None], most_bytes: int = _MOST_UNPACKED_BYTES
) -> Iterator[UnsentRecord]:
    """The records in what `ctl spool-export` said, gzipped; HostError unless it says that it is complete,
    and where it unpacks to more than `most_bytes`.

    At the end `malformed` gets the number of the host's lines that were no records.
    """
    count, ended = 0, False
    for line in _lines(host, packed, most_bytes):
        values = _values(host, line)
        if "error" in values:
            raise HostError(host, f"spool-export: {str(values['error'])[:300]}")
        if ended := "end" in values:
            if values["end"] != count or values.get("device") != host:
                raise HostError(
                    host,
                    f"spool-export: {count} records of {values.get('device')!r}, not {values['end']}",
                    "try again",
                )
            if isinstance(found := values.get("malformed"), int):
                malformed(found)
            continue
        count += 1
        try:
            record = from_values(UnsentRecord, values, "spool-export")
            record.content()
        except ValueError:
            raise HostError(host, "spool-export: a record that is none") from None
        yield record
    if not ended:
        raise HostError(
            host, f"spool-export: no end after {count} records", "roambench fleet logs; try again"
        )


def _lines(host: str, packed: bytes, most_bytes: int) -> Iterator[bytes]:
    unpacker = zlib.decompressobj(wbits=31)
    rest, unpacked_bytes = b"", 0
    try:
        for at in range(0, len(packed), _PIECE_BYTES):
            piece = unpacker.decompress(packed[at : at + _PIECE_BYTES])
            unpacked_bytes += len(piece)
            if unpacked_bytes > most_bytes:
                raise HostError(host, "spool-export: more records than any agent keeps")
            *whole, rest = (rest + piece).split(b"\n")
            for line in (*whole, rest):
                if len(line) > _MOST_LINE_BYTES:
                    raise HostError(host, "spool-export: a record larger than any")
            yield from whole
    except zlib.error as error:
        raise HostError(host, f"spool-export: {error}") from None
    if rest:
        yield rest


def _values(host: str, line: bytes) -> dict[str, object]:
    values = json_or_none(dict[str, object], line)
    if values is None or beyond_64_bits(values):
        raise HostError(host, "spool-export: not what an agent says")
    return values
