"""One kept HTTP connection to an InfluxDB: its answers are bounded, and another thread can break it off."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from urllib3.connection import HTTPConnection, HTTPSConnection

_CONNECT_S: Final = 5.0
#: An answer is the server's: of unknown length. What is beyond is not read.
MOST_ANSWER_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True)
class InfluxAnswer:
    """An answer of the server; `headers` know no case, `body` is its beginning."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class BrokenOff(OSError):
    """Raised in the thread that waits for an answer once `InfluxConnection.abort` was called."""


class InfluxConnection:
    """Asks one after the other in one thread; redirects are answers like any other.

    `abort` may be called from any thread: what is on its way ends with an error.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        make = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._http = make(parts.hostname or "", parts.port, timeout=_CONNECT_S)
        self._prefix = parts.path.rstrip("/")
        self._socket: socket.socket | None = None
        self._aborted = False

    def ask(
        self, method: str, path: str, headers: Mapping[str, str], patience_s: float, body: bytes | None = None
    ) -> InfluxAnswer:
        """TimeoutError: connected, and no answer within `patience_s`; another OSError or an HTTPError of
        urllib3: no answer at all. The connection is closed then."""
        http = self._http
        try:
            if not http.is_connected:  # never was, or the server hung up meanwhile
                http.close()
                http.timeout = _CONNECT_S
                http.connect()
            self._socket, http.timeout = http.sock, patience_s
            if self._aborted:
                raise BrokenOff("broken off")
            http.request(method, self._prefix + path, body, headers, preload_content=False)
            reply = http.getresponse()
            with closing(reply):
                content = reply.read(MOST_ANSWER_BYTES + 1, decode_content=True)
            if len(content) > MOST_ANSWER_BYTES:
                self.close()
            return InfluxAnswer(reply.status, reply.headers, content[:MOST_ANSWER_BYTES])
        except BaseException as error:
            self.close()
            if self._aborted:
                raise BrokenOff("broken off") from error
            raise

    def abort(self) -> None:
        """Break off what is on its way, if anything is; the connection is good for nothing afterwards."""
        self._aborted = True
        if self._socket is not None:
            with suppress(OSError):  # it is closed already
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Hang up; the next question connects again."""
        self._socket = None
        self._http.close()
