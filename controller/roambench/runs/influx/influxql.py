"""InfluxQL over HTTP: `GET /query`, the one way of reading that InfluxDB 1.x, 2.x and 3 Core have in common.

What comes back is untrusted: its shape is checked here, its values by the caller.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

import urllib3

from roambench.contract.errors import ConfigError, LinkError
from roambench.spool.proxies import pool_to

_TIMEOUT_S: Final = 60.0
#: A page of 10,000 readings is 1.5 MB; a reply beyond this is not one of ours.
_MOST_REPLY_BYTES: Final = 256 * 2**20


@dataclass(frozen=True, slots=True)
class InfluxServer:
    """The address of a database and its credentials: a token, or for InfluxDB 1.x "user:password".

    On InfluxDB 2 database and policy are what a DBRP mapping leads to a bucket.

    Raises ConfigError for an address that is none, or that carries a password.
    """

    url: str
    database: str
    policy: str = ""  # retention policy; empty: the default one
    token: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
            secret = parts.username is not None or parts.password is not None
        except ValueError:
            good = secret = False
        if secret:
            raise ConfigError(["influxdb: the url may not carry a password: use a token file"])
        if not good:
            raise ConfigError([f"influxdb: url must be like http://influx.lan:8086, got {self.url[:200]!r}"])
        if not self.token.isascii() or not (self.token + "x").isprintable():
            raise ConfigError(["influxdb: the token must be one line of ASCII"])
        if not self.database:
            raise ConfigError(["influxdb: the database (bucket) has no name"])

    def headers(self) -> dict[str, str]:
        """The HTTP headers that carry the token."""
        if ":" in self.token:
            return urllib3.make_headers(basic_auth=self.token)
        return {"Authorization": f"Token {self.token}"} if self.token else {}


@dataclass(frozen=True, slots=True)
class InfluxSeries:
    """One series of an answer: every row has one value per column; `tags` only where grouped by them.

    `partial`: the server cut the answer at its own row limit.
    """

    tags: Mapping[str, str]
    columns: tuple[str, ...]
    rows: list[list[Any]]
    partial: bool


class InfluxQL:
    """Asks one server, over one kept connection; close it, or use it as a context.

    Every failure is a LinkError that names the server and says what it answered. Redirects are not
    followed: they would hand the token to another host.
    """

    def __init__(self, server: InfluxServer, *, timeout_s: float = _TIMEOUT_S) -> None:
        self.server = server
        self._url = server.url.rstrip("/")
        self._pool = pool_to(server.url, timeout=timeout_s, retries=False, headers=server.headers())

    def select(self, query: str) -> list[InfluxSeries]:
        """The series of one statement, with integer nanoseconds as time; none: an empty list."""
        reply = self._reply(query)
        results = reply.get("results")
        if not isinstance(results, list) or len(results) != 1 or not isinstance(results[0], dict):
            raise self._error("answered without one result")
        (result,) = results
        if "error" in result:
            raise self._refused(str(result["error"]))
        series = result.get("series", [])
        if not isinstance(series, list):
            raise self._error("answered with series that are no list")
        return [self._series(one, result.get("partial") is True) for one in series]

    def ping(self) -> str:
        """The server's version, for example "1.8.10", "v2.7.11" or "3.1.0"; empty where it does not say.

        Version 3 tells it nowhere else than here.
        """
        _, headers, _ = self._get("/ping", {})
        return headers.get("X-Influxdb-Version", "")[:40]

    def close(self) -> None:
        """Close all connections."""
        self._pool.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _get(self, path: str, fields: Mapping[str, str]) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and body of any answer but a refusal."""
        try:
            reply = self._pool.request(
                "GET", f"{self._url}{path}", fields=fields, redirect=False, preload_content=False
            )
            try:
                body = reply.read(_MOST_REPLY_BYTES + 1, decode_content=True)
            finally:
                reply.release_conn()
                reply.close()
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise self._error(f"cannot be reached: {_reason(error)}") from None
        if len(body) > _MOST_REPLY_BYTES:
            raise self._error(f"answered more than {_MOST_REPLY_BYTES >> 20} MiB")
        if reply.status in (401, 403):
            raise self._error(
                f"refused us ({reply.status}): the token or the user may not read this database"
            )
        return reply.status, reply.headers, body

    def _reply(self, query: str) -> dict[str, Any]:
        fields = {"db": self.server.database, "q": query, "epoch": "ns"}
        if self.server.policy:
            fields["rp"] = self.server.policy
        status, _, body = self._get("/query", fields)
        try:
            found = json.loads(body, parse_int=_integer, parse_constant=_refuse)
        except (ValueError, RecursionError):
            raise self._error(f"answered {status} with something that is not JSON: {_shown(body)}") from None
        if not isinstance(found, dict):
            raise self._error(f"answered {status} with JSON that is no table")
        if status != 200:
            text = found.get("error", found.get("message", ""))
            raise self._refused(f"{status} {text}".strip())
        if "error" in found:
            raise self._refused(str(found["error"]))
        return found

    def _series(self, found: object, partial: bool) -> InfluxSeries:
        if not isinstance(found, dict):
            raise self._error("answered with a series that is no table")
        columns, rows, tags = found.get("columns"), found.get("values", []), found.get("tags", {})
        if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
            raise self._error("answered with a series without names of columns")
        if not isinstance(rows, list) or not all(
            isinstance(row, list) and len(row) == len(columns) for row in rows
        ):
            raise self._error("answered with rows that do not fit their columns")
        if not isinstance(tags, dict) or not all(isinstance(value, str) for value in tags.values()):
            raise self._error("answered with tags that are no text")
        return InfluxSeries(tags, tuple(columns), rows, partial or found.get("partial") is True)

    def _refused(self, text: str) -> LinkError:
        hint = ""
        if "not found" in text:
            hint = "; does the database exist (on InfluxDB 2: a DBRP mapping of the bucket, docs/storage.md)?"
        return self._error(f"answered: {_shown(text)}{hint}")

    def _error(self, what: str) -> LinkError:
        return LinkError(f"InfluxDB at {self.server.url} (database {self.server.database!r}) {what}")


def quoted(text: str) -> str:
    """A string literal of InfluxQL: nothing inside can end it."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"


def named(name: str) -> str:
    """An identifier of InfluxQL."""
    escaped = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _integer(text: str) -> int | float:
    """The server prints the float -0.0 as -0, and all whole floats without a point."""
    if text == "-0":
        return -0.0
    if len(text) > 400:  # the longest whole float has 309 digits
        raise ValueError("a number with too many digits")
    return int(text)


def _refuse(text: str) -> float:
    raise ValueError(f"{text} is no number")


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", None) or error)[:200]


def _shown(text: str | bytes) -> str:
    return repr(text[:200])
