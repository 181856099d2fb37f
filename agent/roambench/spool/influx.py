"""Writes lines to an InfluxDB and says what became of them; blocking, one caller at a time.

What is queued here is the spool's business. A 204 of InfluxDB means that its log is synced. Every other
answer may come from another server on the way (a proxy's login page, a captive portal), and costs no record.

answer                          what it means here
204 of an InfluxDB              all lines are stored. It is one that says so in a header, of this answer or of
                                `/ping` (InfluxDB 3 before 3.7 says it only there); VictoriaMetrics does, too
201, 400, 422 of an InfluxDB    BatchRefused: that line will never be taken. InfluxDB 1.x stores the good ones
  that names a line             of such a batch ("partial write"); sending them again overwrites them
413                             BatchTooLarge: fewer lines at once; one line alone is not too large
429, 5xx                        Busy: later, and not before Retry-After
any other                       NotWelcome: wrong token, no such bucket, a limit of the server, a web page, a
                                redirect, a proxy that knows no such path (400, too); a person must act
no answer in time               TooSlow: later, fewer at once; they may be stored, and are overwritten then
no answer                       Busy: later, likewise
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
from typing import Final
from urllib.parse import urlencode

import urllib3

from roambench.contract.errors import ConfigError
from roambench.spool.consumer import Record
from roambench.spool.drain import BatchRefused, BatchTooLarge, Busy, NotWelcome, TooSlow
from roambench.spool.influx_connection import InfluxAnswer, InfluxConnection
from roambench.spool.influx_settings import InfluxSettings
from roambench.spool.line_protocol import LineEncoder

#: How InfluxDB 1 and 2, InfluxDB 3 and VictoriaMetrics say that it is a line that they do not take.
_A_LINES_FAULT: Final = re.compile(
    "unable to parse|partial write|field type conflict|parsing failed|cannot unmarshal", re.IGNORECASE
)
#: A "partial write", too, but the server's own setting: max-series-per-database, max-values-per-tag.
_A_LIMIT: Final = re.compile(r"max-[\w-]+ limit exceeded", re.IGNORECASE)
#: Headers of InfluxDB 1 and 2 and VictoriaMetrics, and of InfluxDB 3.7 and later, with every answer.
_OF_INFLUXDB: Final = ("X-Influxdb-Version", "X-Influxdb-Build", "cluster-uuid")
#: The version that Telegraf's listener has: it keeps in memory what it has not passed on.
_TELEGRAF: Final = "1.0"
#: An error message is the server's text: of unknown length and content.
_MESSAGE_CHARACTERS: Final = 300
#: A server that needs longer than `InfluxSettings.timeout_s` is given this many times as long.
_MORE_PATIENCE: Final = 2.0
_CONNECT_S: Final = 10.0


class InfluxWriter:
    """One connection to the server of `settings`; opened by the first write, renewed with the token.

    `unexpected` takes the traceback, without the token, of an error that is none of the network's: a mistake
    in roambench, or what the library trips over as it reads a strange answer. The same one is reported once.
    """

    def __init__(self, settings: InfluxSettings, unexpected: Callable[[str], None]) -> None:
        self._settings = settings
        self._unexpected = unexpected
        self._last_unexpected = ""
        self._token = ""
        self._connection: InfluxConnection | None = None
        self._pinged = False  # this connection's server has said that it is an InfluxDB
        self.patience_s = settings.timeout_s

    def write(self, lines: bytes) -> None:
        """Store `lines` (line protocol, ns); durable there when this returns. Raises as the table says."""
        try:
            connection = self._open()
            answer = self._post(connection, lines)
            known = self._is_influxdb(connection, answer)
        except ConfigError as error:
            raise NotWelcome(str(error)) from None
        except Exception as error:  # of any kind: the records are kept and tried again
            self.close()
            raise self._without_answer(error) from None
        self.patience_s = self._settings.timeout_s
        if answer.status == 204 and known:
            return
        raise self._verdict(answer, known)

    def abort(self) -> None:
        """Break off the write that is under way in another thread, if there is one: it raises Busy."""
        if self._connection is not None:
            self._connection.abort()

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection, self._pinged = self._connection, None, False
        if connection is not None:
            connection.close()

    def _without_answer(self, error: Exception) -> Busy:
        if isinstance(error, TimeoutError | urllib3.exceptions.ReadTimeoutError):
            waited_s = self.patience_s
            self.patience_s = min(_MORE_PATIENCE * self._settings.timeout_s, 2 * waited_s)
            return TooSlow(self._clean(f"{self._settings.url}: no answer within {waited_s:g} s"))
        if not isinstance(error, OSError | urllib3.exceptions.HTTPError):
            self._keep(error)
        return Busy(self._clean(f"{self._settings.url}: {type(error).__name__}: {error}"))

    def _verdict(self, answer: InfluxAnswer, known: bool) -> Exception:
        status, text = answer.status, answer.body.decode("utf-8", "replace")
        if not known and status < 400:
            seen = [answer.headers.get(name, "") for name in ("Location", "Content-Type")]
            text = (
                "and no header of an InfluxDB, so nothing is stored there: a proxy, a login page, Telegraf "
                f"or another server answers: {' '.join(filter(None, seen))} {text}"
            )
        reason = self._clean(f"{self._settings.url}: {status} {text}")
        if status == 413:
            return BatchTooLarge(reason)
        if status in (201, 400, 422) and known and _names_a_line(text):
            return BatchRefused(reason)
        if status == 429 or status >= 500:
            return Busy(reason, _retry_after_s(answer.headers))
        self.close()  # the next attempt reads the token file again
        return NotWelcome(reason)

    def _open(self) -> InfluxConnection:
        if self._connection is None:
            self._token = self._settings.token()
            self._connection = InfluxConnection(self._settings.url)
        return self._connection

    def _post(self, connection: InfluxConnection, lines: bytes) -> InfluxAnswer:
        settings = self._settings
        if settings.api == "v1":
            database, _, policy = settings.bucket.partition("/")
            path, query = "/write", {"db": database, "precision": "ns", **({"rp": policy} if policy else {})}
        else:
            path = "/api/v2/write"
            query = {"org": settings.org or "-", "bucket": settings.bucket, "precision": "ns"}
        headers = {"Content-Type": "text/plain; charset=utf-8", **self._authorization()}
        if settings.gzip:
            lines = gzip.compress(lines)
            headers["Content-Encoding"] = "gzip"
        return connection.ask("POST", f"{path}?{urlencode(query)}", headers, self.patience_s, lines)

    def _is_influxdb(self, connection: InfluxConnection, answer: InfluxAnswer) -> bool:
        """Return whether the answer is an InfluxDB's own; `/ping` is asked where that decides over
        records."""
        if _says_so(answer.headers):
            return True
        if answer.status in (201, 204, 400, 422) and not self._pinged:
            pong = connection.ask("GET", "/ping", self._authorization(), self.patience_s)
            self._pinged = _says_so(pong.headers)
        return self._pinged

    def _authorization(self) -> dict[str, str]:
        if self._settings.api == "v1" and ":" in self._token:
            return {"Authorization": f"Basic {base64.b64encode(self._token.encode()).decode()}"}
        return {"Authorization": f"Token {self._token}"} if self._token else {}

    def _keep(self, error: Exception) -> None:
        report = self._without_token("".join(traceback.format_exception(error)))
        if report != self._last_unexpected:
            self._last_unexpected = report
            self._unexpected(report)

    def _without_token(self, text: str) -> str:
        return text.replace(self._token, "***") if self._token else text

    def _clean(self, text: str) -> str:
        """Fit for a log: one short printable line, without the token."""
        text = self._without_token(text)
        text = "".join(c if c.isprintable() else " " for c in text)
        return " ".join(text.split())[:_MESSAGE_CHARACTERS]


class InfluxSender:
    """A drain's `send`: the records of one spool as lines, in one request."""

    def __init__(self, writer: InfluxWriter, encoder: LineEncoder) -> None:
        self._writer = writer
        self._encoder = encoder
        self._lock = asyncio.Lock()

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
            await write_lines(self._writer, lines)

    async def aclose(self) -> None:
        """Close the writer, after a write that is under way."""
        async with self._lock:
            await asyncio.to_thread(self._writer.close)


