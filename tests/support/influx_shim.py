"""A proxy that gives InfluxDB 1.6 the write endpoint of version 2, for tests; it also counts what passes.

    python influx_shim.py LISTEN_PORT UPSTREAM_PORT LOG [TOKEN]

POST /api/v2/write?org=&bucket=DB[/RP]&precision=ns becomes POST /write?db=DB&rp=RP&precision=n; everything
else is passed on as it is, so `/query` and `/ping` work at the same address. A server that is away is
answered with 503 and `Retry-After: 0`. With TOKEN anything else in the Authorization header is answered 401.
LOG gets one line per request when it has arrived: CLOCK_MONOTONIC in ns, method, path, bytes of the body, and
the first point's device ("-" without one).
"""

from __future__ import annotations

import gzip
import http.client
import re
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

_PASSED_ON = ("Content-Type", "Content-Encoding", "Accept-Encoding")


class Shim(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    upstream_port = 0
    token = ""
    log_path = Path("/dev/null")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        url = urlsplit(self.path)
        path = self.path
        if url.path == "/api/v2/write":
            asked = {key: values[0] for key, values in parse_qs(url.query).items()}
            database, _, policy = asked.get("bucket", "").partition("/")
            precision = asked.get("precision", "ns").replace("ns", "n")
            values = {"db": database, "precision": precision, **({"rp": policy} if policy else {})}
            path = f"/write?{urlencode(values)}"
        self._pass_on(path, body)

    def do_GET(self) -> None:
        self._pass_on(self.path, b"")

    do_HEAD = do_GET

    def _pass_on(self, path: str, body: bytes) -> None:
        with self.log_path.open("a") as log:
            arrived = f"{time.monotonic_ns()} {self.command} {urlsplit(self.path).path} {len(body)}"
            log.write(f"{arrived} {_device(body)}\n")
        if self.token and self.headers.get("Authorization") != f"Token {self.token}":
            self._answer(401, [], b'{"code":"unauthorized","message":"unauthorized access"}')
            return
        upstream = http.client.HTTPConnection("127.0.0.1", self.upstream_port, timeout=30)
        try:
            headers = {name: self.headers[name] for name in _PASSED_ON if name in self.headers}
            upstream.request(self.command, path, body, headers)
            reply = upstream.getresponse()
            content = reply.read()
        except (OSError, http.client.HTTPException) as error:
            problem = f'{{"code":"unavailable","message":"no server: {type(error).__name__}"}}'
            self._answer(503, [("Retry-After", "0")], problem.encode())
            return
        finally:
            upstream.close()
        kept = [(name, value) for name, value in reply.getheaders() if name.startswith(("Content-T", "X-"))]
        kept += [(name, value) for name, value in reply.getheaders() if name == "Content-Encoding"]
        self._answer(reply.status, kept, content)

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD" and status != 204:
            self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


def _device(body: bytes) -> str:
    found = re.search(rb",device=([^, ]+)", gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body)
    return found[1].decode() if found else "-"


class Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True


def main(arguments: list[str]) -> None:
    Shim.upstream_port = int(arguments[1])
    Shim.log_path = Path(arguments[2])
    Shim.token = arguments[3] if len(arguments) > 3 else ""
    Server(("127.0.0.1", int(arguments[0])), Shim).serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
