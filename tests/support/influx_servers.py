"""Real time-series servers on loopback, for tests: start, kill -9, start again on the same port and data.

Debian's `influxdb` 1.6.7 keeps nanoseconds, strings and integers and overwrites a point that is written
again; it knows only the version 1 write endpoint, so `Shim` stands in front of it for clients of version 2.
`victoria-metrics` has the version 2 endpoint unmodified, cuts stamps to milliseconds and keeps repeats.
Without the binaries a laptop skips these tests; where CI=true is set that is a failure.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from soaking.influxd import Influxd, Server, ServerMissing, binary, free_port


class VictoriaMetrics(Server):
    """VictoriaMetrics: takes InfluxDB's version 2 writes as they are, keeps milliseconds."""

    def command(self) -> list[str]:
        return [
            binary("victoria-metrics"),
            f"-httpListenAddr=127.0.0.1:{self.port}",
            f"-storageDataPath={self.folder / 'data'}",
            "-retentionPeriod=100y",
            "-search.latencyOffset=0s",
            "-memory.allowedBytes=200MB",
        ]

    def export(self, match: str) -> list[dict[str, Any]]:
        """Every raw sample of the matching series: [{"metric": {...}, "values": [], "timestamps": [ms]}]."""
        self.get("/internal/force_flush")
        lines = self.get("/api/v1/export", **{"match[]": match}).splitlines()
        return [json.loads(line) for line in lines if line]


class Shim(Server):
    """The version 2 write endpoint in front of an Influxd; `requests` tells what came when."""

    def __init__(self, folder: Path, port: int, upstream: Influxd, token: str = "") -> None:
        super().__init__(folder, port)
        self._upstream = upstream
        self._token = token
        self.log = folder / "requests.log"

    def command(self) -> list[str]:
        script = str(Path(__file__).with_name("influx_shim.py"))
        words = [str(self.port), str(self._upstream.port), str(self.log), self._token]
        return [sys.executable, script, *(word for word in words if word)]

    def ready(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def requests(self, path: str = "/api/v2/write") -> list[tuple[int, int, str]]:
        """(CLOCK_MONOTONIC ns at arrival, bytes of the body, device) of every request for `path`."""
        if not self.log.exists():
            return []
        lines = [line.split() for line in self.log.read_text().splitlines()]
        return [(int(ns), int(size), device) for ns, _, asked, size, device in lines if asked == path]


@contextmanager
def running(server: Server) -> Iterator[Server]:
    """The server, started; without its binary the test is skipped, or fails where CI is set."""
    try:
        server.start()
    except ServerMissing as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def influxd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Influxd]:
    """A fresh InfluxDB 1.6 for the module, without any database."""
    server = Influxd(tmp_path_factory.mktemp("influxd"), free_port())
    with running(server):
        yield server


@pytest.fixture(scope="module")
def influx_shim(influxd: Influxd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shim]:
    """The version 2 endpoint in front of `influxd`."""
    shim = Shim(tmp_path_factory.mktemp("shim"), free_port(), influxd)
    with running(shim):
        yield shim


@pytest.fixture(scope="module")
def victoria_metrics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VictoriaMetrics]:
    """A fresh VictoriaMetrics for the module."""
    server = VictoriaMetrics(tmp_path_factory.mktemp("victoria"), free_port())
    with running(server):
        yield server