async def write_lines(writer: InfluxWriter, lines: str) -> None:
    """Write lines in a thread; one caller at a time. Raises as `InfluxWriter.write`."""
    writing = asyncio.ensure_future(asyncio.to_thread(writer.write, lines.encode()))
    # The thread's own patience is for silence; this is for an answer that comes a byte at a time.
    limit_s = 2 * writer.patience_s + _CONNECT_S
    try:
        async with asyncio.timeout(limit_s):
            await asyncio.shield(writing)
    except (asyncio.CancelledError, TimeoutError) as error:
        while not writing.done():  # who uses the connection next must find it idle
            writer.abort()
            await asyncio.wait({writing}, timeout=0.1)
        with suppress(Exception):
            await writing
        if isinstance(error, TimeoutError):
            raise TooSlow(f"no whole answer within {limit_s:g} s") from None
        raise


def _says_so(headers: Mapping[str, str]) -> bool:
    """Return whether an answer with these headers is an InfluxDB's."""
    return any(headers.get(name, _TELEGRAF) != _TELEGRAF for name in _OF_INFLUXDB)


def _names_a_line(text: str) -> bool:
    return _A_LINES_FAULT.search(text) is not None and _A_LIMIT.search(text) is None


def _retry_after_s(headers: Mapping[str, str]) -> float:
    """Seconds or a date, as HTTP has it; 0 for anything else."""
    value = headers.get("Retry-After", "")
    if value.isdecimal() and len(value) < 10:
        return float(value)
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, TypeError):
        return 0.0
    return max(0.0, (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
