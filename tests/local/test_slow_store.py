"""A quiet run whose InfluxDB takes its time: nothing is on its way to it while something is measured, and the
report says that it was slow."""

from __future__ import annotations

import gzip
import json
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from forked_commands import roambench
from roambench.contract.device_time import DeviceClock
from roambench.contract.events import EventKind
from roambench.contract.phases import ACTIVE_PHASES
from roambench.runs.folder import RunFolder

#: Host seconds that a batch waits for its answer, and in which a busy machine notices that it was broken off.
ANSWER_S, NOTICED_S = 12.0, 2.0


@dataclass
class SlowInflux:
    """`under_way`: device, and from when to when (CLOCK_MONOTONIC, ns) it held a request open."""

    url: str = ""
    under_way: list[tuple[str, int, int]] = field(default_factory=list)


@pytest.fixture
def slow_influx() -> Iterator[SlowInflux]:
    found = SlowInflux()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            arrived_ns = time.monotonic_ns()
            lines = gzip.decompress(self.rfile.read(int(self.headers["Content-Length"])))
            self.connection.settimeout(ANSWER_S)
            try:
                self.connection.recv(1)  # returns when the agent hangs up
                self.close_connection = True
            except TimeoutError:
                self.send_response(204)
                self.send_header("X-Influxdb-Version", "v2.7.11")
                self.end_headers()
            except OSError:
                self.close_connection = True
            device = re.search(rb"device=([^, ]+)", lines)
            assert device is not None
            if b"clock_offset_ms" in lines:
                return  # from the controller, which draws on no board
            found.under_way.append((device[1].decode(), arrived_ns, time.monotonic_ns()))

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.lengthy
@pytest.mark.timeout(600)
def test_a_slow_store_holds_no_batch_in_measured_phases_and_the_report_says_that_it_was_slow(
    launch, slow_influx: SlowInflux
) -> None:
    run = launch(
        f'influxdb.url="{slow_influx.url}"',
        'influxdb.bucket="slow"',
        "energy.quiet=true",
        "fleet.agents=2",
        "trace.steps=3",
        "local.sgd_step_s=0.4",
    ).finish(400)
    assert f"{EventKind.STORE_SLOW}: influxdb: " in run.text()
    agent = json.loads((run.folder() / "agents.json").read_text())["agents"][0]
    clock = DeviceClock(agent["epoch_ns"], agent["time_scale"])
    noticed_ns = clock.from_host_ns(round(NOTICED_S * 1e9)) - clock.from_host_ns(0)
    with RunFolder.open(run.folder()) as folder:
        measured = [
            span
            for name in folder.records.devices()
            for span in folder.records.spans(name)
            if span.phase in ACTIVE_PHASES
        ]
        kinds = {event.kind for name in folder.records.devices() for event in folder.records.events(name)}
    assert len(measured) > 6
    held = [
        (device, span.phase)
        for device, arrived_ns, ended_ns in slow_influx.under_way
        for span in measured
        if span.device == device
        and clock.from_host_ns(arrived_ns) < span.end_ns
        and clock.from_host_ns(ended_ns) > span.start_ns + noticed_ns
    ]
    assert held == []
    assert EventKind.NOT_QUIET not in kinds
    # A sender that was broken off leaves the store alone for a while: not every phase waits for it.
    assert len(slow_influx.under_way) < len(measured)
    done = roambench("report", str(run.folder()), "--json", cwd=run.runs_dir)
    (reported,) = json.loads(done.stdout)["runs"]
    assert any(flag.startswith("a store was slow to take records on ") for flag in reported["flags"])
    noted = [note["kind"] for board in reported["board_states"] for note in board["noted"]]
    assert EventKind.STORE_SLOW in noted
