"""An InfluxDB of one's own on loopback, which can be killed and started again."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_CONFIG = """
reporting-disabled = true
bind-address = "127.0.0.1:{rpc_port}"
[meta]
  dir = "{folder}/meta"
  logging-enabled = false
[data]
  dir = "{folder}/data"
  wal-dir = "{folder}/wal"
  query-log-enabled = false
[http]
  bind-address = "127.0.0.1:{port}"
  log-enabled = false
[monitor]
  store-enabled = false
[logging]
  level = "warn"
"""
_PATIENCE_S = 20.0


class ServerMissing(OSError):
    """The server is not installed here."""


def binary(name: str) -> str:
    """Path of a server's binary; raises ServerMissing."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/bin:/usr/local/bin")
    if found is None:
        package = {"influxd": "influxdb"}.get(name, name)
        raise ServerMissing(f"{name} is not installed: sudo apt-get install {package} (or make servers)")
    return found


def free_port() -> int:
    """A loopback port below the kernel's ephemeral range.

    While a server is down no outgoing connection of anybody can be given its port.
    """
    for port in random.SystemRandom().sample(range(18000, 32000), 200):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise OSError("no free port between 18000 and 32000")


class Server:
    """One server process with its data in `folder`; `start` after `kill` continues on the same port."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.starts = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._outage = threading.Lock()

    def command(self) -> list[str]:
        raise NotImplementedError

    def ready(self) -> bool:
        """Whether the server answers now."""
        try:
            urllib.request.urlopen(f"{self.url}/ping", timeout=1.0).close()
        except urllib.error.HTTPError as error:
            error.close()
            return True
        except OSError:
            return False
        return True

    def start(self) -> None:
        assert self._process is None
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self.starts += 1
        deadline_s = time.monotonic() + _PATIENCE_S
        while not self.ready():
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                self.kill()
                raise AssertionError(f"server did not start:\n{(self.folder / 'server.log').read_text()}")
            time.sleep(0.02)

    def kill(self) -> None:
        """SIGKILL: what was not durable is gone."""
        self.stop(signal.SIGKILL)

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            try:
                self._process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def get(self, path: str, **parameters: str) -> bytes:
        """The body of a GET; an HTTP error fails the test with its body."""
        query = f"?{urllib.parse.urlencode(parameters)}" if parameters else ""
        return _fetch(urllib.request.Request(f"{self.url}{path}{query}"))


class Influxd(Server):
    """InfluxDB 1.6.7 with its defaults: every write is synced to the WAL before its 204."""

    def command(self) -> list[str]:
        config = self.folder / "influx.conf"
        if not config.exists():
            rpc_port = next(port for port in iter(free_port, 0) if port != self.port)
            config.write_text(_CONFIG.format(folder=self.folder, port=self.port, rpc_port=rpc_port))
        return [binary("influxd"), "-config", str(config)]

    def truncated_logs(self) -> list[tuple[Path, int]]:
        """Logs whose last entry a kill has cut short, and how many of their bytes are whole."""
        logs = [(path, whole_bytes(path.read_bytes())) for path in sorted(self.folder.rglob("*.wal"))]
        return [(path, whole) for path, whole in logs if whole < path.stat().st_size]

    def mend_logs(self) -> None:
        """Do what InfluxDB 1.6 should at its start; call it between `kill` and `start`.

        It writes on behind a truncated entry instead of over it, and its next start reads no further than
        there:
        what it acknowledged in between is gone (tests/local/test_influx_kills.py shows it without us).
        """
        for path, whole in self.truncated_logs():
            print(f"{path.name}: {path.stat().st_size - whole} bytes of a truncated entry cut off")
            os.truncate(path, whole)

    def create_database(self, name: str) -> None:
        self.query(f'CREATE DATABASE "{name}"')

    def write_lines(self, database: str, lines: list[str]) -> None:
        """Acknowledged by the server when this returns."""
        url = f"{self.url}/write?{urllib.parse.urlencode({'db': database})}"
        _fetch(urllib.request.Request(url, "\n".join(lines).encode(), method="POST"))

    def query(self, text: str, database: str = "") -> list[dict[str, Any]]:
        """The series of one InfluxQL statement: [{"name", "tags"?, "columns", "values"}]; ns stamps."""
        values = {"q": text, "epoch": "ns", **({"db": database} if database else {})}
        method = "POST" if text.split()[0].upper() in ("CREATE", "DROP", "ALTER", "DELETE") else "GET"
        request = urllib.request.Request(f"{self.url}/query?{urllib.parse.urlencode(values)}", method=method)
        (result,) = json.loads(_fetch(request))["results"]
        assert "error" not in result, result["error"]
        return list(result.get("series", []))

    def rows(self, text: str, database: str) -> list[dict[str, Any]]:
        """The rows of a SELECT over all series, each with its tags and columns by name."""
        return [
            {**series.get("tags", {}), **dict(zip(series["columns"], row, strict=True))}
            for series in self.query(text, database)
            for row in series["values"]
        ]

    @contextmanager
    def away(self) -> Iterator[None]:
        """It is killed, and started again after the body; one outage after the other."""
        with self._outage:
            self.kill()
            try:
                yield
            finally:
                self.mend_logs()
                self.start()


def whole_bytes(log: bytes) -> int:
    """Bytes of the whole entries of a log of InfluxDB 1.x: kind (1 byte), length (4, big-endian), content."""
    position = 0
    while position + 5 <= len(log):
        end = position + 5 + int.from_bytes(log[position + 1 : position + 5])
        if end > len(log):
            break
        position = end
    return position


def _fetch(request: urllib.request.Request) -> bytes:
    try:
        with urllib.request.urlopen(request, timeout=60.0) as reply:
            return bytes(reply.read())
    except urllib.error.HTTPError as error:
        with error:
            raise AssertionError(f"{request.full_url}: {error.code} {error.read()[:500]!r}") from None
