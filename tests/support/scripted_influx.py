"""A server that answers InfluxDB's writers as a test says, and a writer to it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from roambench.contract.addresses import host_port
from roambench.spool.influx import InfluxWriter
from roambench.spool.influx_settings import InfluxSettings

LINE = b"power,device=pi-01 watts=1.5 1700000000000000000"


@dataclass
class Scripted:
    """An HTTP server that answers what it is told: (status, headers, body) per request, the last for ever.

    With `is_influxdb` every answer says so, as InfluxDB's do; /ping always says it with `pings`.
    """

    url: str
    is_influxdb: bool = True
    pings: bool = False
    version: str = "v2.7.11"
    slow_s: float = 0.0
    answers: list[tuple[int, dict[str, str], bytes]] = field(default_factory=list)
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    decides: Callable[[bytes], tuple[int, dict[str, str], bytes]] | None = (
        None  # by the body, without `answers`
    )

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers.append((status, named, body))


@contextmanager
def serving(host: str) -> Iterator[Scripted]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            script.requests.append((self.path, dict(self.headers), body))
            answers = script.answers
            time.sleep(script.slow_s)
            if script.decides is not None:
                status, headers, content = script.decides(body)
            else:
                status, headers, content = answers.pop(0) if len(answers) > 1 else answers[0]
            if status == 0:  # it dies over the answer
                self.close_connection = True
                return
            self._say(status, headers, content, script.is_influxdb)

        def do_GET(self) -> None:
            script.requests.append((self.path, dict(self.headers), b""))
            self._say(200, {}, b"<html>welcome</html>", script.pings)

        def _say(self, status: int, headers: dict[str, str], content: bytes, is_influxdb: bool) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if is_influxdb:
                self.send_header("X-Influxdb-Version", script.version)
            if status != 204:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            with suppress(OSError):  # who asked does not wait any more
                self.wfile.write(content)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        block_on_close = False

    server = Server((host, 0), Handler)
    script = Scripted(f"http://{host_port(host, server.server_port)}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield script
    server.shutdown()
    thread.join()
    server.server_close()


@contextmanager
def writing(settings: InfluxSettings) -> Iterator[Callable[[bytes], None]]:
    writer = InfluxWriter(settings, print)
    try:
        yield writer.write
    finally:
        writer.close()
