"""The source of readings for `report` and `compare`: each run's folder, or an InfluxDB."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Final

import typer

from roambench.contract.errors import ConfigError
from roambench.spool.influx_settings import readable_at, token_in

if TYPE_CHECKING:
    from roambench.runs.folder import RunFolder
    from roambench.runs.influx.influxql import InfluxServer
    from roambench.runs.info import RunInfo
    from roambench.runs.records import OpenRecords, Records

#: A token that may read; kept apart from the one of the boards, which may only write.
TOKEN_VARIABLES: Final = ("INFLUX_READ_TOKEN", "INFLUX_TOKEN")
_DAY_NS: Final = 86_400 * 10**9


class ReadingsSource(StrEnum):
    """The source of a report's readings."""

    FOLDER = "folder"
    INFLUXDB = "influxdb"


ReadingsOption = Annotated[
    ReadingsSource,
    typer.Option(
        "--readings",
        help="Take readings, phases and events from the run folder, or from the InfluxDB that the run's "
        "settings name.",
    ),
]
InfluxUrlOption = Annotated[
    str, typer.Option("--influx-url", metavar="URL", help="InfluxDB to read from instead of the run's own.")
]
InfluxDbOption = Annotated[
    str,
    typer.Option("--influx-db", metavar="NAME", help="Its database or bucket; NAME/POLICY for a policy."),
]
InfluxTokenFileOption = Annotated[
    Path | None,
    typer.Option(
        "--influx-token-file",
        metavar="FILE",
        help="Token that may read (for InfluxDB 1.x user:password); else INFLUX_READ_TOKEN or INFLUX_TOKEN "
        "of the environment.",
    ),
]


def open_records(
    readings: ReadingsSource, url: str = "", database: str = "", token_file: Path | None = None
) -> OpenRecords | None:
    """The source that `read_runs` and `compare_runs` take; None stands for the run folders themselves.

    ConfigError when an InfluxDB is described that would not be asked.
    """
    if readings is ReadingsSource.FOLDER:
        if url or database or token_file is not None:
            raise ConfigError(["--influx-url, --influx-db and --influx-token-file need --readings influxdb"])
        return None
    return _Influx(url, database, token_file)


@dataclass(frozen=True, slots=True)
class _Influx:
    url: str
    database: str
    token_file: Path | None

    def __call__(self, folder: RunFolder) -> AbstractContextManager[Records]:
        return self._opened(folder)

    @contextmanager
    def _opened(self, folder: RunFolder) -> Iterator[Records]:
        from roambench.runs.influx.influxql import InfluxQL
        from roambench.runs.influx.records import read_back
        from roambench.runs.record_store import RecordStore

        info = folder.info
        with (
            TemporaryDirectory(prefix="roambench-") as scratch,
            closing(RecordStore(Path(scratch) / "records.sqlite")) as store,
        ):
            with InfluxQL(self._server(folder)) as server:
                read_back(server, info.run_id, info.device_names, store, span_of(info))
            yield store

    def _server(self, folder: RunFolder) -> InfluxServer:
        from roambench.runner.places.bench import influxdb_of
        from roambench.runs.influx.influxql import InfluxServer

        own = folder.experiment.influxdb
        boards = influxdb_of(folder.path) if not (own.url or (self.url and self.database)) else None
        url, bucket = (boards.url, boards.bucket) if boards is not None else (own.url, own.bucket)
        url, bucket = self.url or url, self.database or bucket
        if not url:
            raise ConfigError(
                [f"{folder.path}: the run was not sent to an InfluxDB; say where it is: --influx-url"]
            )
        database, _, policy = bucket.partition("/")
        secret = token(self.token_file)
        if secret and (host := readable_at(url)):
            _say_once(
                f"influxdb: the token goes to {host} over plain HTTP, where others can read it on the way "
                "(https:// protects it)"
            )
        return InfluxServer(url, database, policy, token=secret)


@cache
def _say_once(line: str) -> None:
    typer.echo(line, err=True)


def token(file: Path | None) -> str:
    """The token to read with: of the file, else of the environment, else none. It is never stored."""
    if file is None:
        return next((value for name in TOKEN_VARIABLES if (value := os.environ.get(name, "").strip())), "")
    if text := token_in(file):
        return text
    raise ConfigError([f"{file}: expected one line with a token"])


def span_of(info: RunInfo) -> tuple[int, int] | None:
    """Unix nanoseconds that hold the run with a day to spare; None for a run that does not say when it was.

    A board's wall clock may be wrong and emulated time runs ahead of it: a day forgives both.
    """
    try:
        start_ns = int(datetime.fromisoformat(info.created_utc).timestamp()) * 10**9
    except (ValueError, OverflowError):
        return None
    lasted_ns = (info.end_device_ns or 0) - (info.start_device_ns or 0)
    return start_ns - _DAY_NS, start_ns + max(0, lasted_ns) + _DAY_NS
