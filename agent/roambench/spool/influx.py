"""Writes lines to an InfluxDB and says what became of them; blocking, one caller at a time.

influxdb-client is used for one synchronous request at a time, in our own thread. Its batching writer is not:
that one keeps what waits in memory only, gives a batch up after its retries, and its `flush` does nothing.
What is queued here is the spool's business, and a 204 of InfluxDB means that its log is synced.

answer                          what it means here
2xx                             all lines are stored
400, 422 that names a line      BatchRefused: that line will never be taken. InfluxDB 1.x stores the good ones
                                of such a batch ("partial write"); sending them again overwrites them
413                             BatchTooLarge: fewer lines at once; one line alone is not too large
429, 5xx                        Busy: later, and not before Retry-After
any other                       NotWelcome: wrong token, no such bucket, a limit of the server, a proxy that
                                knows no such path (400, too); a person must act
no answer                       Busy: later; the lines may be stored, and are overwritten then
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import re
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import urlencode

import urllib3

from roambench.contract.errors import ConfigError
from roambench.spool.consumer import Record
from roambench.spool.drain import BatchRefused, BatchTooLarge, Busy, NotWelcome
from roambench.spool.influx_settings import InfluxSettings
from roambench.spool.line_protocol import LineEncoder

#: How InfluxDB 1 and 2, InfluxDB 3 and VictoriaMetrics say that it is a line that they do not take.
_A_LINES_FAULT: Final = re.compile(
    "unable to parse|partial write|field type conflict|parsing failed|cannot unmarshal", re.IGNORECASE
)
#: A "partial write", too, but the server's own setting: max-series-per-database, max-values-per-tag.
_A_LIMIT: Final = re.compile(r"max-[\w-]+ limit exceeded", re.IGNORECASE)
_CONNECT_S: Final = 5.0
#: An error message is the server's text: of unknown length and content.
_MESSAGE_CHARACTERS: Final = 300


class InfluxWriter:
    """One connection to the server of `settings`; opened by the first write, renewed with the token.

    `unexpected` takes the traceback, without the token, of an error that is none of the network's: a mistake
    in roambench, or what the library trips over as it reads a strange answer. The same one is told once.
    """

    def __init__(self, settings: InfluxSettings, unexpected: Callable[[str], None]) -> None:
        self._settings = settings
        self._unexpected = unexpected
        self._last_unexpected = ""
        self._token = ""
        self._client: Any = None  # influxdb-client has no types
        self._service: Any = None
        self._pool: urllib3.PoolManager | None = None

    def write(self, lines: bytes) -> None:
        """Store `lines` (line protocol, ns); durable there when this returns. Raises as the table says."""
        try:
            self._open()
            status, body, headers = self._post(lines)
        except ConfigError as error:
            raise NotWelcome(str(error)) from None
        except Exception as error:  # whatever it is, the records are kept and tried again
            if not isinstance(error, OSError | urllib3.exceptions.HTTPError):
                self._keep(error)
            raise Busy(self._clean(f"{self._settings.url}: {type(error).__name__}: {error}")) from None
        if 200 <= status < 300:
            return
        reason = self._clean(f"{self._settings.url}: {status} {_message(body)}")
        if status == 413:
            raise BatchTooLarge(reason)
        if status in (400, 422) and _names_a_line(body):
            raise BatchRefused(reason)
        if status == 429 or status >= 500:
            raise Busy(reason, _retry_after_s(headers))
        self.close()  # the next attempt reads the token file again
        raise NotWelcome(reason)

    def close(self) -> None:
        """Close all connections."""
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._pool is not None:
            self._pool.clear()
            self._pool = None

    def _open(self) -> None:
        settings = self._settings
        if self._client is not None or self._pool is not None:
            return
        self._token = settings.token()
        if settings.api == "v1":
            self._pool = urllib3.PoolManager(retries=False, maxsize=1)
            return
        # Half a second of importing (more on a Pi): only where it is needed.
        from influxdb_client.client.influxdb_client import InfluxDBClient
        from influxdb_client.service import write_service

        self._client = InfluxDBClient(
            settings.url,
            self._token,
            org=settings.org or "-",
            timeout=(_CONNECT_S * 1e3, settings.timeout_s * 1e3),
            enable_gzip=settings.gzip,
            connection_pool_maxsize=1,
        )
        # The service below its WriteApi.write, which would decode an answer's bytes as UTF-8 and fall over
        # those that are none: then a 400 could not be told from a server that is away.
        library: Any = write_service
        self._service = library.WriteService(self._client.api_client)

    def _post(self, lines: bytes) -> tuple[int, bytes, Mapping[str, str]]:
        if self._pool is not None:
            return self._post_v1(self._pool, lines)
        from influxdb_client.rest import ApiException

        try:
            reply = self._service.post_write(
                self._settings.org or "-",
                self._settings.bucket,
                lines,
                precision="ns",
                content_type="text/plain; charset=utf-8",
                _preload_content=False,
            )
        except ApiException as error:
            return int(error.status), error.body or b"", dict(error.headers or {})
        return reply.status, reply.data, {}  # reading the body frees the connection for the next batch

    def _post_v1(self, pool: urllib3.PoolManager, lines: bytes) -> tuple[int, bytes, Mapping[str, str]]:
        settings = self._settings
        database, _, policy = settings.bucket.partition("/")
        query = {"db": database, "precision": "ns", **({"rp": policy} if policy else {})}
        headers = {"Content-Type": "text/plain; charset=utf-8"}
        if settings.gzip:
            lines = gzip.compress(lines)
            headers["Content-Encoding"] = "gzip"
        if ":" in self._token:
            headers["Authorization"] = f"Basic {base64.b64encode(self._token.encode()).decode()}"
        elif self._token:
            headers["Authorization"] = f"Token {self._token}"
        reply = pool.request(
            "POST",
            f"{settings.url.rstrip('/')}/write?{urlencode(query)}",
            body=lines,
            headers=headers,
            timeout=urllib3.Timeout(connect=_CONNECT_S, read=settings.timeout_s),
        )
        return reply.status, reply.data, reply.headers

    def _keep(self, error: Exception) -> None:
        told = self._without_token("".join(traceback.format_exception(error)))
        if told != self._last_unexpected:
            self._last_unexpected = told
            self._unexpected(told)

    def _without_token(self, text: str) -> str:
        return text.replace(self._token, "***") if self._token else text

    def _clean(self, text: str) -> str:
        """Fit for a log: one short printable line, without the token."""
        text = self._without_token(text)
        text = "".join(c if c.isprintable() else " " for c in text)
        return " ".join(text.split())[:_MESSAGE_CHARACTERS]


class InfluxSender:
    """A drain's `send`: the records of one spool as lines, in one request.

    Senders that share a writer share its `lock`.
    """

    def __init__(self, writer: InfluxWriter, encoder: LineEncoder, lock: asyncio.Lock | None = None) -> None:
        self._writer = writer
        self._encoder = encoder
        self._lock = lock or asyncio.Lock()

    async def send(self, records: list[Record]) -> int:
        """Write records as points; returns the last sequence number that is durable there."""
        # In the loop's thread: the encoder asks the spool for record contexts. 500 readings take about 2 ms.
        try:
            lines = [self._encoder.line(seq, kind, payload) for seq, kind, payload in records]
        except ValueError as error:
            raise BatchRefused(f"not a point: {error}") from None
        await self.write("\n".join(lines))
        return records[-1][0]

    async def write(self, lines: str) -> None:
        """Write lines that are no records. Raises as `InfluxWriter.write`."""
        async with self._lock:
            writing = asyncio.ensure_future(asyncio.to_thread(self._writer.write, lines.encode()))
            try:
                await asyncio.shield(writing)
            except asyncio.CancelledError:
                # The thread cannot be stopped: who closes the connection next must find it idle.
                with suppress(Exception):
                    await writing
                raise

    async def aclose(self) -> None:
        """Close the writer, after a write that is under way."""
        async with self._lock:
            await asyncio.to_thread(self._writer.close)


def _names_a_line(body: bytes | str) -> bool:
    text = _message(body)
    return _A_LINES_FAULT.search(text) is not None and _A_LIMIT.search(text) is None


def _message(body: bytes | str) -> str:
    return body.decode("utf-8", "replace") if isinstance(body, bytes) else str(body)


def _retry_after_s(headers: Mapping[str, str]) -> float:
    """Seconds or a date, as HTTP has it; 0 for anything else."""
    value = next((text for name, text in headers.items() if name.lower() == "retry-after"), "")
    if value.isdecimal() and len(value) < 10:
        return float(value)
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, TypeError):
        return 0.0
    return max(0.0, (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
