"""One kept HTTP connection to an InfluxDB: its answers are bounded, and another thread can break it off."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from http.client import HTTP_PORT, HTTPS_PORT
from typing import Final
from urllib.parse import urlsplit

from urllib3.connection import HTTPConnection, HTTPSConnection

from roambench.spool.proxies import authorization, proxy_to

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
    """Asks one after the other in one thread, by the environment's proxy if there is one; redirects are
    answers like any other. Raises ConfigError as `proxy_to` does.

    `abort` may be called from any thread: what is on its way ends with an error.
    """

    def __init__(self, url: str) -> None:
        parts, proxy = urlsplit(url), proxy_to(url)
        make = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        host = (parts.hostname or "").replace("%25", "%")  # a link-local address and its interface
        self._prefix = parts.path.rstrip("/")
        self._tunnel: tuple[str, int] | None = None  # the server, where a proxy leads to it
        self._for_proxy = authorization(proxy) if proxy is not None else {}
        if proxy is None:
            self._http = make(host, parts.port, timeout=_CONNECT_S)
        else:
            self._http = make(proxy.host or "", proxy.port or HTTP_PORT, timeout=_CONNECT_S)
            if parts.scheme == "https":
                self._tunnel = (f"[{host}]" if ":" in host else host), parts.port or HTTPS_PORT
            else:
                self._prefix = f"http://{parts.netloc}{self._prefix}"
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
                if self._tunnel is not None:
                    http.set_tunnel(*self._tunnel, self._for_proxy)
                http.connect()
            self._socket, http.timeout = http.sock, patience_s
            if self._aborted:
                raise BrokenOff("broken off")
            sent = headers if self._tunnel is not None else {**headers, **self._for_proxy}
            http.request(method, self._prefix + path, body, sent, preload_content=False)
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
